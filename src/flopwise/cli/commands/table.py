"""``flopwise table``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flopwise.cli import models, options
from flopwise.cli.command import Command, shows
from flopwise.cli.output import Output, writes
from flopwise.cli.places import Model
from flopwise.cli.run import arguments_of
from flopwise.errors import InputError, counted

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile


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
    examples=[
        "a.onnx b.onnx --unit macs=G --name A --name B",
        "torchvision:resnet18 torchvision:vit_b_16 -f latex",
        "models/ -o table.md",
    ],
)
@click.argument("paths", metavar="MODEL...", nargs=-1, required=True, type=Model())
@options.shapes
@options.counting
@options.element_type
@options.masked
@shows(
    "--columns",
    metavar="NAME,...",
    callback=options.names,
    help="Columns: params, macs, flops, count, peak, weight_bytes and others.",
)
@shows(
    "--name",
    "names",
    multiple=True,
    help="Name of a model in the table; once for each model, in their order.",
)
@shows(
    "--unit",
    "units",
    metavar="[NAME=]PREFIX",
    multiple=True,
    callback=_units,
    help="k, M, G ... for all columns or one (macs=G); 1 for none.",
)
@shows("--human/--exact", default=True, help="One SI prefix for each column, or every digit.")
@writes("sheet", "content")
def command(paths: tuple[str, ...], strict: bool, output: Output, **settings: Any) -> int:
    """Several models as one table for a paper: a line for each MODEL.

    A directory stands for every model in it; files in it that cannot be read are named on stderr and left out (exit
    code 2).
    """
    import flopwise
    from flopwise.report.commands.table import paper_report

    every = [(path, models.is_collection(model)) for model in paths for path in models.find(model)]
    if settings["names"] and len(settings["names"]) != len(every):
        raise InputError(
            f"{counted(len(settings['names']), 'name')} for {counted(len(every), 'model')}: "
            "give --name once for each, in their order"
        )
    arguments = arguments_of(settings)

    def work(path: str, step: models.Step, dims: dict[str, int]) -> Profile:
        return flopwise.profile(path, progress=step, **{**arguments, "dims": dims})

    profiles, errors = models.each([path for path, _ in every], work, arguments["dims"])
    failed = [place for place in range(len(every)) if place not in profiles]
    for place, error in zip(failed, errors, strict=True):
        if not every[place][1]:  # a table without a model that was asked for by its name is another table
            raise InputError(error)
    if profiles:
        names = [name for place, name in enumerate(settings["names"]) if place in profiles]
        output.write(
            paper_report([*profiles.values()], settings["columns"], names, settings["units"], settings["human"])
        )
    return models.exit_code(errors, not strict or all(profile.exact for profile in profiles.values()))
