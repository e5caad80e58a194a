"""``flopwise flops``."""

from __future__ import annotations

import click

from flopwise.cli import options
from flopwise.cli.command import Command, shows
from flopwise.cli.output import Output, writes
from flopwise.cli.run import run


@click.command(
    "flops", cls=Command, examples=["model.onnx", "model.onnx -c benanza --full", "model.onnx -c caffe -f json"]
)
@options.model
@shows("--full", is_flag=True, help="One line for each layer.")
@options.units
@options.counting
@options.masked
@options.element_type
@writes("sheet", "content")
def command(model: str, strict: bool, full: bool, output: Output, **settings: object) -> int:
    """Operations of MODEL by class: multiply-accumulates, additions, divisions, comparisons and so on.

    The classes are those of the convention (-c benanza has six).
    """
    from flopwise.report.commands.flops import classes_report

    return run(model, settings, lambda profile: classes_report(profile, full), output, strict)
