"""``flopwise sparsity``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from flopwise.analyses.sparsity.asking import SparsityQuery
from flopwise.cli import models, options
from flopwise.cli.command import Choice, Command, option
from flopwise.cli.output import Output, writes
from flopwise.cli.run import arguments_of, run_each
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.report.report import Report

_USUAL = SparsityQuery()


def _ranks(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None or value == "all":
        return None
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 3 for part in parts):
        raise click.BadParameter(f"{value!r} is neither a list of ranks, such as 2,4, nor all", ctx, param)
    return tuple(map(int, parts))


@click.command(
    "sparsity",
    cls=Command,
    examples=["model.onnx", "model.onnx --block 1x4,4x1 --pattern 2:4", "model.onnx --by layer --top 10"],
)
@options.model
@option("--block", "blocks", metavar="RxC,...", multiple=True, help="Count zero blocks of R rows and C columns.")
@option(
    "--pattern",
    "patterns",
    metavar="N:M,...",
    multiple=True,
    help="Test N:M patterns along the reduction, such as 2:4.",
)
@option(
    "--order",
    type=Choice(["stored", "channels-last"]),
    default="stored",
    show_default=True,
    help="Reduction of a convolution: channel before kernel position, or after it.",
)
@option("--tensor", "tensors", multiple=True, help="Read this weight only. Repeatable.")
@option("--min-size", type=int, default=_USUAL.min_size, show_default=True, help="Search tensors with more elements.")
@option(
    "--min-ratio",
    type=float,
    default=_USUAL.min_ratio,
    show_default=True,
    help="Search tensors with a larger share of zeros.",
)
@option(
    "--tolerance",
    type=float,
    default=_USUAL.tolerance,
    show_default=True,
    help="How far the share of zero blocks may be below the share of zeros.",
)
@option("--ranks", metavar="N,...", callback=_ranks, help="Ranks of the tensors to search; default: all.")
@option("--strict", is_flag=True, help="Exit with 1 when the zeros of a weight or the MACs of a layer are unknown.")
@options.by("tensor", "layer", help="One line for each weight or layer.")
@options.top("Show the N weights or layers with the most zeros.")
@options.units
@writes("sheet", "content")
def command(model: str, strict: bool, by: str, top: int | None, output: Output, **settings: Any) -> int:
    """Zeros of MODEL's weights: single ones, blocks, N:M patterns, whole channels, and the MACs that they save.

    A weight is seen as a matrix: rows are outputs, columns are what an output sums over. In weights that are sparse
    enough, the largest block of zeros is searched for. MODEL may also be a file of tensors alone.
    """
    import flopwise
    from flopwise.analyses.sparsity.asking import sparsity_query
    from flopwise.report.commands.sparsity import sparsity_report

    if settings["tensors"] and by == "layer":
        raise InputError("--tensor reads single weights, and --by layer needs all of them")
    thresholds = {
        key: settings[key] for key in ("blocks", "patterns", "min_size", "min_ratio", "tolerance", "ranks", "order")
    }
    sparsity_query(**thresholds)  # before anything is read
    arguments = arguments_of(settings)

    def work(path: str, step: models.Step, dims: Mapping[str, int]) -> tuple[Report, bool]:
        chosen = {**arguments, "dims": dims, "tensors": settings["tensors"] or None}
        sparsity = flopwise.sparsity(path, progress=step, **thresholds, **chosen)
        exact = not sparsity.unknown and all(layer.effective.macs is not None for layer in sparsity.layers)
        return sparsity_report(sparsity, by, top), exact

    return run_each(model, work, output, strict, arguments["dims"], models.find_stored(model))
