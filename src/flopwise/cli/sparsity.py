"""``flopwise sparsity``."""

from __future__ import annotations

import sys
from typing import Any

import click

from flopwise.analyses.sparsity.asking import Asked
from flopwise.cli import BAD, NO, models, options
from flopwise.cli.output import format_of, look_of, write
from flopwise.cli.run import arguments_of, together
from flopwise.errors import InputError

FORMATS = ("table", "markdown", "csv", "json", "latex")

_USUAL = Asked()


def _ranks(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None or value == "all":
        return None
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 3 for part in parts):
        raise click.BadParameter(f"{value!r} is no list of ranks, such as 2,4, and not all", ctx, param)
    return tuple(map(int, parts))


@click.command("sparsity")
@options.model
@click.option("--block", "blocks", metavar="RxC[,...]", multiple=True, help="Count zero blocks: rows x columns.")
@click.option(
    "--pattern",
    "patterns",
    metavar="N:M[,...]",
    multiple=True,
    help="Test N:M patterns along the reduction, such as 2:4.",
)
@click.option(
    "--order",
    type=click.Choice(["stored", "channels-last"]),
    default="stored",
    show_default=True,
    help="Reduction of a convolution: channel before kernel position, or after it.",
)
@click.option(
    "--by", type=click.Choice(["tensor", "layer"]), default="tensor", show_default=True, help="What a line is."
)
@click.option("--tensor", "tensors", metavar="NAME", multiple=True, help="Read this weight only. Repeatable.")
@click.option(
    "--min-size", type=int, default=_USUAL.min_size, show_default=True, help="Search tensors with more elements."
)
@click.option(
    "--min-ratio",
    type=float,
    default=_USUAL.min_ratio,
    show_default=True,
    help="Search tensors with a larger share of zeros.",
)
@click.option(
    "--tolerance",
    type=float,
    default=_USUAL.tolerance,
    show_default=True,
    help="How far the share of zero blocks may lie below that of zeros.",
)
@click.option("--ranks", metavar="A,B", callback=_ranks, help="Ranks of the tensors to search; default: all.")
@click.option("--top", type=click.IntRange(1), help="Show the N weights or layers with the most zeros.")
@options.units
@click.option(
    "--strict", is_flag=True, help="Exit with 1 when the zeros of a weight or the MACs of a layer are unknown."
)
@options.output(*FORMATS)
def command(model: str, format_: str | None, strict: bool, **given: Any) -> int:
    """Zeros of MODEL's weights: single ones, blocks, N:M patterns, whole channels, and the MACs that they save.

    A weight is seen as a matrix: rows are outputs, columns are what an output sums over. In weights that are sparse
    enough, the largest block is searched for in which the zeros come. MODEL may also be a file of tensors alone.
    """
    import flopwise
    from flopwise.analyses.sparsity import asked
    from flopwise.report.commands.sparsity import render_sparsity

    place, format_ = given["output"], format_ or format_of(given["output"], FORMATS)
    if given["tensors"] and given["by"] == "layer":
        raise InputError("--tensor: reads single weights; layers need all of theirs")
    thresholds = {
        key: given[key] for key in ("blocks", "patterns", "min_size", "min_ratio", "tolerance", "ranks", "order")
    }
    asked(**thresholds)  # before anything is read
    arguments = arguments_of(given)

    def work(path: str, step: models.Step) -> tuple[str, str, bool]:
        found = flopwise.sparsity(path, progress=step, tensors=given["tensors"] or None, **thresholds, **arguments)
        step("writing the report")
        look = look_of(place, given["human"], not given["no_header"])
        text = render_sparsity(found, format_, given["by"], given["top"], look)
        exact = not found.unknown and all(layer.effective.macs is not None for layer in found.layers)
        return path, text, exact

    results, errors = models.each(models.find(model), work)
    if results:
        write(together([(path, text) for path, text, _ in results], format_, not given["no_header"]), place)
    for error in errors:
        print(f"flopwise: {error}", file=sys.stderr)
    if errors:
        return BAD
    return NO if strict and not all(exact for _, _, exact in results) else 0
