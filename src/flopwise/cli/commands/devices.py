"""``flopwise devices``."""

from __future__ import annotations

import click

from flopwise.cli.command import Command
from flopwise.cli.output import Output, writes


@click.command("devices", cls=Command, examples=["", "h100", "cpu -f json"])
@click.argument("name", required=False)
@writes("sheet", "content")
def command(name: str | None, output: Output) -> int:
    """The devices that are known, this machine's first; with NAME, every figure of that one with its source.

    NAME is an identifier or an alias (h100, rtx-4090), or cpu, gpu0 ... of this machine.
    """
    import flopwise
    from flopwise.report.commands.devices import device_report, devices_report

    devices = flopwise.devices(name)
    output.write(devices_report(devices) if name is None else device_report(devices[0]))
    return 0
