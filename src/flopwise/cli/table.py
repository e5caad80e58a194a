"""``flopwise table``."""

from __future__ import annotations

from typing import Any

import click

from flopwise.cli import NO, models, options
from flopwise.cli.output import format_of, look_of, write
from flopwise.cli.run import arguments_of
from flopwise.errors import InputError

FORMATS = ("table", "markdown", "csv", "latex")


def _units(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Column -> prefix; a prefix alone is for all columns, and 1 is no prefix."""
    found: dict[str, str] = {}
    for value in values:
        for part in value.split(","):
            key, _, prefix = part.strip().rpartition("=")
            found[key.strip().lower()] = "" if prefix.strip() == "1" else prefix.strip()
    return found


@click.command("table")
@click.argument("given_models", metavar="MODEL...", nargs=-1, required=True)
@options.shapes
@options.counting
@options.masked
@click.option("--columns", metavar="A,B,C", help="Columns: params, macs, flops, count, peak, weight_bytes and others.")
@click.option("--name", "names", multiple=True, help="What a model is called; once for each, in their order.")
@click.option(
    "--unit",
    "units",
    metavar="[COLUMN=]PREFIX",
    multiple=True,
    callback=_units,
    help="k, M, G ... for all columns or one (macs=G); 1 for none.",
)
@click.option("--human/--exact", default=True, help="One SI prefix for each column, or every digit.")
@options.output(*FORMATS)
def command(given_models: tuple[str, ...], format_: str | None, strict: bool, **given: Any) -> int:
    """Several models as one table for a paper: a line for each MODEL."""
    import flopwise
    from flopwise.report.commands.table import render_paper

    format_ = format_ or format_of(given["output"], FORMATS)
    paths = [path for model in given_models for path in models.find(model)]
    if given["names"] and len(given["names"]) != len(paths):
        raise InputError(
            f"{len(given['names'])} names for {len(paths)} models: give --name once for each, in their order"
        )
    arguments = arguments_of(given)
    profiles, errors = models.each(paths, lambda path, step: flopwise.profile(path, progress=step, **arguments))
    if errors:
        raise InputError(errors[0])
    text = render_paper(
        profiles,
        format_,
        [part.strip() for part in given["columns"].split(",") if part.strip()] if given["columns"] else None,
        given["names"],
        given["units"],
        given["human"],
        look_of(given["output"], header=not given["no_header"]),
    )
    write(text, given["output"])
    return NO if strict and not all(profile.exact for profile in profiles) else 0
