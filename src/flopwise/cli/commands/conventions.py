"""``flopwise conventions``."""

from __future__ import annotations

import click

from flopwise.cli.command import Command
from flopwise.cli.output import Output, writes


@click.command("conventions", cls=Command, examples=["", "-f json", "-o conventions.md"])
@writes("sheet", "content")
def command(output: Output) -> int:
    """The counting conventions: what each counts, in which unit, and where it comes from."""
    from flopwise.report.reference.tables import conventions_report

    output.write(conventions_report())
    return 0
