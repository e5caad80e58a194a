"""``flopwise devices``."""

from __future__ import annotations

import click

from flopwise.cli import options
from flopwise.cli.command import Command, option
from flopwise.cli.completion import DEVICE
from flopwise.cli.output import Output, writes
from flopwise.cli.streams import Progress, say
from flopwise.errors import InputError


@click.command("devices", cls=Command, examples=["", "h100", "cpu -f json"])
@click.argument("name", required=False, type=DEVICE)
@option("--measure", is_flag=True, help="Measure this machine's CPU (about ten seconds) and store the figures.")
@options.store
@writes("sheet", "content")
def command(name: str | None, measure: bool, store: str | None, output: Output) -> int:
    """The devices that are known, this machine's first; with NAME, every figure of that one with its source.

    NAME is an identifier or an alias (h100, rtx-4090), or cpu, gpu0 ... of this machine.
    """
    import flopwise
    from flopwise.api.bench import measure_device
    from flopwise.report.commands.devices import device_report, devices_report

    if measure:
        if name not in (None, "cpu", "this"):
            raise InputError(f"--measure is for this machine's CPU, not for {name!r}")
        with Progress() as progress:
            unsaved = measure_device(store, progress)
        if unsaved:
            say(f"not stored: {unsaved}")
        name = "cpu"
    devices = flopwise.devices(name, store=store)
    output.write(devices_report(devices) if name is None else device_report(devices[0]))
    return 0
