"""``flopwise conventions``."""

from __future__ import annotations

from typing import Any

import click

from flopwise.cli import options
from flopwise.cli.output import format_of, look_of, write

FORMATS = ("table", "markdown", "csv", "json", "latex")


@click.command("conventions")
@options.output(*FORMATS)
def command(format_: str | None, output: str | None, no_header: bool, **given: Any) -> int:
    """The counting conventions: what each counts, in which unit, and where it comes from."""
    from flopwise.report import json, reference

    format_ = format_ or format_of(output, FORMATS)
    if format_ == "json":
        write(json.dump(reference.conventions()), output)
    else:
        look = look_of(output, header=not no_header)
        write(reference.write(reference.conventions_sheet(), format_, look), output)
    return 0
