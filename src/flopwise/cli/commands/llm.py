"""``flopwise llm``."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import click
from click.core import ParameterSource

from flopwise.cli import options
from flopwise.cli.command import Choice, Command, Group, Option, devices, media, option, pipelines, shows, training
from flopwise.cli.command import output as output_group
from flopwise.cli.completion import DEVICE
from flopwise.cli.output import Output, writes
from flopwise.cli.places import Read
from flopwise.cli.streams import Progress
from flopwise.errors import InputError

#: Options that a training step takes beside its own, those that a diffusion pipeline does, and an engine's log.
_OF_STEP = ("prompt", "batch", "dtype", "device", "weights", "trust_code", "require", "tp", "pp", "ep", "dp", "fsdp")
_OF_PIPELINE = ("prompt", "batch", "dtype", "device", "memory_fraction")
_OF_LOG = ("device", "gpus", "prompt", "generate", "dtype", "weights", "kv_dtype", "max_batched_tokens", "trust_code")

#: Options that say where a log comes from.
_LOGS = ("log", "metrics", "minutes")

#: The ways of dividing among devices.
_WAYS = ("tp", "pp", "ep", "cp", "dp", "fsdp")


def _seconds(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """A time as text in seconds."""
    from flopwise.analyses.timing.whatif import nanoseconds

    return None if value is None else nanoseconds(value) / 1e9


@click.command(
    "llm",
    cls=Command,
    examples=[
        "config.json --device 2xh100 --tp 2 --prompt 32768 -b 16",
        "config.json --train --fsdp 8 -b 8",
        "pipeline/ --steps 28 --size 1024x1024 --device h100",
    ],
)
@click.argument("model", type=Read())
@option("--prompt", type=int, help="Tokens of the prompt; default: 4096, or the longest that an encoder takes.")
@option("--generate", type=int, default=256, show_default=True, help="Tokens generated after it; 0: none.")
@option("-b", "--batch-size", "batch", type=int, default=1, show_default=True, help="Sequences.")
@option("--dtype", metavar="TYPE", help="Element type of the weights: bf16, fp16, fp32; default: as configured.")
@option("--weights", help="How the weights are stored: int8, fp8, int4, awq, gptq, nf4, mxfp4, q4_k_m ...")
@option("--kv-dtype", "--cache", metavar="TYPE", help="Type of keys and values in the cache: bf16, fp8, int4, q8_0 ...")
@option(
    "--rewrite",
    "rewrites",
    multiple=True,
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
    help="Tokens of an engine's step; longer prompts go through in chunks.",
)
@option("--block-size", type=int, default=16, show_default=True, help="Tokens of a block of the cache.")
@option(
    "--draft",
    metavar="MODEL",
    type=Read(),
    help="A draft model, whose guesses MODEL checks several at a time; mtp: MODEL's own head for a token more.",
)
@option("--accept", type=float, default=0.7, show_default=True, help="The share of guesses that are accepted.")
@option("--draft-tokens", type=int, help="Guesses of a round; default: 4, of mtp as many as heads.")
@option("--shared-prefix", type=int, default=0, help="Tokens at the start that all sequences share.")
@options.convention("conventions", multiple=True, help="Count each part by this convention, too; may be repeated.")
@option("--strict", is_flag=True, help="A key of the configuration that nothing reads is an error, not a note.")
@devices("--require", type=Choice(["fits"]), help="Exit with 1 where the request does not fit its devices.")
@option("--trust-code", is_flag=True, help="Let code that belongs to the model run.")
@devices(
    "--device",
    type=DEVICE,
    help="Least times on a device of 'flopwise devices', and what fits; 2xh100 for several.",
)
@devices("--gpus", type=int, help="Number of devices, divided in every way that --tp and the like leave open.")
@devices("--tp", type=int, help="Devices that share each layer's products.")
@devices("--pp", type=int, help="Stages that share the layers.")
@devices("--ep", type=int, help="Devices that share the experts.")
@devices("--cp", type=int, help="Devices that share the tokens of each sequence.")
@devices("--dp", type=int, help="Replicas that share the batch.")
@devices("--fsdp", type=int, help="--train: ranks that share weights and batch (ZeRO-3).")
@devices(
    "--memory-fraction",
    type=float,
    default=0.9,
    show_default=True,
    help="The part of a device's memory that an engine may use.",
)
@training("--train", is_flag=True, help="A training step instead: --prompt is the length of its sequences.")
@training(
    "--optimizer",
    type=Choice(["sgd", "momentum", "adam", "adamw"]),
    default="adamw",
    show_default=True,
    help="Whose step and state are counted.",
)
@training(
    "--checkpointing",
    type=Choice(["none", "selective", "full"]),
    default="none",
    show_default=True,
    help="What the backward pass recomputes.",
)
@training(
    "--lora",
    metavar="NAME=VALUE,...",
    help="Train low-rank adapters alone: r=16,targets=q_proj,v_proj; with --weights nf4 beside a quantised base.",
)
@training(
    "--lengths",
    metavar="FILE|N",
    help="Tokens of the documents that are packed into the sequences: a number, or a file of numbers.",
)
@training("--measured", metavar="TIME", callback=_seconds, help="Time of a step of a run, such as 350ms, for MFU.")
@training("--tokens-per-s", "rate", type=float, help="Tokens per second of a run on the device, for MFU.")
@media("--image", metavar="WxH", help="Width and height of each image in pixels: 1024x1024.")
@media("--images", type=int, default=1, show_default=True, help="Images per sequence.")
@media("--seconds", type=float, help="Seconds of audio per sequence.")
@pipelines("--steps", type=int, help="Steps of the scheduler; default here and below: the pipeline's own.")
@pipelines("--size", metavar="WxH", help="Width and height of the image in pixels: 1024x1024.")
@pipelines("--frames", type=int, help="Frames of a video.")
@pipelines("--guidance", type=float, help="The scale of guidance.")
@option("--log", metavar="FILE", type=Read(), help="A log of vLLM or SGLang: for each minute, the minimum time.")
@option("--metrics", metavar="URL", help="The same for a running engine, from its Prometheus metrics.")
@option("--minutes", type=int, default=1, show_default=True, help="Minutes to watch --metrics.")
@options.units
@writes("sheet", "content", "llm")
@options.figures("cost and memory against the context")
def command(model: str, output: Output, figures: str | None, figure_format: str, **settings: Any) -> int:
    """The cost of a request to a language model: prompt, each token after it, cache, and what must fit.

    MODEL is a config.json, a folder with one, hf:ORG/NAME, transformers:gpt2 or a GGUF file; or a diffusion pipeline, a
    folder of diffusers or its model_index.json. No weights are read; what the table of architectures does not have,
    transformers and diffusers build without memory.
    """
    from flopwise.formats.torch.diffusion.format import is_pipeline

    if is_pipeline(model):
        _refuse_figures(figures, "to a language model")
        return _diffusion(model, output, settings)
    _refuse(_group(pipelines), "is for a diffusion pipeline, a folder with a model_index.json")
    if settings["log"] is not None or settings["metrics"] is not None:
        _refuse_figures(figures, "to a language model")
        return _log(model, output, settings)
    _refuse(["minutes"], "is for a running engine: give --metrics")
    if settings["require"] is not None and settings["device"] is None:
        raise InputError("--require fits asks of a device: give --device")
    if settings["train"]:
        _refuse(_others({*_OF_STEP, *_group(training), "conventions"}), "is for a request; leave --train out")
        if settings["conventions"]:
            raise InputError("--convention is for a request; --train shows the rules of thumb of training by itself")
        if output.format.name == "html":
            raise InputError("-f html shows a request against its context; leave --train out")
        _refuse_figures(figures, "against its context; leave --train out")
        return _train(model, output, settings)
    _refuse([*_group(training), "fsdp"], "is for a training step: give --train")
    if settings["draft"] is None:
        _refuse(["accept", "draft_tokens"], "is for a draft model: give --draft")
    return _request(model, output, figures, figure_format, settings)


def _group(group: Group) -> list[str]:
    """The names of the options of a group."""
    return [each.name or "" for each in _options() if each.group == group.title]


def _others(own: Container[str]) -> list[str]:
    """The names of the options of what is counted, without some."""
    groups = (output_group.title, shows.title)
    return [each.name or "" for each in _options() if each.group not in groups and each.name not in own]


def _options() -> list[Option]:
    return [each for each in click.get_current_context().command.params if isinstance(each, Option)]


def _refuse(names: Container[str], why: str) -> None:
    """Refuse options of the command line that would change nothing.

    Raises:
        InputError: one of them was given.
    """
    context = click.get_current_context()
    for each in _options():
        given = context.get_parameter_source(each.name or "") is ParameterSource.COMMANDLINE
        if given and each.name in names:
            raise InputError(f"{max(each.opts, key=len)} {why}")


def _refuse_figures(figures: str | None, of: str) -> None:
    """Refuse figures of what has none.

    Raises:
        InputError: they are asked for.
    """
    if figures is not None:
        raise InputError(f"--figures shows a request {of}")


def _chosen(settings: options.Values, names: Iterable[str]) -> options.Values:
    """Some settings; ways of dividing that nobody gave are left out."""
    return {name: settings[name] for name in names if name not in _WAYS or settings[name] is not None}


def _request(model: str, output: Output, figures: str | None, figure_format: str, settings: options.Values) -> int:
    """The page of a request."""
    import flopwise
    from flopwise.report.commands.llm.report import llm_report

    if figures is not None:
        from flopwise.report.drawings import prepare

        prepare(figures)
    chosen = _chosen(settings, _others({*_group(training), *_group(pipelines), *_LOGS, "require"}))
    with Progress() as progress:
        curve = figures is not None or output.format.name == "html"
        result = flopwise.llm(model, progress=progress, curve=curve, **chosen)
        if figures is not None:
            from flopwise.report.commands.llm.figures import draw

            draw(result, figures, figure_format)
    output.write(llm_report(result))
    return _status(settings, result.serving is not None and result.serving.fits)


def _status(settings: options.Values, fits: bool | None) -> int:
    """The exit code: 1 where a fit is asked for that is none, or not known."""
    return 1 if settings["require"] is not None and not fits else 0


def _diffusion(model: str, output: Output, settings: options.Values) -> int:
    """The page of an image or a video of a diffusion pipeline."""
    import flopwise
    from flopwise.report.commands.llm.diffusion import diffusion_report

    own = {*_group(pipelines), *_OF_PIPELINE}
    _refuse(_others(own), f"is for a language model; {model} is a diffusion pipeline")
    with Progress() as progress:
        result = flopwise.diffusion(model, progress=progress, **_chosen(settings, own))
    output.write(diffusion_report(result))
    return 0


def _log(model: str, output: Output, settings: options.Values) -> int:
    """The page of a serving engine's log.

    Raises:
        InputError: the device is missing, or an option that says nothing of a log was given.
    """
    import flopwise
    from flopwise.report.commands.llm.log import log_report

    _refuse(_others({*_OF_LOG, *_LOGS}), "says nothing of a log or metrics")
    if settings["metrics"] is None:
        _refuse(["minutes"], "is for a running engine: give --metrics")
    if settings["device"] is None:
        raise InputError("--log and --metrics hold an engine against its devices: give --device")
    with Progress() as progress:
        result = flopwise.llm_log(model, progress=progress, **_chosen(settings, (*_LOGS, *_OF_LOG)))
    output.write(log_report(result))
    return 0


def _train(model: str, output: Output, settings: options.Values) -> int:
    """The page of a training step."""
    import flopwise
    from flopwise.report.commands.llm.report import training_report

    chosen = _chosen(settings, [name for name in (*_OF_STEP, *_group(training)) if name != "require"])
    rate = chosen.pop("rate")
    with Progress() as progress:
        result = flopwise.llm(model, progress=progress, tokens_per_second=rate, **chosen)
    output.write(training_report(result))
    return _status(settings, result.room is not None and result.room.fits)
