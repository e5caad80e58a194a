"""``flopwise operators``."""

from __future__ import annotations

import click

from flopwise.cli.command import Command
from flopwise.cli.completion import OPERATOR
from flopwise.cli.output import Output, writes


@click.command("operators", cls=Command, examples=["", "Conv", "-o operators.csv"])
@click.argument("name", required=False, type=OPERATOR)
@writes("sheet", "content")
def command(name: str | None, output: Output) -> int:
    """The operators that have a rule: family, claim, and formula or reason; with NAME, that one as explain shows it.

    Any other operator is unknown: its row shows ?, and totals are lower bounds.
    """
    if name is not None:
        from flopwise.report.commands.explain import operator_report

        output.write(operator_report(name))
        return 0
    from flopwise.report.reference import operators_report

    output.write(operators_report())
    return 0
