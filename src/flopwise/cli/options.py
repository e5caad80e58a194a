"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from flopwise.cli.command import Choice, option
from flopwise.cli.completion import COLUMN, COLUMNS, CONVENTION, Name
from flopwise.cli.places import Model, Read

F = TypeVar("F", bound=Callable[..., Any])


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
    """The names in a text with commas between them; None where nothing is asked for."""
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


def all_of(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator; help texts list them in this order."""

    def decorate(command: F) -> F:
        for each in reversed(options):
            command = each(command)
        return command

    return decorate


_INPUT = option(
    "-i",
    "--input",
    "inputs",
    metavar="NAME:DTYPE:SHAPE[:DATA]",
    multiple=True,
    type=Read(),
    group="Inputs",
    help="Shape of an input, such as x:f32:1x3x224x224; DATA: 1,2,3 or @file.npy. Repeatable.",
)
_BATCH = option(
    "-b", "--batch-size", type=click.IntRange(1), metavar="N", group="Inputs", help="First dimension of the inputs."
)
_BATCHES = option(
    "-b",
    "--batch-size",
    "batch_sizes",
    metavar="N[,N ...]",
    callback=_batch_sizes,
    group="Inputs",
    help="First dimension of the inputs; several sizes, such as 1,8,64, are shown side by side.",
)
_DIM = option(
    "--dim",
    "dims",
    metavar="NAME=VALUE",
    multiple=True,
    callback=dimensions,
    group="Inputs",
    help="Size of a symbolic dimension. Repeatable.",
)
_SIZES = all_of(
    _DIM,
    option(
        "--trip",
        "trips",
        metavar="NAME=N",
        multiple=True,
        callback=dimensions,
        group="Inputs",
        help="How often a loop runs, where the model does not say. Repeatable.",
    ),
)
_ASSUME = option(
    "--assume",
    metavar="NAME=N[,*=N]",
    callback=_assumed,
    group="ONNX",
    help="Sizes of dimensions that nothing else says, such as batch=1,*=64; * stands for all others.",
)
_ONNX = all_of(
    option(
        "--state",
        "states",
        metavar="INPUT=OUTPUT",
        multiple=True,
        callback=_states,
        group="ONNX",
        help="A recurrent state: the input has the shape of the output that feeds it. Repeatable.",
    ),
    _ASSUME,
    option(
        "--largest-graph",
        metavar="MB",
        type=click.IntRange(1),
        callback=lambda ctx, param, value: None if value is None else value << 20,
        group="ONNX",
        help="Megabytes that a graph may take without its weights; default: 512.",
    ),
)

#: The options of ONNX models as the functions of the library call them.
ONNX: tuple[str, ...] = ("trips", "states", "assume", "largest_graph")

_PYTORCH = all_of(
    option(
        "--mode",
        type=Choice(["eval", "train", "as-is"]),
        group="PyTorch",
        help="Mode of its modules; default: eval.",
    ),
    option(
        "--arg",
        "arguments",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_arguments,
        group="PyTorch",
        help="Argument of package.module:callable. Repeatable.",
    ),
    option(
        "--trust-code",
        is_flag=True,
        group="PyTorch",
        help="Let PyTorch load a program from a file, which runs what is in it: TorchScript, operators of its own.",
    ),
)
_NET_LEVEL = option("--level", type=int, group="Caffe", help="Level of the net's state.")
_CAFFE = all_of(
    option(
        "--phase",
        type=Choice(["TEST", "TRAIN"], case_sensitive=False),
        group="Caffe",
        help="Phase of the net.",
    ),
    option("--stage", "stages", metavar="NAME", multiple=True, group="Caffe", help="A stage that is on. Repeatable."),
    _NET_LEVEL,
    option(
        "--weights",
        type=Read(),
        metavar="FILE",
        group="Caffe",
        help="Its .caffemodel; default: the one beside it.",
    ),
)


class _Tokens(click.ParamType):  # type: ignore[type-arg] # generic in newer versions of click only
    """A number of tokens, or for formulas the name of a symbol."""

    name = "tokens"

    def __init__(self, least: int) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = str(value)
        if text.isidentifier():
            return text
        return click.IntRange(self.least).convert(value, param, ctx)


_LANGUAGE = all_of(
    option(
        "--past",
        type=_Tokens(0),
        metavar="P",
        group="Language models",
        help="Tokens in the state (cache) that the model is handed; also of ONNX exports.",
    ),
    option("--new", type=_Tokens(1), metavar="N", group="Language models", help="Tokens fed now; with --past: 1."),
)

#: What fixes the input shapes, and what a format of models needs besides.
shapes = all_of(_INPUT, _BATCH, _SIZES, _ONNX, _PYTORCH, _LANGUAGE, _CAFFE)

#: What fixes the sizes of many models at once.
sizes_of_many = all_of(_DIM, _BATCH, _ASSUME)

#: The same with several batch sizes at once.
shapes_in_batches = all_of(_INPUT, _BATCHES, _SIZES, _ONNX, _PYTORCH, _LANGUAGE, _CAFFE)

_MODEL = click.argument("model", type=Model())

#: MODEL and what fixes its input shapes.
model = all_of(_MODEL, shapes)

#: MODEL and what fixes its input shapes, several batch sizes at once.
model_in_batches = all_of(_MODEL, shapes_in_batches)

no_fold = option(
    "--no-fold",
    is_flag=True,
    group="What to count",
    help="Count operators on weights and constants too, which run once and not in each inference.",
)

rules = option(
    "--rules",
    type=Read(),
    metavar="FILE.py",
    group="What to count",
    help="Python file whose RULES maps operators to your own rules; it is executed.",
)

#: Whose names the layers get.
names_of = option(
    "-c",
    "--convention",
    metavar="NAME",
    type=CONVENTION,
    group="What to show",
    help="Name layers as the tool of a convention does, such as benanza; default: as flopwise does.",
)

#: How operations are added up.
counting = all_of(
    option(
        "-c",
        "--convention",
        metavar="NAME",
        type=CONVENTION,
        default="flops",
        show_default=True,
        group="What to count",
        help="Counting convention: flops, macs, or that of a tool; flopwise conventions lists them.",
    ),
    no_fold,
    rules,
    option(
        "--strict",
        is_flag=True,
        group="What to count",
        help="Exit with 1 unless every count is exact: none unknown, no shape unresolved, no upper bound.",
    ),
)

#: Which scores of attention count.
masked = option(
    "--masked",
    type=Choice(["executed", "needed"]),
    default="executed",
    show_default=True,
    group="What to count",
    help="Which scores of attention count: all, or those that masks leave.",
)

#: Whether a training step is counted, and with what optimizer.
training = all_of(
    option("--train", is_flag=True, group="What to count", help="Count the backward pass and what it keeps, too."),
    option(
        "--attention",
        type=Choice(["math", "flash", "efficient"]),
        group="What to count",
        help="With --train: the kernel of PyTorch's attention; default: the one that it would choose.",
    ),
    option(
        "--optimizer",
        type=Choice(["sgd", "momentum", "adam", "adamw"]),
        group="What to count",
        help="With --train: count this optimizer's step and state.",
    ),
)

#: Whether numbers are rounded for people.
units = option(
    "--human/--exact", default=False, group="What to show", help="4.09 G instead of 4,089,184,256; default: exact."
)


def columns_of(choices: Name) -> Callable[[F], F]:
    """``--columns``, for the columns that a command has."""
    return option(
        "--columns",
        metavar="A,B,C",
        type=choices,
        callback=names,
        group="What to show",
        help="Columns to show, such as name,macs,params; a wrong name lists them all.",
    )


columns = columns_of(COLUMNS)

depth = option(
    "--depth", type=click.IntRange(0), metavar="N", group="What to show", help="With --by module: how many levels."
)

#: What a table shows.
table = all_of(
    option(
        "--by",
        type=Choice(["layer", "op", "module", "dtype"]),
        default="layer",
        show_default=True,
        group="What to show",
        help="One line for each layer, operator, module, or precision that is computed with.",
    ),
    depth,
    columns,
    option("--sort", metavar="COLUMN", type=COLUMN, group="What to show", help="Sort by a column, largest first."),
    option(
        "--top",
        type=click.IntRange(1),
        metavar="N",
        group="What to show",
        help="Show the N most expensive lines (by --sort, else by the count); the rest becomes one line.",
    ),
)


def engine_level(command: F) -> F:
    """``--level`` as an engine's level of optimisation, in place of the level of a Caffe net."""
    options: list[Any] = command.__click_params__  # type: ignore[attr-defined] # click keeps options there
    options[:] = [param for param in options if param.name != "level"]
    level = option("--level", metavar="LEVEL", help="The engine's optimisation: off, basic, extended, all (default).")
    return level(command)
