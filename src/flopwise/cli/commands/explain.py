"""``flopwise explain``."""

from __future__ import annotations

import os
from typing import Any

import click

from flopwise.cli import models, options
from flopwise.cli.command import Command, option
from flopwise.cli.options import ONNX
from flopwise.cli.output import Output, writes
from flopwise.cli.places import Model
from flopwise.errors import InputError


@click.command(
    "explain", cls=Command, examples=["Conv", "model.onnx -c flops -c fvcore", "model.onnx -c macs -c thop --by layer"]
)
@click.argument("what", metavar="OPERATOR|MODEL", type=Model())
@option(
    "-c",
    "--convention",
    "conventions",
    metavar="NAME",
    multiple=True,
    group="What to count",
    help="With MODEL: two or more conventions to compare; default: flops and macs.",
)
@options.shapes
@option(
    "--by",
    type=click.Choice(["op", "layer"]),
    default="op",
    show_default=True,
    group="What to show",
    help="One line for each operator or layer.",
)
@options.units
@writes("sheet", "content")
def command(what: str, conventions: tuple[str, ...], by: str, output: Output, **given: Any) -> int:
    """The formula of an OPERATOR and what each convention makes of it.

    With a MODEL: where two conventions differ, operator by operator, and by how much.
    """
    from flopwise.report.commands.explain import difference_report, operator_report

    if _is_model(what):
        output.write(difference_report(_profiles(what, conventions or ("flops", "macs"), given), by))
    elif conventions:
        raise InputError(f"{what}: no such file, so there is nothing to compare conventions on")
    else:
        output.write(operator_report(what))
    return 0


def _is_model(what: str) -> bool:
    from flopwise.readers.formats import endings

    return os.path.exists(what) or what.lower().endswith(endings()) or os.sep in what


def _profiles(path: str, conventions: tuple[str, ...], given: dict[str, Any]) -> list[Any]:
    """The model in each convention; it is read once."""
    import flopwise
    from flopwise.cli.progress import Progress
    from flopwise.conventions import get

    chosen = [get(name) for name in dict.fromkeys(conventions)]
    if len(chosen) < 2:
        raise InputError("give -c twice: comparing takes two conventions")
    if models.is_collection(path):
        raise InputError(f"{path}: is a directory; explain compares conventions on one model")
    with Progress() as progress:
        graph = flopwise.read(
            path,
            list(given["inputs"]) or None,
            dims=given["dims"],
            batch_size=given["batch_size"],
            **{name: given[name] for name in ONNX},
            mode=given["mode"],
            trust_code=given["trust_code"],
            arguments=given["arguments"] or None,
            phase=given["phase"],
            stages=given["stages"],
            level=given["level"],
            weights=given["weights"],
            progress=progress,
        )
        return [flopwise.profile(graph, convention=c) for c in chosen]
