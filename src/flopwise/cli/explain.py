"""``flopwise explain``."""

from __future__ import annotations

import os
from typing import Any

import click

from flopwise.cli import options
from flopwise.cli.output import format_of, look_of, write
from flopwise.errors import InputError

FORMATS = ("table", "markdown", "csv", "json", "latex")


@click.command("explain")
@click.argument("what", metavar="OPERATOR|MODEL")
@options.shapes
@click.option("-c", "--convention", "conventions", multiple=True, help="With MODEL: two or more to compare.")
@click.option("--by", type=click.Choice(["op", "layer"]), default="op", show_default=True, help="Grouping.")
@options.units
@options.output(*FORMATS)
def command(what: str, conventions: tuple[str, ...], by: str, **given: Any) -> int:
    """The formula of an OPERATOR and what each convention makes of it.

    With a MODEL: where two conventions part, operator by operator, and by how much.
    """
    from flopwise.report.commands import explain as say
    from flopwise.report.formats import json, writers
    from flopwise.report.reference import tables

    place, format_ = given["output"], given["format_"] or format_of(given["output"], FORMATS)
    look = look_of(place, given["human"], not given["no_header"])
    if not _is_model(what):
        if conventions:
            raise InputError(f"{what}: no such file, so there is nothing to compare conventions on")
        if format_ == "json":
            write(json.dump(say.operator(what)), place)
        else:
            write(tables.write(say.operator_sheet(what), format_, look), place)
        return 0
    profiles = _profiles(what, conventions or ("flops", "macs"), given)
    if format_ == "json":
        first = profiles[0].to_dict()
        content = {key: first[key] for key in ("model", "inputs")}
        content["totals"] = {p.convention.name: p.sum.count for p in profiles}
        content["units"] = {p.convention.name: p.convention.unit for p in profiles}
        content["parts"] = say.difference(profiles, by)
        write(json.dump(content), place)
    else:
        write(writers.write(say.difference_sheet(profiles, by, look), format_, look), place)
    return 0


def _is_model(what: str) -> bool:
    from flopwise.readers.formats import endings

    return os.path.exists(what) or what.lower().endswith(endings()) or os.sep in what


def _profiles(path: str, conventions: tuple[str, ...], given: dict[str, Any]) -> list[Any]:
    """The model in each convention; it is read once."""
    import flopwise
    from flopwise.cli.progress import Progress
    from flopwise.conventions import get

    chosen = [get(name) for name in dict.fromkeys(conventions)]
    if len(chosen) < 2:
        raise InputError("comparing takes two conventions: give -c twice")
    if os.path.isdir(path):
        raise InputError(f"{path}: is a directory; explain compares conventions on one model")
    with Progress() as progress:
        graph = flopwise.read(
            path,
            list(given["inputs"]) or None,
            dims=given["dims"],
            batch_size=given["batch_size"],
            trips=given["trips"],
            mode=given["mode"],
            arguments=given["arguments"] or None,
            phase=given["phase"],
            stages=given["stages"],
            level=given["level"],
            weights=given["weights"],
            progress=progress,
        )
        return [flopwise.profile(graph, convention=c) for c in chosen]
