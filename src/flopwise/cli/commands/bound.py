"""``flopwise bound``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flopwise.cli import models, options
from flopwise.cli.command import Command, option
from flopwise.cli.output import Output, writes
from flopwise.cli.run import arguments_of, run_each

if TYPE_CHECKING:
    from flopwise.report.report import Report


@click.command(
    "bound",
    cls=Command,
    examples=["model.onnx", "model.onnx --device h100 --dtype bf16 -b 64", "model.onnx --by op --top 10"],
)
@options.model
@option("--device", metavar="NAME", help="A device of flopwise devices; default: this machine's CPU.")
@option("--threads", type=click.IntRange(1), metavar="N", help="Cores of a CPU in use; default: all.")
@option("--dtype", metavar="TYPE", help="Compute products of floating-point numbers in this type (tf32, bf16).")
@option("--winograd", is_flag=True, help="Let 3x3 convolutions of stride 1 take 2.25 times fewer products.")
@option("--strict", is_flag=True, help="Exit with 1 when the floor is a lower bound only, or does not hold.")
@option(
    "--by",
    type=click.Choice(["layer", "op"]),
    default="layer",
    show_default=True,
    group="What to show",
    help="One line for each layer or operator.",
)
@options.columns
@option("--sort", metavar="COLUMN", group="What to show", help="Sort by a column, largest first.")
@option(
    "--top",
    type=click.IntRange(1),
    metavar="N",
    group="What to show",
    help="Show the N slowest lines; the rest becomes one line.",
)
@writes("sheet", "content")
def command(model: str, strict: bool, output: Output, **given: Any) -> int:
    """How long MODEL takes at least on a device, layer by layer.

    The physical floor is the larger of arithmetic at the device's peak and the bytes that must move through its memory:
    no engine that computes in that type with direct algorithms is faster. Nothing runs.
    """
    import flopwise
    from flopwise.report.commands.bound import bound_report

    arguments = arguments_of(given)
    kept = {key: arguments[key] for key in arguments if key not in ("convention", "rules", "fold")}

    def work(path: str, step: models.Step) -> tuple[Report, bool]:
        bound = flopwise.bound(
            path,
            device=given["device"],
            threads=given["threads"],
            dtype=given["dtype"],
            winograd=given["winograd"],
            progress=step,
            **kept,
        )
        report = bound_report(bound, given["by"], given["columns"], given["sort"], given["top"])
        return report, all(row.status != "unknown" for row in bound.rows)

    return run_each(model, work, output, strict)
