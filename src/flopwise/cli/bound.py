"""``flopwise bound``."""

from __future__ import annotations

import sys
from typing import Any

import click

from flopwise.cli import BAD, NO, models, options
from flopwise.cli.output import format_of, look_of, write
from flopwise.cli.run import arguments_of, together

FORMATS = ("table", "markdown", "csv", "json", "latex")


@click.command("bound")
@options.model
@click.option("--device", metavar="NAME", help="A device of flopwise devices; default: this machine's CPU.")
@click.option("--threads", type=click.IntRange(1), help="Cores of a CPU in use; default: all.")
@click.option("--dtype", metavar="TYPE", help="Compute products of floating-point numbers in this type (tf32, bf16).")
@click.option("--winograd", is_flag=True, help="Let 3x3 convolutions of stride 1 take 2.25 times fewer products.")
@click.option("--by", type=click.Choice(["layer", "op"]), default="layer", show_default=True, help="Grouping.")
@click.option("--columns", metavar="A,B,C", callback=options._names, help="Columns to show.")
@click.option("--sort", metavar="COLUMN", help="Sort by a column, largest first.")
@click.option("--top", type=click.IntRange(1), help="Show the N slowest lines; the rest as one line.")
@click.option("--strict", is_flag=True, help="Exit with 1 when the floor is a lower bound only, or does not hold.")
@options.output(*FORMATS)
def command(model: str, format_: str | None, strict: bool, **given: Any) -> int:
    """How long MODEL takes at least on a device, layer by layer.

    The physical floor is the larger of arithmetic at the device's peak and the bytes that must move through its memory:
    no engine that computes in that type with direct algorithms is faster. Nothing runs.
    """
    import flopwise
    from flopwise.report.commands.bound import render_bound

    format_ = format_ or format_of(given["output"], FORMATS)
    arguments = arguments_of(given)
    kept = {key: arguments[key] for key in arguments if key not in ("convention", "rules", "fold")}
    look = look_of(given["output"], header=not given["no_header"])

    def work(path: str, step: models.Step) -> tuple[str, str, bool]:
        found = flopwise.bound(
            path,
            device=given["device"],
            threads=given["threads"],
            dtype=given["dtype"],
            winograd=given["winograd"],
            progress=step,
            **kept,
        )
        text = render_bound(found, format_, given["by"], given["columns"], given["sort"], given["top"], look)
        return path, text, all(row.status != "unknown" for row in found.rows)

    results, errors = models.each(models.find(model), work)
    if results:
        write(together([(path, text) for path, text, _ in results], format_, not given["no_header"]), given["output"])
    for error in errors:
        print(f"flopwise: {error}", file=sys.stderr)
    if errors:
        return BAD
    return NO if strict and not all(complete for _, _, complete in results) else 0
