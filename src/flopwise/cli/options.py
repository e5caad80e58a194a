"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from flopwise.cli.command import (
    Choice,
    Group,
    caffe,
    counts,
    devices,
    inputs,
    jax,
    language,
    onnx,
    option,
    output,
    pytorch,
    shows,
)
from flopwise.cli.completion import COLUMN, COLUMNS, CONVENTION, DEVICE, Name
from flopwise.cli.places import Model, Read, Store, Written, WrittenFolder
from flopwise.errors import InputError
from flopwise.report.formats.format import FIGURES

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device

#: What the options of a command say: parameter -> value.
Values: TypeAlias = "dict[str, Any]"

F = TypeVar("F", bound=Callable[..., object])


def dimensions(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    """NAME=VALUE of each value, as a mapping to whole numbers."""
    dims: dict[str, int] = {}
    for value in values:
        name, equals, number = value.rpartition("=")
        if not equals or not name or not number.isdigit():
            raise click.BadParameter(f"{value!r} is not NAME=VALUE with a whole number", ctx, param)
        dims[name] = int(number)
    return dims


def names(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str] | None:
    """The names in a comma-separated text; None for no text."""
    return [part.strip() for part in value.split(",") if part.strip()] if value else None


def _states(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    states = {}
    for value in values:
        name, equals, output = value.rpartition("=")
        if not equals or not name or not output:
            raise click.BadParameter(f"{value!r} is not of the form INPUT=OUTPUT", ctx, param)
        states[name] = output
    return states


def _assumed(ctx: click.Context, param: click.Parameter, value: str | None) -> dict[str, int]:
    return dimensions(ctx, param, tuple(part.strip() for part in value.split(","))) if value else {}


def _arguments(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    arguments: dict[str, str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not all(part.isidentifier() for part in name.split(".")):
            raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE", ctx, param)
        arguments[name] = value
    return arguments


def _batch_sizes(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isdecimal() and part.isascii() and 0 < len(part) < 19 and int(part) for part in parts):
        raise click.BadParameter(f"{value!r} is not a list of whole numbers of at least 1, such as 1,8,64", ctx, param)
    return tuple(dict.fromkeys(map(int, parts)))


def _device(ctx: click.Context, param: click.Parameter, value: str | None) -> Device | None:
    if value is None:
        return None
    from flopwise.analyses.timing import machine

    try:
        return machine.named(value)
    except InputError:
        number, times, name = value.lower().partition("x")
        if number.strip().isdigit() and times and name:
            raise InputError(f"--device {value}: give one device; flopwise llm divides language models") from None
        raise


def all_of(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator; help texts list them in this order."""

    def decorate(command: F) -> F:
        for each in reversed(options):
            command = each(command)
        return command

    return decorate


_INPUT = inputs(
    "-i",
    "--input",
    "inputs",
    metavar="NAME:DTYPE:SHAPE[:DATA]",
    multiple=True,
    type=Read(),
    help="Shape of an input, such as x:f32:1x3x224x224; DATA: 1,2,3 or @file.npy. Repeatable.",
)
_BATCH = inputs("-b", "--batch-size", type=click.IntRange(1), help="First dimension of the inputs.")
_BATCHES = inputs(
    "-b",
    "--batch-size",
    "batch_sizes",
    metavar="N,...",
    callback=_batch_sizes,
    help="First dimension of the inputs; several sizes, such as 1,8,64, are shown side by side.",
)


def _sizes(name: str, parameter: str, value: str, help: str) -> Callable[[F], F]:
    return inputs(name, parameter, metavar=f"NAME={value}", multiple=True, callback=dimensions, help=help)


_DIM = _sizes("--dim", "dims", "VALUE", "Size of a symbolic dimension. Repeatable.")
_TRIP = _sizes("--trip", "trips", "N", "How often a loop runs, where the model does not say. Repeatable.")
_ASSUME = onnx(
    "--assume",
    metavar="NAME=N,...",
    callback=_assumed,
    help="Sizes of dimensions that nothing else says, such as batch=1,*=64; * stands for all others.",
)
_ONNX = all_of(
    onnx(
        "--state",
        "states",
        metavar="INPUT=OUTPUT",
        multiple=True,
        callback=_states,
        help="A recurrent state: the input has the shape of the output that feeds it. Repeatable.",
    ),
    _ASSUME,
    onnx(
        "--largest-graph",
        type=click.IntRange(1),
        callback=lambda ctx, param, value: None if value is None else value << 20,
        help="Megabytes that a graph may take without its weights; default: 512.",
    ),
)

#: The options of ONNX models as the functions of the library call them.
ONNX: tuple[str, ...] = ("trips", "states", "assume", "largest_graph")

_PYTORCH = all_of(
    pytorch("--mode", type=Choice(["eval", "train", "as-is"]), help="Mode of its modules; default: eval."),
    pytorch(
        "--arg",
        "arguments",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_arguments,
        help="Argument of package.module:callable. Repeatable.",
    ),
    pytorch(
        "--trust-code",
        is_flag=True,
        help="Let PyTorch load a program from a file, which runs its code: TorchScript, custom operators.",
    ),
)
_JAX = all_of(
    jax("--per-device", is_flag=True, help="What all devices of a mesh run counts once, as on each of them."),
)
_CAFFE = all_of(
    caffe("--phase", type=Choice(["TEST", "TRAIN"], case_sensitive=False), help="Phase of the net."),
    caffe("--stage", "stages", multiple=True, help="A stage that is on. Repeatable."),
    caffe("--level", type=int, help="Level of the net's state."),
    caffe("--weights", type=Read(), metavar="FILE", help="Its .caffemodel; default: the one beside it."),
)


class _Tokens(click.ParamType):  # type: ignore[type-arg] # generic in newer versions of click only
    """A number of tokens, or for formulas the name of a symbol."""

    name = "tokens"

    def __init__(self, least: int) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | int:
        text = str(value)
        if text.isidentifier():
            return text
        return click.IntRange(self.least).convert(value, param, ctx)


_LANGUAGE = all_of(
    language(
        "--past",
        type=_Tokens(0),
        metavar="N",
        help="Tokens that are already in the state (cache); for ONNX exports, too.",
    ),
    language("--new", type=_Tokens(1), metavar="N", help="Tokens fed now; with --past: 1."),
)
_FORMATS = all_of(_DIM, _TRIP, _ONNX, _PYTORCH, _JAX, _LANGUAGE, _CAFFE)

#: What fixes the input shapes, and what a format of models needs besides.
shapes = all_of(_INPUT, _BATCH, _FORMATS)

#: What fixes the sizes of many models at once.
sizes_of_many = all_of(_DIM, _BATCH, _ASSUME)

#: What fixes the input shapes, with several batch sizes at once.
shapes_in_batches = all_of(_INPUT, _BATCHES, _FORMATS)

_MODEL = click.argument("model", type=Model())

#: MODEL and what fixes its input shapes.
model = all_of(_MODEL, shapes)

#: MODEL and what fixes its input shapes, several batch sizes at once.
model_in_batches = all_of(_MODEL, shapes_in_batches)

folding = counts(
    "--fold-constants/--no-fold",
    "folding",
    default=None,
    help="Leave out operators on weights and constants alone, or count them; default: left out of a file, where they "
    "run once, counted in a program, where they run in each call.",
)

rules = counts(
    "--rules",
    type=Read(),
    metavar="FILE.py",
    help="Python file whose RULES maps operators to your own rules; it is executed.",
)


def convention(*parameter: str, help: str, group: Group = counts, **settings: Any) -> Callable[[F], F]:
    """``-c``, for what a command does with a convention."""
    return group("-c", "--convention", *parameter, type=CONVENTION, help=help, **settings)


#: Whose names the layers get.
names_of = convention(
    group=shows, help="Name layers as the tool of a convention does, such as benanza; default: as flopwise does."
)

#: How operations are added up.
counting = all_of(
    convention(
        default="flops",
        show_default=True,
        help="Counting convention: flops, macs, or that of a tool; flopwise conventions lists them.",
    ),
    folding,
    rules,
    counts(
        "--strict",
        is_flag=True,
        help="Exit with 1 unless every count is exact, backward too: none unknown or bounded, no shape unresolved.",
    ),
)

#: The element type that a model counts as.
element_type = counts(
    "--dtype",
    "element_type",
    metavar="TYPE",
    help="Count all floating-point tensors as of this type: fp16, bf16, fp32; default: their own.",
)

#: Which scores of attention count.
masked = counts(
    "--masked",
    type=Choice(["executed", "needed"]),
    default="executed",
    show_default=True,
    help="Which scores of attention count: all, or those after masking.",
)

#: Whether a training step is counted, and with what optimizer.
training = all_of(
    counts("--train", is_flag=True, help="Count the backward pass and what it keeps, too."),
    counts(
        "--attention",
        type=Choice(["math", "flash", "efficient"]),
        help="With --train: the kernel of PyTorch's attention; default: the one that it would choose.",
    ),
    counts(
        "--optimizer",
        type=Choice(["sgd", "momentum", "adam", "adamw"]),
        help="With --train: count this optimizer's step and state.",
    ),
    counts(
        "--lora",
        metavar="NAME=VALUE,...",
        help="With --train: train low-rank adapters beside linear layers alone: r=16,targets=q_proj,v_proj.",
    ),
)

#: Whether numbers are rounded for people.
units = shows("--human/--exact", default=False, help="4.09 G instead of 4,089,184,256; default: exact.")


def by(*choices: str, help: str, default: str = "") -> Callable[[F], F]:
    """``--by``, for the groupings that a command has; the first is the default unless another is named."""
    return shows("--by", type=Choice(choices), default=default or choices[0], show_default=True, help=help)


def top(help: str) -> Callable[[F], F]:
    """``--top``, for what a command shows the first of."""
    return shows("--top", type=click.IntRange(1), help=help)


def columns_of(choices: Name) -> Callable[[F], F]:
    """``--columns``, for the columns that a command has."""
    return shows(
        "--columns",
        metavar="NAME,...",
        type=choices,
        callback=names,
        help="Columns to show, such as name,macs,params; a wrong name lists them all.",
    )


def sorting(**settings: Any) -> Callable[[F], F]:
    """``--sort``."""
    return shows("--sort", help="Sort by a column, largest first.", **settings)


depth = shows("--depth", type=click.IntRange(0), help="With --by module: how many levels.")

#: What a table shows.
table = all_of(
    by(
        *("layer", "op", "module", "dtype"),
        help="One line for each layer, operator, module, or precision that is computed with.",
    ),
    depth,
    columns_of(COLUMNS),
    sorting(type=COLUMN),
    top("Show the N most expensive lines (by --sort, else by the count); the rest becomes one line."),
)


#: The device in whose memory a model is to fit.
fitting = devices(
    "--device",
    type=DEVICE,
    callback=_device,
    help="Say whether it fits the memory of a device of 'flopwise devices'.",
)


def also(name: str, help: str) -> Callable[[F], F]:
    """An option that writes one more file beside the report."""
    return output(name, type=Written(), metavar="FILE", help=help)


def figures(what: str) -> Callable[[F], F]:
    """``--figures`` and ``--figure-format``, for what a command draws into a directory."""
    return all_of(
        output(
            "--figures",
            type=WrittenFolder(*(f".{format}" for format in FIGURES)),
            metavar="DIR",
            help=f"Also draw {what}, into this directory.",
        ),
        output(
            "--figure-format",
            type=Choice(FIGURES),
            default="png",
            show_default=True,
            help="Format of the figures.",
        ),
    )


#: The store of measured times.
store = option("--store", type=Store(), metavar="FILE", help="The store; default: FLOPWISE_STORE or the user's data.")


def _tries(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in (value or "").split(",") if part.strip())
    for part in parts:
        if "=" not in part:
            raise click.BadParameter(f"{part!r} is not of the form NAME=VALUE", ctx, param)
    return parts


def tries(about: str) -> Callable[[F], F]:
    """``--try``, for what-ifs of the user's own."""
    return option("--try", "tries", metavar="NAME=VALUE,...", callback=_tries, help=f"Also what this brings; {about}")


def engine_level(command: F) -> F:
    """``--level`` as an engine's level of optimisation, in place of the level of a Caffe net."""
    options: list[click.Parameter] = command.__click_params__  # type: ignore[attr-defined] # click keeps options there
    options[:] = [param for param in options if param.name != "level"]
    level = option("--level", help="The engine's optimisation: off, basic, extended, all (default).")
    return level(command)


def pass_of_a_step(command: F) -> F:
    """``--phase`` as the forward or backward pass of a step, beside the phases of a Caffe net."""
    options: list[click.Parameter] = command.__click_params__  # type: ignore[attr-defined] # click keeps options there
    options[:] = [param for param in options if param.name != "phase"]
    choices = Choice(["forward", "backward", "TEST", "TRAIN"])
    phase = option("--phase", type=choices, help="Only this pass of a step; TEST and TRAIN are phases of a Caffe net.")
    return phase(command)
