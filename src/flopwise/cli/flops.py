"""``flopwise flops``."""

from __future__ import annotations

from typing import Any

import click

from flopwise.cli import options
from flopwise.cli.output import format_of, place
from flopwise.cli.run import run

FORMATS = ("table", "markdown", "csv", "json", "latex")


@click.command("flops")
@options.model
@options.counting
@options.masked
@click.option("--full", is_flag=True, help="One row per layer.")
@options.units
@options.output(*FORMATS)
def command(model: str, format_: str | None, strict: bool, **given: Any) -> int:
    """Operations of MODEL by class: multiply-accumulates, additions, divisions, comparisons and so on.

    The classes are those of the convention (-c benanza has six).
    """
    from flopwise.report.commands.flops import render_classes

    format_ = format_ or format_of(given["output"], FORMATS)
    return run(
        model,
        given,
        lambda profile: render_classes(
            profile,
            format=format_,
            full=given["full"],
            human=given["human"],
            header=not given["no_header"],
            **place(given["output"]),
        ),
        format_,
        strict,
    )
