"""``flopwise bound``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from flopwise.cli import models, options
from flopwise.cli.command import Command, option
from flopwise.cli.completion import BOUND_COLUMNS, DEVICE
from flopwise.cli.output import Output, write, writes
from flopwise.cli.run import arguments_of, run_each

if TYPE_CHECKING:
    from flopwise.analyses.timing.bound import Bound
    from flopwise.report.report import Report


@click.command(
    "bound",
    cls=Command,
    examples=["model.onnx", "model.onnx --device h100 --dtype bf16 -b 64", "model.onnx --try level=off"],
)
@options.engine_level
@options.model
@option("--device", type=DEVICE, help="A device of flopwise devices; default: this machine's CPU.")
@option("--engine", help="The engine whose measurements count; default: onnxruntime, if there are any.")
@option("--measure", is_flag=True, help="Measure first what the store lacks (flopwise bench --missing).")
@option("--measured", metavar="TIME", help="A time that was measured, such as 35ms: MFU, and its share of the floors.")
@options.store
@option("--threads", type=click.IntRange(1), help="Cores of a CPU in use; default: all.")
@option("--dtype", metavar="TYPE", help="Type of all floating-point tensors (fp16, bf16), or of products alone (tf32).")
@option("--winograd", is_flag=True, help="Let 3x3 convolutions of stride 1 take 2.25 times fewer products.")
@option("--what-if", is_flag=True, help="Also what fusion, parallel nodes, other levels or threads would bring.")
@options.tries("MODEL runs here: level=off,threads=2,layout=nchw,batch=8,dtype=int8.")
@option(
    "--workers",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="With --what-if: nodes at once.",
)
@option("--strict", is_flag=True, help="Exit with 1 when the floor is a lower bound only, or does not hold.")
@options.by("layer", "op", help="One line for each layer or operator.")
@options.columns_of(BOUND_COLUMNS)
@options.sorting()
@options.top("Show the N slowest lines; the rest becomes one line.")
@options.also("--figure", help="Draw roofline and waterfall (.png, .svg, .pdf).")
@writes("sheet", "content", "bound")
def command(model: str, strict: bool, output: Output, **settings: Any) -> int:
    """The least time that MODEL takes on a device, layer by layer.

    The physical floor is the larger of arithmetic at the device's peak and the bytes that must move through its memory:
    no engine that computes in that type with direct algorithms is faster. Where flopwise bench has measured MODEL on
    this machine, the engine's own floor and the measured time stand beside it. Nothing runs without --measure or --try.

    Energy is not estimated: no vendor publishes the joules of an operation or of a byte, and a board's power times a
    floor is no bound.
    """
    import flopwise
    from flopwise.analyses.timing.whatif import nanoseconds, utilisation
    from flopwise.report.commands.bound import bound_report

    measured = None if settings["measured"] is None else nanoseconds(settings["measured"])
    arguments = arguments_of(settings)
    reading = {key: arguments[key] for key in arguments if key not in ("convention", "rules", "fold")}
    level = reading.pop("level", "all")
    if level.isdigit():  # of a Caffe net
        level, reading["level"] = "all", int(level)

    drawn = None
    if settings["figure"] is not None:
        from flopwise.report.commands import bound as drawing

        models.refuse_directory(model, "--figure takes one model")
        drawn = drawing.format_of(settings["figure"])

    def work(path: str, step: models.Step, dims: Mapping[str, int]) -> tuple[Report, bool]:
        chosen = {**reading, "dims": dims, "optimization": level, "store": settings["store"], "progress": step}
        if settings["measure"]:
            engine = settings["engine"] or "onnxruntime"
            flopwise.bench(path, engine=engine, threads=settings["threads"] or 1, missing=True, **chosen)
        bound = flopwise.bound(
            path,
            engine=settings["engine"] or ("onnxruntime" if settings["measure"] else None),
            **{key: settings[key] for key in ("device", "threads", "dtype", "winograd", "tries")},
            **chosen,
        )
        if drawn is not None:
            write(drawing.figure(bound, drawn), settings["figure"])
        shown = {key: settings[key] for key in ("by", "columns", "sort", "top", "workers")}
        what_if = settings["what_if"] or bool(settings["tries"])
        run = None if measured is None else utilisation(bound, measured)
        return bound_report(bound, **shown, what_if=what_if, run=run), _holds(bound)

    return run_each(model, work, output, strict, reading["dims"])


def _holds(bound: Bound) -> bool:
    """True where nothing is missing from the floor and the floor is not above the measured time."""
    if bound.engine is not None:
        return bound.engine.complete and bound.verdict != "BROKEN"
    return all(row.status != "unknown" for row in bound.rows)
