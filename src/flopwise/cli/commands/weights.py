"""``flopwise weights``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from flopwise.cli import models, options
from flopwise.cli.command import Command, option
from flopwise.cli.completion import WEIGHTS_COLUMNS
from flopwise.cli.options import ONNX
from flopwise.cli.output import Output, write, writes
from flopwise.cli.run import run_each
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.report.report import Report


@click.command(
    "weights",
    cls=Command,
    examples=[
        "model.onnx",
        "model.safetensors --by tensor -o weights.csv",
        "model.onnx --layers 'conv*' --figures DIR",
    ],
)
@options.model
@option("--layers", metavar="PATTERN", multiple=True, help="Only names that match, such as 'conv*'. Repeatable.")
@option("--bins", type=int, default=100, show_default=True, help="Bins of each histogram.")
@option("--no-histogram", is_flag=True, help="Skip the histograms: faster, but without percentiles.")
@option("--threads", type=click.IntRange(1), help="How many threads; default: one for each core.")
@options.by("layer", "tensor", help="One line for all floating-point weights of a layer, or for each stored tensor.")
@options.names_of
@options.columns_of(WEIGHTS_COLUMNS)
@options.sorting()
@options.top("Show the first N lines (by --sort, else the longest).")
@writes("sheet", "content")
@options.also("--bins-json", help="Also write the edges and counts of the histograms (JSON).")
@options.figures("the histograms")
def command(
    model: str, output: Output, bins_json: str | None, figures: str | None, figure_format: str, **settings: Any
) -> int:
    """Range, mean, deviation, zeros and histograms of the weights of MODEL.

    Weights are read as a stream: memory does not grow with them. NaN and infinities are counted apart. Of a directory,
    every model and every file with weights in it is read.
    """
    import flopwise
    from flopwise.analyses.weights.result import PERCENTILES
    from flopwise.errors import entry
    from flopwise.report.commands.weights import COLUMNS, weights_report
    from flopwise.report.formats.json import render_content

    if settings["no_histogram"] and (figures is not None or bins_json is not None):
        raise InputError(
            f"{'--figures' if figures is not None else '--bins-json'} needs the histograms; leave --no-histogram out"
        )
    for key in (*(settings["columns"] or ()), *([settings["sort"]] if settings["sort"] else ())):
        entry(COLUMNS, key)
        if settings["no_histogram"] and key in (*PERCENTILES, "histogram"):
            raise InputError(f"{key} needs the histograms; leave --no-histogram out")
    if figures is not None:
        from flopwise.report.drawings import prepare

        prepare(figures)
    paths = models.find_stored(model)
    single = {"--figures": figures, "--bins-json": bins_json}
    if len(paths) > 1 and (option := next((name for name, value in single.items() if value is not None), None)):
        raise InputError(f"{model}: holds {len(paths)} models; {option} takes one")
    named = ("batch_size", *ONNX, "phase", "stages", "level", "weights", "mode", "arguments", "trust_code")
    arguments = {key: settings[key] for key in named if settings[key]}
    if settings["inputs"]:
        arguments["inputs"] = list(settings["inputs"])
    histograms: list[str] = []

    def work(path: str, step: models.Step, dims: Mapping[str, int]) -> tuple[Report, bool]:
        weights = flopwise.weights(
            path,
            by=settings["by"],
            bins=settings["bins"],
            histogram=not settings["no_histogram"],
            layers=settings["layers"] or None,
            threads=settings["threads"],
            progress=step,
            dims=dims,
            convention=settings["convention"],
            **arguments,
        )
        if figures is not None:
            from flopwise.report.commands.weights import draw

            draw(weights, figures, figure_format, step)
        if bins_json is not None:
            histograms.append(render_content(weights.histograms()))
        return weights_report(weights, settings["columns"], settings["sort"], settings["top"]), True

    code = run_each(model, work, output, dims=settings["dims"], paths=paths)
    for text in histograms:
        write(text, bins_json)
    return code
