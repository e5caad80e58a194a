"""``flopwise shapes``."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from flopwise.cli import models, options
from flopwise.cli.output import format_of, place
from flopwise.cli.run import run
from flopwise.errors import InputError

FORMATS = ("table", "markdown", "csv", "json", "latex")

#: Ending of -o that asks for a model instead of a report.
MODEL = ".onnx"

#: Options that change the model that is written.
_WRITING = {"tensors": "--tensors", "no_weights": "--no-weights", "annotate": "--annotate", "copy_data": "--copy-data"}


@click.command("shapes")
@options.model
@click.option(
    "--tensors",
    metavar="A,B",
    multiple=True,
    help="With -o FILE.onnx: hidden tensors that become outputs. Repeatable; commas separate names.",
)
@click.option("--no-weights", is_flag=True, help="With -o FILE.onnx: leave the elements of weights out.")
@click.option(
    "--annotate",
    is_flag=True,
    help="With -o FILE.onnx: note params, MACs, FLOPs and bytes on each operator, where Netron shows them.",
)
@click.option(
    "--copy-data",
    is_flag=True,
    help="With -o FILE.onnx in another folder: copy the files beside MODEL that hold its weights; refused without it.",
)
@click.option("--rules", type=click.Path(), help="With --annotate: Python file whose RULES maps operators to rules.")
@options.output(*FORMATS)
def command(model: str, format_: str | None, **given: Any) -> int:
    """Shape and element type of every tensor of MODEL.

    With -o FILE.onnx: write the model with these shapes in it. Weights stay as they are, byte for byte; data beside the
    model stays there.
    """
    output = given["output"]
    if output is not None and format_ is None and output.lower().endswith(MODEL):
        return _write(model, output, given)
    wrong = [option for key, option in _WRITING.items() if given[key]]
    if wrong:
        raise InputError(f"{wrong[0]} changes the model that is written; add -o FILE{MODEL}")
    if output is not None and format_ is None and os.path.splitext(output)[1].lower() not in _endings():
        raise InputError(f"{output}: ends neither in {MODEL}, for the model, nor in {', '.join(_endings())}")
    if output is not None and output.lower().endswith(MODEL):
        raise InputError(f"{output}: -f {format_} writes a report, and {MODEL} is a model; leave one of them out")
    from flopwise.report.commands.shapes import render_shapes

    format_ = format_ or format_of(output, FORMATS)
    return run(
        model,
        given,
        lambda profile: render_shapes(profile, format=format_, header=not given["no_header"], **place(output)),
        format_,
    )


def _endings() -> list[str]:
    from flopwise.report import EXTENSIONS

    return [ending for ending, format_ in EXTENSIONS.items() if format_ in FORMATS]


def _write(model: str, output: str, given: dict[str, Any]) -> int:
    """Write the model and say what was written."""
    import flopwise
    from flopwise.cli.progress import Progress

    if os.path.isdir(model):
        raise InputError(f"{model}: is a directory; a model is written from one model")
    with Progress() as progress:
        written = flopwise.write_shapes(
            models.find(model)[0],
            output,
            list(given["inputs"]) or None,
            tensors=[name for text in given["tensors"] for name in _names(text)],
            weights=not given["no_weights"],
            annotate=given["annotate"],
            copy_data=given["copy_data"],
            rules=models.load_rules(given["rules"]),
            dims=given["dims"],
            batch_size=given["batch_size"],
            trips=given["trips"],
            progress=progress,
        )
    for told in written.told:
        print(f"flopwise: {told}", file=sys.stderr)
    return 0


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
