"""``flopwise trace``."""

from __future__ import annotations

from collections.abc import Sequence
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
@click.argument("model", metavar="[MODEL]", required=False, type=Model())
@click.argument("file", metavar="TRACE", required=False, type=Read())
@click.argument("other", metavar="[OTHER]", required=False, type=Read())
@options.shapes
@option("--step", default="median", show_default=True, help="median, all, or a step (--by step).")
@option("--device", type=DEVICE, help="Device for floors and MFU (flopwise devices); default: the trace's own.")
@option(
    "--beside",
    type=Read(),
    multiple=True,
    metavar="FILE",
    help="Companion files: TensorRT layers, a CUDA graph capture, kernel_information.json. Repeatable.",
)
@option("--split", type=click.Choice(["macs"]), help="Split the time of segments by MACs: an estimate.")
@option("--what-if", is_flag=True, help="Also the time without gaps, copies, layout ... (floors), and what --try asks.")
@options.tries("device=NAME: the step's kernels on another device, an estimate.")
@option(
    "--fail-on",
    metavar="CONDITION",
    help="Of two traces: exit with 1 if OTHER takes more: 'time>5%'.",
)
@option(
    "--strict",
    is_flag=True,
    help=f"Exit with 1 if under {100 * LEAST:g} % of the time is named, or of the model's FLOPs have a time.",
)
@options.by("layer", "op", "module", "kernel", "step", help="One line for each of these.")
@options.depth
@options.columns_of(TRACE_COLUMNS)
@options.sorting()
@options.top("Show the N slowest lines; the rest becomes one line.")
@writes("sheet", "content", "timeline", "trace", "traces")
@options.figures("the slowest layers, the timeline and the roofline reached, or the largest differences")
def command(
    model: str | None,
    file: str | None,
    other: str | None,
    fail_on: str | None,
    strict: bool,
    output: Output,
    **settings: Any,
) -> int:
    """Time per layer of MODEL, as a profiler recorded it in TRACE; nothing is run.

    TRACE is a trace of PyTorch's profiler, or a profile of onnxruntime or TensorRT, plain or compressed by gzip. Time
    outside layers is listed by name: copies, optimiser, layout, gaps ... Layers + segments (layers fused into one
    event) + these = the time that the trace covers, to the nanosecond. Without MODEL, times are grouped by operator
    and shape. A second trace, OTHER, is compared with the first, layer by layer.
    """
    from flopwise.analyses.traces.format import is_trace

    if model is None:
        raise click.UsageError("Missing argument 'TRACE'.")
    models.refuse_directory(model, "trace takes one model")
    files = [name for name in (model, file, other) if name is not None]
    alone = len(files) == 1 or (len(files) == 2 and is_trace(model))
    traced = files if alone else files[1:]
    _refuse(settings, output, len(traced), alone, fail_on, strict)
    if settings["figures"] is not None:
        from flopwise.report.drawings import prepare

        prepare(settings["figures"])
    traces = _traces(None if alone else model, traced, settings)
    if settings["depth"] is not None and settings["by"] == "layer":
        settings["by"] = "module"
    if len(traces) == 2:
        return _compare(traces, fail_on, output, settings)
    return _show(traces[0], strict, output, settings)


def _refuse(
    settings: options.Values, output: Output, number: int, alone: bool, fail_on: str | None, strict: bool
) -> None:
    """Raise InputError for options that do not go with what is shown.

    Args:
        settings: options by name.
        output: what is written.
        number: of traces.
        alone: whether there is no model.
        fail_on: a condition.
        strict: whether the answer may be no.
    """
    for name, key in _READING.items() if alone else ():
        if reading_of(settings).get(key):
            raise InputError(f"{name} says how to read a model, and there is none")
    if output.format.name == "html":
        given = [key for key in ("columns", "sort", "top", "depth") if settings[key] is not None]
        if given or settings["by"] != "layer":
            raise InputError(f"the page has every layer, grouping and column: leave out --{(given or ['by'])[0]}")
    of_one = [name for name, value in (("what-if", _asks_what_if(settings)), ("strict", strict)) if value]
    if number == 2 and of_one:
        raise InputError(f"--{of_one[0]} is of one trace: leave OTHER out")
    given = [key for key in ("columns", "sort") if settings[key]]
    if number == 2 and given:
        raise InputError(f"a comparison has its own columns, largest difference first: leave out --{given[0]}")
    if number == 1 and fail_on is not None:
        raise InputError("--fail-on compares two traces: give the other one as well")


def _asks_what_if(settings: options.Values) -> bool:
    return bool(settings["what_if"] or settings["tries"])


def _traces(model: str | None, files: Sequence[str], settings: options.Values) -> list[Trace]:
    """The traces in files, on the rows of a model if there is one."""
    import flopwise

    reading = {key: value for key, value in reading_of(settings).items() if value or model is not None}
    chosen = {key: settings[key] for key in ("step", "phase", "device", "beside", "split", "tries")}
    with Progress() as progress:
        return [flopwise.trace(model, file, **{**reading, **chosen}, progress=progress) for file in files]


def _show(trace: Trace, strict: bool, output: Output, settings: options.Values) -> int:
    """Show one trace."""
    from flopwise.report.commands.trace import trace_report

    if settings["figures"] is not None:
        from flopwise.report.commands.trace import draw

        draw(trace, settings["figures"], settings["figure_format"])
    shown = {key: settings[key] for key in ("by", "columns", "sort", "top", "depth")}
    output.write(trace_report(trace, **shown, what_if=_asks_what_if(settings)))
    unnamed = trace.remainder.get("unmatched", 0)
    return NO if strict and (unnamed > (1 - LEAST) * trace.busy_ns or trace.unseen > 1 - LEAST) else 0


def _compare(traces: Sequence[Trace], fail_on: str | None, output: Output, settings: options.Values) -> int:
    """Show two traces side by side."""
    import flopwise
    from flopwise.analyses.traces.comparison import breaks
    from flopwise.report.commands.trace import breaks_text, trace_comparison_report

    comparison = flopwise.compare_traces(*traces)
    broken = [] if fail_on is None else breaks(comparison, fail_on)
    if settings["figures"] is not None:
        from flopwise.report.commands.trace import draw_both

        draw_both(comparison, settings["figures"], settings["figure_format"])
    output.write(trace_comparison_report(comparison, settings["top"], settings["by"], settings["depth"]))
    for line in breaks_text(broken):
        say(line, prefix="")
    return NO if broken else 0
