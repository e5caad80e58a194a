"""``flopwise trace``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flopwise.cli import NO, models, options
from flopwise.cli.command import Command, option
from flopwise.cli.completion import DEVICE, TRACE_COLUMNS
from flopwise.cli.output import Output, writes
from flopwise.cli.places import Model, Read
from flopwise.cli.run import reading_of
from flopwise.cli.streams import Progress, say
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.analyses.traces.trace import Trace

#: For --strict: the share of the covered time, without gaps, that has to be on rows or under a name, and that of the
#: model's arithmetic that has to be on rows with time.
LEAST = 0.95


#: Options that say how to read a model -> the key of what they say.
_READING = {"-b": "batch_size", "-i": "inputs", "--dim": "dims"}


@click.command(
    "trace",
    cls=Command,
    examples=[
        "model.onnx profile.json",
        "trace.json.gz --phase backward --by kernel",
        'model.onnx before.json after.json --fail-on "time>5%"',
    ],
)
@options.pass_of_a_step
@click.argument("model", metavar="[MODEL]", type=Model())
@click.argument("file", metavar="TRACE", required=False, type=Read())
@click.argument("other", metavar="[OTHER]", required=False, type=Read())
@options.shapes
@option("--step", default="median", show_default=True, metavar="NAME", help="median, all, or a step (--by step).")
@option("--device", metavar="NAME", type=DEVICE, help="A device of flopwise devices; default: what the trace names.")
@option(
    "--beside",
    type=Read(),
    multiple=True,
    metavar="FILE",
    help="More of the trace: an engine's layers, the capture of CUDA graphs, kernel_information.json.",
)
@option("--split", type=click.Choice(["macs"]), help="Divide segments' time by multiply-adds: an estimate.")
@option("--what-if", is_flag=True, help="Also floors without gaps, copies, layout ... and what --try asks.")
@options.tries("device=NAME: the step's kernels on another device, an estimate.")
@option("--fail-on", metavar='"time>5%"', help="Of two traces: exit with 1 when OTHER takes so much more than TRACE.")
@option(
    "--strict",
    is_flag=True,
    help=f"Exit with 1 when under {100 * LEAST:g} % of the time has a row or a name, or of the model a time.",
)
@options.by("layer", "op", "module", "kernel", "step", help="One line for each of these.")
@options.depth
@options.columns_of(TRACE_COLUMNS)
@options.sorting()
@options.top("Show the N slowest lines; the rest becomes one line.")
@writes("sheet", "content", "timeline", "trace", "traces")
@options.figures("the slowest layers, the timeline and the roofline reached, or the largest differences")
def command(
    model: str, file: str | None, other: str | None, fail_on: str | None, strict: bool, output: Output, **settings: Any
) -> int:
    """The time that a profiler recorded in TRACE, on the layers of MODEL; nothing runs.

    TRACE is a trace of PyTorch's profiler, a profile of onnxruntime, or one of TensorRT; it may be packed by gzip.
    What no layer did has a name: copies, optimiser, layout, gaps ... Layers + segments of several + these = the time
    that the trace covers, to the nanosecond. Without MODEL the trace's own operators and shapes are counted. A second
    trace is shown beside the first, layer by layer.
    """
    import flopwise
    from flopwise.analyses.traces.format import is_trace
    from flopwise.report.commands.trace.report import trace_report

    models.refuse_directory(model, "trace takes one model")
    files = [name for name in (model, file, other) if name is not None]
    alone = len(files) == 1 or (len(files) == 2 and is_trace(model))
    traced = files if alone else files[1:]
    keys = ("step", "phase", "device", "beside", "split", "tries")
    reading = {key: value for key, value in reading_of(settings).items() if value or not alone}
    if alone:
        for option, key in _READING.items():
            if reading.get(key):
                raise InputError(f"{option} says how to read a model, and there is none")
    if output.format.name == "html":
        given = [key for key in ("columns", "sort", "top", "depth") if settings[key] is not None]
        if given or settings["by"] != "layer":
            raise InputError(f"the page has every layer, grouping and column: leave out --{(given or ['by'])[0]}")
    if settings["figures"] is not None:
        from flopwise.report.drawings import prepare

        prepare(settings["figures"])
    with Progress() as progress:
        traces = [
            flopwise.trace(
                None if alone else model,
                name,
                **{**reading, **{key: settings[key] for key in keys}},
                progress=progress,
            )
            for name in traced
        ]
    by = "module" if settings["depth"] is not None and settings["by"] == "layer" else settings["by"]
    what_if = settings["what_if"] or bool(settings["tries"])
    if len(traces) == 2:
        if what_if:
            raise InputError("--what-if is of one trace: leave OTHER out")
        if strict:
            raise InputError("--strict is of one trace: leave OTHER out")
        return _compare(traces, fail_on, output, by, settings)
    if fail_on is not None:
        raise InputError("--fail-on compares two traces: give the other one as well")
    (trace,) = traces
    if settings["figures"] is not None:
        from flopwise.report.commands.trace.figures import draw

        draw(trace, settings["figures"], settings["figure_format"])
    output.write(
        trace_report(trace, by, **{key: settings[key] for key in ("columns", "sort", "top", "depth")}, what_if=what_if)
    )
    unnamed = trace.remainder.get("unmatched", 0)
    return NO if strict and (unnamed > (1 - LEAST) * trace.busy_ns or trace.unseen > 1 - LEAST) else 0


def _compare(traces: list[Trace], fail_on: str | None, output: Output, by: str, settings: dict[str, Any]) -> int:
    """Show two traces side by side."""
    import flopwise
    from flopwise.analyses.traces.comparison import breaks
    from flopwise.report.commands.trace.comparison import breaks_text, trace_comparison_report

    given = [key for key in ("columns", "sort") if settings[key]]
    if given:
        raise InputError(f"two traces have columns of their own, the largest difference first: leave out --{given[0]}")
    comparison = flopwise.compare_traces(*traces)
    broken = [] if fail_on is None else breaks(comparison, fail_on)
    if settings["figures"] is not None:
        from flopwise.report.commands.trace.figures import draw_both

        draw_both(comparison, settings["figures"], settings["figure_format"])
    output.write(trace_comparison_report(comparison, settings["top"], by, settings["depth"]))
    for line in breaks_text(broken):
        say(line, prefix="")
    return NO if broken else 0
