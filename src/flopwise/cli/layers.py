"""``flopwise layers``."""

from __future__ import annotations

from typing import Any

import click

from flopwise.cli import options
from flopwise.cli.output import format_of, place
from flopwise.cli.run import run

FORMATS = ("table", "markdown", "csv", "json", "latex", "dot")


@click.command("layers")
@options.model
@click.option("--no-fold", is_flag=True, help="Show operators on weights and constants too.")
@options.output(*FORMATS)
def command(model: str, format_: str | None, **given: Any) -> int:
    """Layers of MODEL: name, operator, input and output names and shapes.

    With -f dot: the graph, for Graphviz.
    """
    from flopwise.report.commands.layers import render_layers

    format_ = format_ or format_of(given["output"], FORMATS)
    return run(
        model,
        given,
        lambda profile: render_layers(profile, format=format_, header=not given["no_header"], **place(given["output"])),
        format_,
    )
