"""``flopwise trace``."""

from __future__ import annotations

from typing import Any

import click

from flopwise.cli import NO, models, options
from flopwise.cli.command import Command, option
from flopwise.cli.completion import DEVICE, TRACE_COLUMNS
from flopwise.cli.output import Output, writes
from flopwise.cli.places import Model, Read
from flopwise.cli.run import reading_of
from flopwise.cli.streams import Progress

#: The share of the covered time, without gaps, that has to be on rows or under a name for --strict.
LEAST = 0.95


@click.command(
    "trace",
    cls=Command,
    examples=[
        "model.onnx profile.json",
        "model.onnx profile.json --by op --top 10",
        "trace.json.gz --phase backward --by kernel",
    ],
)
@options.pass_of_a_step
@click.argument("model", metavar="[MODEL]", type=Model())
@click.argument("file", metavar="TRACE", required=False, type=Read())
@options.shapes
@option("--step", default="median", show_default=True, metavar="NAME", help="median, all, or a step (--by step).")
@option("--device", metavar="NAME", type=DEVICE, help="A device of flopwise devices; default: what the trace names.")
@option("--beside", type=Read(), metavar="FILE", help="Of TensorRT: the engine's layers (--exportLayerInfo).")
@option("--strict", is_flag=True, help=f"Exit with 1 when less than {100 * LEAST:g} % of the time has a row or a name.")
@options.by("layer", "op", "module", "kernel", "step", help="One line for each of these.")
@options.depth
@options.columns_of(TRACE_COLUMNS)
@options.sorting()
@options.top("Show the N slowest lines; the rest becomes one line.")
@writes("sheet", "content")
def command(model: str, file: str | None, strict: bool, output: Output, **settings: Any) -> int:
    """The time that a profiler recorded in TRACE, on the layers of MODEL; nothing runs.

    TRACE is a trace of PyTorch's profiler, a profile of onnxruntime, or one of TensorRT; it may be packed by gzip.
    What no layer did has a name: copies, optimiser, layout, gaps ... Layers + segments of several + these = the time
    that the trace covers, to the nanosecond. Without MODEL the trace's own operators and shapes are counted.
    """
    import flopwise
    from flopwise.report.commands.trace import trace_report

    models.refuse_directory(model, "trace takes one model")
    reading = {} if file is None else reading_of(settings)
    with Progress() as progress:
        trace = flopwise.trace(
            None if file is None else model,
            model if file is None else file,
            **{**reading, **{key: settings[key] for key in ("step", "phase", "device", "beside")}},
            progress=progress,
        )
        shown = (settings[key] for key in ("by", "columns", "sort", "top", "depth"))
        report = trace_report(trace, *shown)
    output.write(report)
    unnamed = trace.remainder.get("unmatched", 0)
    return NO if strict and trace.busy_ns and unnamed > (1 - LEAST) * trace.busy_ns else 0
