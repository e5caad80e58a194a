"""``flopwise devices``."""

from __future__ import annotations

from typing import Any

import click

from flopwise.cli import options
from flopwise.cli.output import format_of, look_of, write

FORMATS = ("table", "markdown", "csv", "json", "latex")


@click.command("devices")
@click.argument("name", required=False)
@options.output(*FORMATS)
def command(name: str | None, format_: str | None, output: str | None, no_header: bool, **given: Any) -> int:
    """The devices that are known, this machine's first; with NAME, every figure of that one with its source.

    NAME is an identifier or an alias (h100, rtx-4090), or cpu, gpu0 ... of this machine.
    """
    import flopwise
    from flopwise.report.commands.devices import render_device, render_devices

    format_ = format_ or format_of(output, FORMATS)
    look = look_of(output, header=not no_header)
    found = flopwise.devices(name)
    write(
        render_devices(found, format_, look) if name is None else render_device(found[0], format_, look),
        output,
    )
    return 0
