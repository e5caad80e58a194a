"""``flopwise operators``."""

from __future__ import annotations

from typing import Any

import click

from flopwise.cli import options
from flopwise.cli.output import format_of, look_of, write

FORMATS = ("table", "markdown", "csv", "json", "latex")


@click.command("operators")
@options.output(*FORMATS)
def command(format_: str | None, output: str | None, no_header: bool, **given: Any) -> int:
    """The operators that have a rule: family, claim, and formula or reason.

    Any other operator is unknown: its row shows ?, and totals are lower bounds.
    """
    from flopwise.report.formats import json
    from flopwise.report.reference import tables

    format_ = format_ or format_of(output, FORMATS)
    if format_ == "json":
        write(json.dump(tables.operators()), output)
    else:
        look = look_of(output, header=not no_header)
        write(tables.write(tables.operators_sheet(), format_, look), output)
    return 0
