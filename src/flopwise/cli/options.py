"""Options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import click

from flopwise.readers.formats import endings

F = TypeVar("F", bound=Callable[..., Any])


def _dim(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    dims: dict[str, int] = {}
    for value in values:
        name, equals, number = value.rpartition("=")
        if not equals or not name or not number.isdigit():
            raise click.BadParameter(f"{value!r} is not NAME=VALUE with a whole number", ctx, param)
        dims[name] = int(number)
    return dims


def _names(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str] | None:
    return [part.strip() for part in value.split(",") if part.strip()] if value else None


def _argument(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not all(part.isidentifier() for part in name.split(".")):
            raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE", ctx, param)
        found[name] = value
    return found


def _sizes(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isdecimal() and part.isascii() and 0 < len(part) < 19 and int(part) for part in parts):
        raise click.BadParameter(f"{value!r} is no list of whole numbers from 1 on, such as 1,8,64", ctx, param)
    return tuple(dict.fromkeys(map(int, parts)))


_BATCH = click.option("-b", "--batch-size", type=click.IntRange(1), help="First dimension of the inputs.")
_BATCHES = click.option(
    "-b",
    "--batch-size",
    "batch_sizes",
    metavar="N[,N ...]",
    callback=_sizes,
    help="First dimension of the inputs; several sizes side by side with commas between them.",
)


def model(command: F) -> F:
    """MODEL and what fixes its input shapes."""
    return click.argument("model")(shapes(command))


def model_in_batches(command: F) -> F:
    """MODEL and what fixes its input shapes, several batch sizes at once."""
    return click.argument("model")(shapes_in_batches(command))


def _saying_what_model_is(command: F) -> F:
    """The command, with the names of model files in its help."""
    command.__doc__ = (
        f"{inspect.cleandoc(command.__doc__ or '')}\n\nA model is the path or URL of a file that ends in "
        f"{', '.join(endings())}, a directory with such files, or package.module:callable."
    )
    return command


def shapes(command: F) -> F:
    """What fixes the input shapes."""
    return _shapes(command, _BATCH)


def shapes_in_batches(command: F) -> F:
    """What fixes the input shapes, several batch sizes at once."""
    return _shapes(command, _BATCHES)


def _shapes(command: F, batch: Callable[[F], F]) -> F:
    command = _saying_what_model_is(command)
    for option in (
        click.option("--weights", type=click.Path(), help="Caffe: the .caffemodel; default: the one beside the net."),
        click.option("--level", type=int, help="Caffe: level of the net's state."),
        click.option("--stage", "stages", metavar="NAME", multiple=True, help="Caffe: a stage that is on."),
        click.option("--phase", type=click.Choice(["TEST", "TRAIN"], case_sensitive=False), help="Caffe: the phase."),
        click.option(
            "--trip",
            "trips",
            metavar="NAME=N",
            multiple=True,
            callback=_dim,
            help="How often a loop runs, where the model does not say.",
        ),
        click.option(
            "--dim", "dims", metavar="NAME=VALUE", multiple=True, callback=_dim, help="Value of a symbolic dimension."
        ),
        batch,
        click.option(
            "--arg",
            "arguments",
            metavar="NAME=VALUE",
            multiple=True,
            callback=_argument,
            help="Argument of package.module:callable.",
        ),
        click.option(
            "--mode", type=click.Choice(["eval", "train", "as-is"]), help="PyTorch: mode of the modules; default: eval."
        ),
        click.option(
            "-i",
            "--input",
            "inputs",
            metavar="NAME:DTYPE:SHAPE[:DATA]",
            multiple=True,
            help="Shape of an input, such as x:f32:1x3x224x224; DATA: 1,2,3 or @file.npy. Repeatable.",
        ),
    ):
        command = option(command)
    return command


def counting(command: F) -> F:
    """How operations are added up."""
    for option in (
        click.option("--strict", is_flag=True, help="Exit with 1 when an operator is unknown or a shape unresolved."),
        click.option("--no-fold", is_flag=True, help="Count operators on weights and constants too."),
        click.option("--rules", type=click.Path(), help="Python file whose RULES maps operators to your own rules."),
        click.option(
            "-c", "--convention", default="flops", show_default=True, help="Counting convention; see conventions."
        ),
    ):
        command = option(command)
    return command


def masked(command: F) -> F:
    """Which scores of attention count."""
    return click.option(
        "--masked",
        type=click.Choice(["executed", "needed"]),
        default="executed",
        show_default=True,
        help="Which scores of attention count: all, or those that masks leave.",
    )(command)


def training(command: F) -> F:
    """Whether a training step is counted, and with what optimizer."""
    for option in (
        click.option(
            "--optimizer",
            type=click.Choice(["sgd", "momentum", "adam", "adamw"]),
            help="With --train: count this optimizer's step and state.",
        ),
        click.option("--train", is_flag=True, help="Count the backward pass and what it keeps, too."),
    ):
        command = option(command)
    return command


def output(*formats: str) -> Callable[[F], F]:
    """Where the report goes and in what format."""

    def decorate(command: F) -> F:
        for option in (
            click.option("--no-header", is_flag=True, help="Leave the header line out."),
            click.option("-o", "--output", type=click.Path(), help="File to write, whole or not at all."),
            click.option(
                "-f",
                "--format",
                "format_",
                type=click.Choice(formats),
                help="Default: table, or what the ending of -o says.",
            ),
        ):
            command = option(command)
        return command

    return decorate


def units(command: F) -> F:
    """Whether numbers are rounded for people."""
    return click.option("--human/--exact", default=False, help="4.09 G instead of 4,089,184,256.")(command)


def table(command: F) -> F:
    """What a table shows."""
    for option in (
        click.option(
            "--top",
            type=click.IntRange(1),
            help="Show the N heaviest rows (by --sort, else the count); the rest as one line.",
        ),
        click.option("--sort", metavar="COLUMN", help="Sort by a column, largest first."),
        click.option("--columns", metavar="A,B,C", callback=_names, help="Columns to show."),
        click.option("--depth", type=click.IntRange(0), help="With --by module: how many levels."),
        click.option(
            "--by",
            type=click.Choice(["layer", "op", "module", "dtype"]),
            default="layer",
            show_default=True,
            help="Grouping; dtype: by the element types that are computed with.",
        ),
    ):
        command = option(command)
    return command
