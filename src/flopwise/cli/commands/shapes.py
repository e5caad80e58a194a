"""``flopwise shapes``."""

from __future__ import annotations

import click

from flopwise.cli import models, options
from flopwise.cli.command import Command, option
from flopwise.cli.options import ONNX
from flopwise.cli.output import Output, writes
from flopwise.cli.run import run
from flopwise.cli.streams import Progress, say
from flopwise.errors import InputError

#: Ending of -o that asks for a model instead of a report.
MODEL = ".onnx"

#: Options that change the model that is written.
_WRITING = {"tensors": "--tensors", "no_weights": "--no-weights", "annotate": "--annotate", "copy_data": "--copy-data"}


@click.command(
    "shapes",
    cls=Command,
    examples=["model.onnx -i 1x3x224x224", "model.onnx -o shapes.csv", "model.onnx -o with_shapes.onnx --annotate"],
)
@options.model
@option(
    "--tensors",
    metavar="NAME,...",
    multiple=True,
    help="With -o FILE.onnx: hidden tensors that become outputs. Repeatable; commas separate names.",
)
@option("--no-weights", is_flag=True, help="With -o FILE.onnx: leave the elements of weights out.")
@option(
    "--annotate",
    is_flag=True,
    help="With -o FILE.onnx: note params, MACs, FLOPs and bytes on each operator, where Netron shows them.",
)
@option(
    "--copy-data",
    is_flag=True,
    help="With -o FILE.onnx in another folder: copy the files beside MODEL that hold its weights; refused without it.",
)
@options.rules
@options.element_type
@writes("sheet", "content", models=(MODEL,))
def command(model: str, output: Output | None, path: str | None = None, **settings: object) -> int:
    """Shape and element type of every tensor of MODEL.

    With -o FILE.onnx: write the model with these shapes in it. Weights stay as they are, byte for byte; data beside the
    model stays there. --rules are those of --annotate.
    """
    if output is None:
        return _write(model, str(path), settings)
    wrong = [option for key, option in _WRITING.items() if settings[key]]
    if wrong:
        raise InputError(f"{wrong[0]} changes the model that is written; add -o FILE{MODEL}")
    from flopwise.report.commands.shapes import shapes_report

    return run(model, settings, shapes_report, output)


def _write(model: str, path: str, settings: options.Values) -> int:
    """Write the model and say what was written."""
    import flopwise

    models.refuse_directory(model, "a model is written from one model")
    if settings["element_type"]:
        raise InputError("--dtype is about the report, and the model that is written keeps its types: leave one out")
    with Progress() as progress:
        written = flopwise.write_shapes(
            model,
            path,
            list(settings["inputs"]) or None,
            tensors=[name for text in settings["tensors"] for name in _names(text)],
            weights=not settings["no_weights"],
            annotate=settings["annotate"],
            copy_data=settings["copy_data"],
            rules=models.load_rules(settings["rules"]),
            dims=settings["dims"],
            batch_size=settings["batch_size"],
            **{name: settings[name] for name in ONNX},
            progress=progress,
        )
    for message in written.messages:
        say(message)
    return 0


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
