"""``flopwise table``."""

from __future__ import annotations

from typing import Any

import click

from flopwise.cli import NO, models, options
from flopwise.cli.command import Command, option
from flopwise.cli.output import Output, writes
from flopwise.cli.places import Model
from flopwise.cli.run import arguments_of
from flopwise.errors import InputError


def _units(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Column -> prefix; a prefix alone is for all columns, and 1 stands for no prefix."""
    units: dict[str, str] = {}
    for value in values:
        for part in value.split(","):
            key, _, prefix = part.strip().rpartition("=")
            units[key.strip().lower()] = "" if prefix.strip() == "1" else prefix.strip()
    return units


@click.command(
    "table",
    cls=Command,
    examples=["a.onnx b.onnx -f latex", "models/ -o table.md", "a.onnx b.onnx --unit macs=G --name A --name B"],
)
@click.argument("paths", metavar="MODEL...", nargs=-1, required=True, type=Model())
@options.shapes
@options.counting
@options.masked
@option(
    "--columns",
    metavar="A,B,C",
    callback=options.names,
    group="What to show",
    help="Columns: params, macs, flops, count, peak, weight_bytes and others.",
)
@option(
    "--name",
    "names",
    multiple=True,
    group="What to show",
    help="Name of a model in the table; once for each model, in their order.",
)
@option(
    "--unit",
    "units",
    metavar="[COLUMN=]PREFIX",
    multiple=True,
    callback=_units,
    group="What to show",
    help="k, M, G ... for all columns or one (macs=G); 1 for none.",
)
@option(
    "--human/--exact",
    default=True,
    group="What to show",
    help="One SI prefix for each column, or every digit.",
)
@writes("sheet", "content")
def command(paths: tuple[str, ...], strict: bool, output: Output, **given: Any) -> int:
    """Several models as one table for a paper: a line for each MODEL."""
    import flopwise
    from flopwise.report.commands.table import paper_report

    every = [path for model in paths for path in models.find(model)]
    if given["names"] and len(given["names"]) != len(every):
        raise InputError(
            f"{len(given['names'])} names for {len(every)} models: give --name once for each, in their order"
        )
    arguments = arguments_of(given)
    profiles, errors = models.each(every, lambda path, step: flopwise.profile(path, progress=step, **arguments))
    if errors:
        raise InputError(errors[0])
    output.write(paper_report(profiles, given["columns"], given["names"], given["units"], given["human"]))
    return NO if strict and not all(profile.exact for profile in profiles) else 0
