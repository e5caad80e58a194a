"""``flopwise profile``."""

from __future__ import annotations

from typing import Any

import click

from flopwise.cli import options
from flopwise.cli.output import format_of, place
from flopwise.cli.run import run

FORMATS = ("table", "tree", "markdown", "csv", "json", "latex")


@click.command("profile")
@options.model
@options.counting
@options.table
@options.units
@options.output(*FORMATS)
def command(model: str, format_: str | None, strict: bool, **given: Any) -> int:
    """What MODEL costs, per layer and in total.

    MODEL is an ONNX file, or a directory: then every model in it is profiled.
    """
    from flopwise.report import render

    format_ = format_ or format_of(given["output"], FORMATS)
    return run(
        model,
        given,
        lambda profile: render(
            profile,
            format=format_,
            by="module" if given["depth"] is not None and given["by"] == "layer" else given["by"],
            depth=given["depth"],
            columns=given["columns"],
            sort=given["sort"],
            top=given["top"],
            human=given["human"],
            header=not given["no_header"],
            **place(given["output"]),
        ),
        format_,
        strict,
    )
