"""``flopwise llm``."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import click
from click.core import ParameterSource

from flopwise.cli import options
from flopwise.cli.command import Choice, Command, Option, devices, media, option, pipelines, training
from flopwise.cli.completion import DEVICE
from flopwise.cli.output import Output, writes
from flopwise.cli.places import Read
from flopwise.cli.streams import Progress
from flopwise.errors import InputError

#: Options of a request alone.
_OF_REQUEST = (
    "generate",
    "draft",
    "accept",
    "draft_tokens",
    "kv_dtype",
    "logits",
    "max_batched_tokens",
    "memory_fraction",
    "block_size",
    "shared_prefix",
    "gpus",
    "cp",
    "image",
    "images",
    "seconds",
)

#: Options of a diffusion pipeline alone, and those that it shares with language models.
_OF_PIPELINE = ("steps", "size", "frames", "guidance")
_SHARED = ("prompt", "batch", "dtype", "device", "memory_fraction")

#: Options that say something of an engine's log, too.
_OF_LOG = ("device", "gpus", "prompt", "generate", "dtype", "weights", "kv_dtype", "max_batched_tokens", "trust_code")

#: The ways of dividing among devices.
_WAYS = ("tp", "pp", "ep", "cp", "dp", "fsdp")


@click.command(
    "llm",
    cls=Command,
    examples=[
        "config.json --device 2xh100 --tp 2 --prompt 32768 -b 16",
        "config.json --train --fsdp 8 -b 8",
        "pipeline/model_index.json --steps 28 --size 1024x1024 --device h100",
    ],
)
@click.argument("model", type=Read())
@option(
    "--prompt", type=int, metavar="N", help="Tokens of the prompt; default: 4096, of an encoder those it was made for."
)
@option("--generate", type=int, default=256, show_default=True, metavar="N", help="Tokens generated after it; 0: none.")
@option("-b", "--batch-size", "batch", type=int, default=1, show_default=True, metavar="N", help="Sequences.")
@option("--dtype", metavar="TYPE", help="Element type of the weights: bf16, fp16, fp32; default: as configured.")
@option(
    "--weights", metavar="NAME", help="How the weights are stored: int8, fp8, int4, awq, gptq, nf4, mxfp4, q4_k_m ..."
)
@option("--kv-dtype", "--cache", metavar="TYPE", help="Type of keys and values in the cache: bf16, fp8, int4, q8_0 ...")
@option(
    "--rewrite",
    "rewrites",
    multiple=True,
    metavar="NAME",
    help="Also the figures of a step after a rewrite that engines apply: absorb-mla.",
)
@option(
    "--logits",
    type=Choice(["last", "all"]),
    default="last",
    show_default=True,
    help="Positions of the prompt that an engine scores.",
)
@option(
    "--max-batched-tokens",
    type=int,
    default=8192,
    show_default=True,
    metavar="N",
    help="Tokens of an engine's step; longer prompts go through in chunks.",
)
@option("--block-size", type=int, default=16, show_default=True, metavar="N", help="Tokens of a block of the cache.")
@option(
    "--draft",
    metavar="MODEL",
    type=Read(),
    help="A draft model, whose guesses MODEL checks several at a time; mtp: MODEL's own head for a token more.",
)
@option(
    "--accept", type=float, default=0.7, show_default=True, metavar="X", help="The share of guesses that are accepted."
)
@option("--draft-tokens", type=int, metavar="N", help="Guesses of a round; default: 4, of mtp as many as heads.")
@option("--shared-prefix", type=int, default=0, metavar="N", help="Tokens at the start that all sequences share.")
@options.convention("conventions", multiple=True, help="Count each part by this convention, too; may be repeated.")
@option("--trust-code", is_flag=True, help="Let code that belongs to the model run.")
@devices(
    "--device",
    metavar="NAME",
    type=DEVICE,
    help="Least times on a device of 'flopwise devices', and what fits; 2xh100 for several.",
)
@devices("--gpus", type=int, metavar="N", help="So many devices, divided in every way that --tp ... do not fix.")
@devices("--tp", type=int, metavar="N", help="Devices that share each layer's products.")
@devices("--pp", type=int, metavar="N", help="Stages that share the layers.")
@devices("--ep", type=int, metavar="N", help="Devices that share the experts.")
@devices("--cp", type=int, metavar="N", help="Devices that share the tokens of each sequence.")
@devices("--dp", type=int, metavar="N", help="Replicas that share the batch.")
@devices("--fsdp", type=int, metavar="N", help="--train: ranks that share weights and batch (ZeRO-3).")
@devices(
    "--memory-fraction",
    type=float,
    default=0.9,
    show_default=True,
    metavar="X",
    help="The part of a device's memory that an engine may use.",
)
@training("--train", is_flag=True, help="A training step instead: --prompt is the length of its sequences.")
@training("--optimizer", default="adamw", show_default=True, help="sgd, momentum, adam or adamw.")
@training(
    "--checkpointing",
    type=Choice(["none", "selective", "full"]),
    default="none",
    show_default=True,
    help="What the backward pass recomputes.",
)
@training(
    "--lora",
    metavar="SPEC",
    help="Train low-rank adapters alone: r=16,targets=q_proj,v_proj; with --weights nf4 beside a quantised base.",
)
@training(
    "--lengths",
    metavar="FILE|N",
    help="Tokens of the documents that are packed into the sequences: a number, or a file of numbers.",
)
@training("--measured", type=float, metavar="SECONDS", help="Seconds of a step of a run on the device, for MFU.")
@training("--tokens-per-s", "rate", type=float, metavar="X", help="Tokens per second of a run on the device, for MFU.")
@media("--image", metavar="WxH", help="Width and height of each image in pixels: 1024x1024.")
@media("--images", type=int, default=1, show_default=True, metavar="N", help="Images of each sequence.")
@media("--seconds", type=float, metavar="X", help="Seconds of sound of each sequence.")
@pipelines("--steps", type=int, metavar="N", help="Steps of the scheduler; default of these: as the pipeline has it.")
@pipelines("--size", metavar="WxH", help="Width and height of the image in pixels: 1024x1024.")
@pipelines("--frames", type=int, metavar="N", help="Frames of a video.")
@pipelines("--guidance", type=float, metavar="X", help="The scale of guidance.")
@option("--log", metavar="FILE", type=Read(), help="A log of vLLM or SGLang: the time of each minute beside its floor.")
@option("--metrics", metavar="URL", help="The same of an engine that runs, by its Prometheus metrics.")
@option("--minutes", type=int, default=1, show_default=True, metavar="N", help="How long --metrics are watched.")
@options.units
@writes("sheet", "content", "llm")
@options.figures("cost and memory against the context")
def command(model: str, output: Output, figures: str | None, figure_format: str, **settings: Any) -> int:
    """The cost of a request to a language model: prompt, each token after it, cache, and what must fit.

    MODEL is a config.json, a folder with one, hf:ORG/NAME or a GGUF file; or a diffusion pipeline, a folder of
    diffusers or its model_index.json. transformers and diffusers build the model without memory for the weights; none
    are read.
    """
    import flopwise
    from flopwise.readers.torch.diffusion.format import is_pipeline
    from flopwise.report.commands.llm.report import llm_report

    del settings["human"]
    if is_pipeline(model):
        if figures is not None:
            raise InputError("--figures shows a request to a language model")
        return _diffusion(model, output, settings)
    _refuse(
        {name: f"--{name}" for name in _OF_PIPELINE}, "is for a diffusion pipeline, a folder with a model_index.json"
    )
    for name in _OF_PIPELINE:
        del settings[name]
    shares = {way: n for way in _WAYS if (n := settings.pop(way)) is not None}
    trained = {key: settings.pop(key) for key in ("optimizer", "checkpointing", "lora", "lengths")}
    run = {"tokens_per_second": settings.pop("rate"), "measured": settings.pop("measured")}
    engine = {name: settings.pop(name) for name in ("log", "metrics", "minutes")}
    if engine["log"] is not None or engine["metrics"] is not None:
        if figures is not None:
            raise InputError("--figures shows a request to a language model")
        return _log(model, output, engine, settings)
    _refuse({"minutes": "--minutes"}, "is for a running engine: give --metrics")
    if settings.pop("train"):
        _refuse({name: "--" + name.replace("_", "-") for name in _OF_REQUEST}, "is for a request; leave --train out")
        if settings["rewrites"]:
            raise InputError("--rewrite is for a request; leave --train out")
        if settings["conventions"]:
            raise InputError("--convention is for a request; --train shows the rules of thumb of training by itself")
        if output.format.name == "html":
            raise InputError("-f html shows a request against its context; leave --train out")
        if figures is not None:
            raise InputError("--figures shows a request against its context; leave --train out")
        return _train(model, output, {**settings, **trained}, {**shares, **run})
    _refuse(
        {"optimizer": "--optimizer", "checkpointing": "--checkpointing", "lora": "--lora", "lengths": "--lengths"},
        "is for a training step: give --train",
    )
    _refuse({"rate": "--tokens-per-s", "measured": "--measured"}, "is for a training step: give --train")
    if settings["draft"] is None:
        _refuse({"accept": "--accept", "draft_tokens": "--draft-tokens"}, "is for a draft model: give --draft")
    if "fsdp" in shares:
        raise InputError("--fsdp is for a training step: give --train")
    if figures is not None:
        from flopwise.report.drawings import prepare

        prepare(figures)
    with Progress() as progress:
        curve = figures is not None or output.format.name == "html"
        result = flopwise.llm(model, progress=progress, curve=curve, **settings, **shares)
        if figures is not None:
            from flopwise.report.commands.llm.figures import draw

            draw(result, figures, figure_format)
    output.write(llm_report(result))
    return 0


def _refuse(names: dict[str, str], why: str) -> None:
    """Refuse options of the command line that would change nothing.

    Raises:
        InputError: one of them was given.
    """
    context = click.get_current_context()
    for name, written in names.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise InputError(f"{written} {why}")


def _others(own: Container[str]) -> dict[str, str]:
    """The options of what is counted, by name, without some."""
    return {
        option.name: max(option.opts, key=len)
        for option in click.get_current_context().command.params
        if isinstance(option, Option) and option.group not in ("Output", "What to show") and option.name not in own
    }


def _diffusion(model: str, output: Output, settings: dict[str, Any]) -> int:
    """The page of an image or a video of a diffusion pipeline."""
    import flopwise
    from flopwise.report.commands.llm.diffusion import diffusion_report

    own = {*_OF_PIPELINE, *_SHARED}
    _refuse(_others(own), f"is for a language model; {model} is a diffusion pipeline")
    with Progress() as progress:
        result = flopwise.diffusion(model, progress=progress, **{name: settings[name] for name in own})
    output.write(diffusion_report(result))
    return 0


def _log(model: str, output: Output, engine: dict[str, Any], settings: dict[str, Any]) -> int:
    """The page of a serving engine's log.

    Raises:
        InputError: the device is missing, or an option that says nothing of a log was given.
    """
    import flopwise
    from flopwise.report.commands.llm.log import log_report

    _refuse(_others({*_OF_LOG, *engine}), "says nothing of a log or metrics")
    if engine["metrics"] is None:
        _refuse({"minutes": "--minutes"}, "is for a running engine: give --metrics")
    if settings["device"] is None:
        raise InputError("--log and --metrics hold an engine against its devices: give --device")
    with Progress() as progress:
        result = flopwise.llm_log(model, progress=progress, **engine, **{name: settings[name] for name in _OF_LOG})
    output.write(log_report(result))
    return 0


def _train(model: str, output: Output, settings: dict[str, Any], more: dict[str, Any]) -> int:
    """The page of a training step."""
    import flopwise
    from flopwise.report.commands.llm.report import training_report

    keys = (
        "prompt",
        "batch",
        "dtype",
        "device",
        "optimizer",
        "checkpointing",
        "lora",
        "lengths",
        "weights",
        "trust_code",
    )
    chosen: dict[str, Any] = {key: settings[key] for key in keys}
    with Progress() as progress:
        result = flopwise.llm(model, train=True, progress=progress, **chosen, **more)
    output.write(training_report(result))
    return 0
