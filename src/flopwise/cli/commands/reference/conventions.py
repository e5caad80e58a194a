"""``flopwise conventions``."""

from __future__ import annotations

import click

from flopwise.cli.command import Command
from flopwise.cli.completion import CONVENTION
from flopwise.cli.output import Output, writes


@click.command("conventions", cls=Command, examples=["", "fvcore", "-o conventions.md"])
@click.argument("name", required=False, type=CONVENTION)
@writes("sheet", "content")
def command(name: str | None, output: Output) -> int:
    """The counting conventions: what each counts, in which unit, and where it comes from; with NAME, that one."""
    from flopwise.report.reference import conventions_report

    output.write(conventions_report(name))
    return 0
