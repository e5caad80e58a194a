"""``flopwise conventions``."""

from __future__ import annotations

from typing import Any

import click

from flopwise.cli import options
from flopwise.cli.output import coloured, format_of, width, write

FORMATS = ("table", "markdown", "csv", "json", "latex")


@click.command("conventions")
@options.output(*FORMATS)
def command(format_: str | None, output: str | None, no_header: bool, **given: Any) -> int:
    """The counting conventions: what each counts, in which unit, and where it comes from."""
    from flopwise.report import Look, json, reference
    from flopwise.report.classes import WRITERS

    format_ = format_ or format_of(output, FORMATS)
    if format_ == "json":
        write(json.dump(reference.conventions()), output)
    else:
        look = Look(header=not no_header, width=width(output), color=coloured(output))
        write(WRITERS[format_](reference.conventions_sheet(), look), output)
    return 0
