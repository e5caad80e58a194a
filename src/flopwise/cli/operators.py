"""``flopwise operators``."""

from __future__ import annotations

from typing import Any

import click

from flopwise.cli import options
from flopwise.cli.output import coloured, format_of, width, write

FORMATS = ("table", "markdown", "csv", "json", "latex")


@click.command("operators")
@options.output(*FORMATS)
def command(format_: str | None, output: str | None, no_header: bool, **given: Any) -> int:
    """The operators that have a rule: family, claim, and formula or reason.

    Any other operator is unknown: its row shows ?, and totals are lower bounds.
    """
    from flopwise.report import Look, json, reference
    from flopwise.report.classes import WRITERS

    format_ = format_ or format_of(output, FORMATS)
    if format_ == "json":
        write(json.dump(reference.operators()), output)
    else:
        look = Look(header=not no_header, width=width(output), color=coloured(output))
        write(WRITERS[format_](reference.operators_sheet(), look), output)
    return 0
