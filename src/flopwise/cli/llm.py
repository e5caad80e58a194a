"""``flopwise llm``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flopwise.cli import options
from flopwise.cli.output import format_of, look_of, write
from flopwise.cli.progress import Progress
from flopwise.errors import InputError
from flopwise.report.formats.writers import SHEET_FORMATS

if TYPE_CHECKING:
    from flopwise.report import Look

FORMATS = (*SHEET_FORMATS, "json")


@click.command("llm")
@click.argument("model")
@click.option("--prompt", type=int, default=4096, show_default=True, metavar="N", help="Tokens of the prompt.")
@click.option("--generate", type=int, default=256, show_default=True, metavar="N", help="Tokens generated after it.")
@click.option("-b", "--batch-size", "batch", type=int, default=1, show_default=True, metavar="N", help="Sequences.")
@click.option("--dtype", metavar="TYPE", help="Element type of the weights: bf16, fp16, fp32; default: as configured.")
@click.option("--kv-dtype", metavar="TYPE", help="Element type of keys and values in the cache: bf16, fp8, int8 ...")
@click.option("--device", metavar="NAME", help="Bound times by a device of 'flopwise devices', and say what fits.")
@click.option("--trust-code", is_flag=True, help="Let code that belongs to the model run.")
@click.option("--train", is_flag=True, help="A training step instead: --prompt is the length of its sequences.")
@click.option("--optimizer", default="adamw", show_default=True, help="--train: sgd, momentum, adam or adamw.")
@click.option(
    "--checkpointing",
    type=click.Choice(["none", "selective", "full"]),
    default="none",
    show_default=True,
    help="--train: what the backward pass computes once more.",
)
@click.option("--dp", type=int, default=1, metavar="N", help="--train: replicas that share the batch.")
@click.option("--fsdp", type=int, default=1, metavar="N", help="--train: ranks that share weights and batch (ZeRO-3).")
@click.option("--tp", type=int, default=1, metavar="N", help="--train: ranks that share each layer's products.")
@click.option("--pp", type=int, default=1, metavar="N", help="--train: stages that share the layers.")
@click.option("--ep", type=int, default=1, metavar="N", help="--train: ranks that share the experts.")
@options.units
@options.output(*FORMATS)
def command(model: str, format_: str | None, **given: Any) -> int:
    """What a request to a language model costs: prompt, each token after it, cache, and what must fit.

    MODEL is a config.json, a folder with one, hf:ORG/NAME or a GGUF file. transformers builds the model and its cache
    without memory for the weights; none are read.
    """
    import flopwise
    from flopwise.report.commands.llm import render_llm

    place = given.pop("output")
    format_ = format_ or format_of(place, FORMATS)
    shares = {way: given.pop(way) for way in ("dp", "fsdp", "tp", "pp", "ep")}
    training = {key: given.pop(key) for key in ("optimizer", "checkpointing")}
    look = look_of(place, given.pop("human"), not given.pop("no_header"))
    if given.pop("train"):
        return _train(model, format_, look, place, {**given, **training}, shares)
    if any(number != 1 for number in shares.values()):
        raise InputError("--dp, --fsdp, --tp, --pp and --ep are for a training step: give --train")
    with Progress() as progress:
        result = flopwise.llm(model, progress=progress, **given)
    write(render_llm(result, format_, look), place)
    return 0


def _train(
    model: str, format_: str, look: Look, place: str | None, given: dict[str, Any], shares: dict[str, int]
) -> int:
    """The page of a training step."""
    from flopwise.analyses.llm.sharding import Sharding
    from flopwise.api.llm import llm_training
    from flopwise.report.commands.llm_training import render_training

    sharding = Sharding(**shares) if any(number != 1 for number in shares.values()) else None
    kept = ("batch", "dtype", "optimizer", "checkpointing", "trust_code")
    with Progress() as progress:
        result = llm_training(
            model,
            sequence=given["prompt"],
            sharding=sharding,
            progress=progress,
            **{key: given[key] for key in kept},
        )
    write(render_training(result, format_, look), place)
    return 0
