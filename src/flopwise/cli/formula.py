"""``flopwise formula``."""

from __future__ import annotations

import os
from typing import Any

import click

from flopwise.cli import NO, models, options
from flopwise.cli.output import format_of, look_of, write
from flopwise.cli.progress import Progress
from flopwise.errors import InputError

FORMATS = ("table", "text", "markdown", "csv", "json", "latex")


@click.command("formula")
@options.model
@options.counting
@click.option(
    "--at",
    metavar='"NAME=VALUES ..."',
    multiple=True,
    help='Evaluate instead: "batch=1,2,4 seq=128:4096:128" gives a line for each combination. Repeatable.',
)
@click.option(
    "--by",
    type=click.Choice(["op", "layer", "module", "formula"]),
    default="op",
    show_default=True,
    help="Grouping; formula puts layers with the same formula together.",
)
@click.option("--depth", type=click.IntRange(0), help="With --by module: how many levels.")
@click.option("--top", type=click.IntRange(1), help="Show the N dearest lines.")
@click.option(
    "--columns",
    metavar="A,B,C",
    callback=lambda ctx, param, value: [p.strip() for p in value.split(",") if p.strip()] if value else None,
    help="Figures to show: count, macs, flops, params, activations, output_bytes ...",
)
@options.units
@options.output(*FORMATS)
def command(model: str, at: tuple[str, ...], strict: bool, **given: Any) -> int:
    """What MODEL costs as closed formulas in its open dimensions.

    Dimensions that the file fixes become symbols with -i, such as -i x:f32:N,3,H,W; --dim fixes a symbol. Each formula
    is compared with profiles at several sizes before it is printed, and the report says where it holds.
    """
    import flopwise
    from flopwise.analyses.formula.expressions import load_sympy
    from flopwise.analyses.formula.grid import grid
    from flopwise.report.commands.formula import evaluated, render

    place, format_ = given["output"], given["format_"] or format_of(given["output"], FORMATS)
    look = look_of(place, given["human"], not given["no_header"])
    points = list(grid(at))
    if os.path.isdir(model):
        raise InputError(f"{model}: is a directory; formula takes one model")
    models.find(model)
    rules = models.load_rules(given["rules"])
    load_sympy()  # says how to get it before the work, not after
    with Progress() as progress:
        found = flopwise.formula(
            model,
            list(given["inputs"]) or None,
            convention=given["convention"],
            rules=rules,
            dims=given["dims"],
            batch_size=given["batch_size"],
            trips=given["trips"],
            mode=given["mode"],
            arguments=given["arguments"] or None,
            fold=False if given["no_fold"] else None,
            progress=progress,
        )
        progress("writing the report")
        if at:
            text = evaluated(found, points, format_, given["columns"], look)
        else:
            text = render(found, format_, given["by"], given["depth"], given["columns"], given["top"], look)
    write(text, place)
    return NO if strict and not found.exact else 0
