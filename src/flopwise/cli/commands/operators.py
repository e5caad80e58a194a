"""``flopwise operators``."""

from __future__ import annotations

import click

from flopwise.cli.command import Command
from flopwise.cli.output import Output, writes


@click.command("operators", cls=Command, examples=["", "-f json", "-o operators.csv"])
@writes("sheet", "content")
def command(output: Output) -> int:
    """The operators that have a rule: family, claim, and formula or reason.

    Any other operator is unknown: its row shows ?, and totals are lower bounds.
    """
    from flopwise.report.reference.tables import operators_report

    output.write(operators_report())
    return 0
