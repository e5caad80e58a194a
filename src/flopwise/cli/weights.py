"""``flopwise weights``."""

from __future__ import annotations

import os
from typing import Any

import click

from flopwise.cli import options
from flopwise.cli.output import format_of, look_of, write
from flopwise.cli.progress import Progress
from flopwise.errors import InputError

FORMATS = ("table", "markdown", "csv", "json", "latex")


@click.command("weights")
@options.model
@click.option(
    "--by",
    type=click.Choice(["layer", "tensor"]),
    default="layer",
    show_default=True,
    help="One line for all floating-point weights of a layer, or for each stored tensor.",
)
@click.option("--columns", metavar="A,B,C", callback=options._names, help="Columns to show.")
@click.option("--sort", metavar="COLUMN", help="Sort by a column, largest first.")
@click.option("--top", type=click.IntRange(1), help="Show the first N lines (by --sort, else the longest).")
@click.option("--layers", metavar="PATTERN", multiple=True, help="Only names that match, such as 'conv*'. Repeatable.")
@click.option("--bins", type=int, default=100, show_default=True, help="Bins of each histogram.")
@click.option("--no-histogram", is_flag=True, help="Make no histograms: faster, but without percentiles.")
@click.option("--bins-json", type=click.Path(), help="Also write the edges and counts of the histograms (JSON).")
@click.option("--figures", type=click.Path(), help="Also draw the histograms, into this directory.")
@click.option(
    "--figure-format",
    type=click.Choice(["png", "svg", "pdf"]),
    default="png",
    show_default=True,
    help="Format of the figures.",
)
@click.option("--threads", type=click.IntRange(1), help="How many threads; default: one for each core.")
@options.output(*FORMATS)
def command(model: str, format_: str | None, **given: Any) -> int:
    """Range, mean, deviation, zeros and histograms of the weights of MODEL.

    Weights are read as a stream: memory does not grow with them. NaN and infinities are counted apart.
    """
    import flopwise
    from flopwise.analyses.weights.entry import PERCENTILES
    from flopwise.report.commands.weights import render_weights
    from flopwise.report.commands.weights_columns import column
    from flopwise.report.formats import json

    output, figures, bins_json = given["output"], given["figures"], given["bins_json"]
    format_ = format_ or format_of(output, FORMATS)
    if given["no_histogram"] and (figures is not None or bins_json is not None):
        raise InputError(
            f"{'--figures' if figures is not None else '--bins-json'} needs what --no-histogram leaves out"
        )
    if bins_json is not None:
        for other, what in ((model, "the model itself"), (output, "the file of -o")):
            if other is not None and os.path.realpath(other) == os.path.realpath(bins_json):
                raise InputError(f"{bins_json}: is {what}; give --bins-json a file of its own")
    for key in (*(given["columns"] or ()), *([given["sort"]] if given["sort"] else ())):
        column(key)
        if given["no_histogram"] and key in (*PERCENTILES, "histogram"):
            raise InputError(f"{key} needs what --no-histogram leaves out")
    if figures is not None:
        from flopwise.report.commands.weights_figures import prepare

        prepare(figures)
    named = ("dims", "batch_size", "trips", "phase", "stages", "level", "weights", "mode")
    asked = {key: given[key] for key in named if given[key]}
    asked |= {
        key: value for key, value in (("inputs", list(given["inputs"])), ("arguments", given["arguments"])) if value
    }
    with Progress() as progress:
        found = flopwise.weights(
            model,
            by=given["by"],
            bins=given["bins"],
            histogram=not given["no_histogram"],
            layers=given["layers"] or None,
            threads=given["threads"],
            progress=progress,
            **asked,
        )
        if figures is not None:
            from flopwise.report.commands.weights_figures import draw

            draw(found, figures, given["figure_format"], progress)
        progress("writing the report")
        text = render_weights(
            found,
            format_,
            given["columns"],
            given["sort"],
            given["top"],
            look_of(output, header=not given["no_header"]),
        )
    if bins_json is not None:
        write(json.dump(found.histograms()), bins_json)
    write(text, output)
    return 0
