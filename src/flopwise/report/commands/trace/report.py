"""The report of a trace: a line for each layer, operator, module, kernel or step, and where the other time went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from flopwise._results import Json
from flopwise.analyses.timing.whatif import notes_on
from flopwise.analyses.traces.lines import Item, Part, common_module, layer_items, modules_around, time_of, timed
from flopwise.analyses.traces.trace import BACKWARD, FORWARD, Segment, TimedRow, Trace
from flopwise.analyses.traces.whatif import what_ifs
from flopwise.errors import InputError, counted, entry
from flopwise.report.commands.what_ifs import plain_ways, what_if_sheet
from flopwise.report.formats.format import Format
from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Field, Figure, Head, Line, Mark, Sheet
from flopwise.report.sheet.values import Look, Value, by_size, percent, ratio, total_of

#: Nanoseconds of the unit that tables show.
MICRO = 1e3

#: Grouping -> what a line is.
NOUNS = {"layer": "layer", "op": "operator", "module": "module", "kernel": "kernel", "step": "step"}


def _microseconds(phase: str = "") -> Callable[[Item], Value]:
    def value(item: Item) -> Value:
        parts = item.of(phase) if phase else item.parts
        return time_of(parts) / MICRO if timed(parts) else ""

    return value


def _launches(item: Item) -> Value:
    return sum(part.launches for part in item.parts) if timed(item.parts) else ""


def _median(item: Item) -> Value:
    rows = [part for part in item.parts if isinstance(part, TimedRow) and part.times_ns]
    medians = [row.median_ns for row in rows if row.median_ns is not None]
    return sum(medians) / MICRO if medians else ""


def _spread(item: Item) -> Value:
    row = item.parts[0] if len(item.parts) == 1 else None
    return 100 * row.spread if isinstance(row, TimedRow) and row.spread is not None else ""


def _share(item: Item) -> Value:
    if not timed(item.parts):
        return ""
    return 100 * item.time_ns / item.trace.covered_ns if item.trace.covered_ns else 0.0


def _rate(figure: Callable[[Part], int | None]) -> Callable[[Item], Value]:
    def value(item: Item) -> Value:
        parts = [part for part in timed(item.parts) if figure(part) is not None]
        time, work = time_of(parts), sum(figure(part) or 0 for part in parts)
        return work / time if time and work else ""

    return value


def _over(item: Item) -> Value:
    parts = [part for part in timed(item.parts) if isinstance(part, TimedRow) and part.floor_ns]
    floor = sum(part.floor_ns or 0 for part in parts)
    return time_of(parts) / floor if floor and time_of(parts) else ""


def _status(item: Item) -> Value:
    statuses = ["segment" if isinstance(part, Segment) else part.status for part in item.parts]
    return ", ".join(dict.fromkeys(statuses))


def _bytes(part: Part) -> int | None:
    return part.bytes if isinstance(part, TimedRow) else None


def _flops(item: Item) -> Value:
    return total_of(part.flops for part in timed(item.parts)) if timed(item.parts) else ""


_COLUMNS: tuple[Field[Item], ...] = (
    Field(Head("name", "layer", "text", 0), lambda i: i.name, "the layer, operator, module, kernel or step"),
    Field(Head("op", "op", "text", 3), lambda i: i.op, "the operator"),
    Field(Head("launches", "launches", "number", 5), _launches, "kernels or calls"),
    Field(Head("flops", "FLOPs", "number", 7), _flops, "all arithmetic"),
    Field(Head("forward", "forward µs", "ratio", 1), _microseconds(FORWARD), "time of the forward pass"),
    Field(Head("backward", "backward µs", "ratio", 1), _microseconds(BACKWARD), "time of the backward pass"),
    Field(Head("time", "µs", "ratio", 1), _microseconds(), "time of both in the step that is shown"),
    Field(Head("median", "median µs", "ratio", 8), _median, "median of the times in all steps"),
    Field(Head("spread", "± %", "percent", 8), _spread, "half the interquartile range of the times in all steps"),
    Field(Head("share", "%", "percent", 2), _share, "share of the time that the trace covers"),
    Field(Head("gflops", "GFLOP/s", "ratio", 3), _rate(lambda p: p.flops), "arithmetic per second"),
    Field(Head("gbytes", "GB/s", "ratio", 6), _rate(_bytes), "operand bytes per second"),
    Field(Head("time/floor", "time/floor", "ratio", 4), _over, "time over the device's roofline floor"),
    Field(
        Head("status", "status", "text", 6),
        _status,
        "matched, segment (fused with others), estimate (share of a segment), absent",
    ),
)

COLUMNS: dict[str, Field[Item]] = {column.head.key: column for column in _COLUMNS}

#: What people are shown by itself, beside the columns of one phase; programs get all columns.
DEFAULT = {
    "layer": "name op launches {} share gflops time/floor status",
    "op": "name launches {} share gflops time/floor",
    "module": "name launches {} share gflops time/floor",
}

#: Columns of which no sum says anything.
NO_TOTAL = ("op", "status", "spread", "median")


def trace_report(
    trace: Trace,
    by: str = "layer",
    columns: Sequence[str] | None = None,
    sort: str | None = None,
    top: int | None = None,
    depth: int | None = None,
    what_if: bool = False,
) -> Report:
    """A trace as a table; its JSON always holds all rows.

    Args:
        trace: what to write.
        by: one line for each "layer", "op", "module", "kernel" or "step".
        columns: keys of columns; None for what suits the grouping.
        sort: key of the column to sort by, the largest first; None for the order of execution.
        top: how many lines to show, those with the most time unless ``sort`` says otherwise.
        depth: with modules: how many levels.
        what_if: whether other ways are shown below, such as without gaps.

    Raises:
        InputError: the grouping or a column is unknown, or the grouping has no such columns.
    """
    if by not in NOUNS:
        raise InputError(f"cannot group by {by!r}; choose {', '.join(NOUNS)}")
    for key in (*(columns or ()), *([sort] if sort else ())):
        entry(COLUMNS, key)
    if by not in DEFAULT and (columns or sort):
        raise InputError(f"lines by {by} have their own columns")
    if by == "step" and top is not None:
        raise InputError("lines by step are all of them, in their order: leave top out")
    if by != "module" and depth is not None:
        raise InputError(f"depth is of modules, not of lines by {by}")

    def sheets(format: Format, look: Look) -> list[Sheet]:
        first = sheet(format, look)
        return [first, _what_if_sheet(trace, look)] if what_if and not format.data else [first]

    def sheet(format: Format, look: Look) -> Sheet:
        if by == "step":
            return _steps(trace, look)
        if by == "kernel":
            return _kernels(trace, top, look)
        chosen = [COLUMNS[key] for key in columns or (COLUMNS if format.data else _default(trace, by))]
        items = _items(trace, by, depth)
        if sort or top or by == "op":
            items.sort(key=lambda item: by_size(COLUMNS[sort or "time"].value(item)))
        first, hidden = items[:top], items[top:] if top else []
        if hidden:
            label = f"{look.glyphs.cut} {counted(len(hidden), f'more {NOUNS[by]}')}"
            first.append(Item(label, "", tuple(part for item in hidden for part in item.parts), trace))
        total = Item("Total", "", (*trace.rows, *trace.segments), trace)
        fields = [replace(c, total="" if c.head.key in NO_TOTAL else c.value(total)) for c in chosen]
        return Sheet.of(
            fields, first, lambda item: _mark(item, bool(hidden) and item is first[-1]), **_frame(trace, look)
        )

    def content() -> Json:
        return trace.to_dict() | ({"what_if": plain_ways(what_ifs(trace))} if what_if else {})

    return Report(sheets, content, {"timeline": (trace,), "trace": (trace, lambda: _all(trace))})


def _what_if_sheet(trace: Trace, look: Look) -> Sheet:
    return what_if_sheet(what_ifs(trace), look, notes_on(["device"] if trace.tried else []))


def _all(trace: Trace) -> Sheet:
    """All columns of all layers."""
    return Sheet.of(list(COLUMNS.values()), layer_items(trace), **_frame(trace, Look()))


def _default(trace: Trace, by: str) -> list[str]:
    """The columns that people see: both phases where there are two; without a model lines are operators already."""
    phases = {row.phase for row in trace.rows} | {segment.phase for segment in trace.segments}
    keys = DEFAULT[by].format("forward backward" if len(phases) > 1 else "time").split()
    return keys if trace.model else [key for key in keys if key not in ("op", "status")]


def _mark(item: Item, rest: bool) -> Mark:
    if rest:
        return "rest"
    return "unknown" if all(isinstance(p, TimedRow) and p.status == "absent" for p in item.parts) else ""


def _items(trace: Trace, by: str, depth: int | None) -> list[Item]:
    """The lines, in the order of execution."""
    if by == "layer":
        return layer_items(trace)
    groups: dict[str, list[Part]] = {}
    around = {row.name: row for row in trace.rows}
    parts: tuple[Part, ...] = (*trace.rows, *trace.segments)
    for part in parts:
        rows = [part] if isinstance(part, TimedRow) else [around[name] for name in part.layers]
        if by == "op":
            names = ["+".join(dict.fromkeys(row.op for row in rows))]
        else:
            names = list(modules_around(common_module(row.module for row in rows), depth))
        for name in names:
            groups.setdefault(name, []).append(part)
    return [Item(name or trace.model or "trace", "", tuple(parts), trace) for name, parts in groups.items()]


def _frame(trace: Trace, look: Look) -> Json:
    """The parts of a sheet above and below its lines."""
    steps = f"{trace.step} of {counted(len(trace.steps), 'step')}" if len(trace.steps) > 1 else trace.step
    about = [trace.model or "no model: grouped by operator and shape", trace.format, trace.device, steps]
    if trace.split:
        about.append("segments split by MACs: an estimate")
    return {
        "about": look.texts(filter(None, about)),
        "summary": tuple(_summary(trace, look)),
        "notes": look.texts(trace.notes),
        "skip_empty": True,
    }


def _summary(trace: Trace, look: Look) -> Iterator[Figure]:
    """Where the time went, and how much of the model was found."""

    def figure(title: str, time: int) -> Figure:
        share = 100 * time / trace.covered_ns if trace.covered_ns else 0.0
        return Figure(look.text(title), f"{ratio(time / MICRO)} µs", f"{percent(share)} %")

    yield figure("layers", trace.rows_ns)
    if trace.segments:
        yield figure("segments", trace.segments_ns)
    for name, time in trace.remainder.items():
        yield figure(f"  {name}", time)
    yield figure("total", trace.covered_ns)
    if trace.busy_ns != trace.wall_ns:
        yield figure("busy, by the wall clock", trace.wall_ns)
    if trace.mfu is not None:
        yield Figure("MFU", f"{percent(100 * trace.mfu)} %", "of the device's peak over the step")
    matched = trace.matched
    if trace.model:
        share = matched.product_time_share
        of = "" if share is None else f"{percent(100 * share)} % of matmul and convolution time"
        yield Figure("matched", f"{matched.rows} of {matched.of}", f"layers, {of}" if of else "layers")


def _steps(trace: Trace, look: Look) -> Sheet:
    """A line for each step."""
    heads = (
        Head("name", "step", "text", 0),
        Head("window", "window µs", "ratio", 1),
        Head("busy", "busy µs", "ratio", 2),
        Head("wall", "wall µs", "ratio", 3),
        Head("gaps", "gaps %", "percent", 4),
        Head("mfu", "MFU %", "percent", 5),
    )
    lines = tuple(
        Line(
            (
                t.name,
                t.window_ns / MICRO,
                t.busy_ns / MICRO,
                t.wall_ns / MICRO,
                _gaps(t.window_ns, t.wall_ns),
                "" if t.mfu is None else 100 * t.mfu,
            )
        )
        for t in trace.times
    )
    return Sheet(heads, lines, **_frame(trace, look))


def _gaps(window: int, wall: int) -> float:
    return 100 * (window - wall) / window if window else 0.0


def _kernels(trace: Trace, top: int | None, look: Look) -> Sheet:
    """A line for each kernel, the one with the most time first, and the place where it took most of it."""
    times: Counter[str] = Counter()
    places: dict[str, Counter[str]] = {}
    for (place, phase, kernel), time in trace.kernels.items():
        times[kernel] += time
        places.setdefault(kernel, Counter())[f"{place}, backward" if phase == BACKWARD else place] += time
    heads = (
        Head("name", "kernel", "text", 0),
        Head("time", "µs", "ratio", 1),
        Head("share", "%", "percent", 2),
        Head("places", "places", "number", 4),
        Head("most", "mostly in", "text", 3),
    )
    lines = [
        Line(
            (
                name,
                time / MICRO,
                100 * time / trace.covered_ns if trace.covered_ns else 0.0,
                len(places[name]),
                places[name].most_common(1)[0][0],
            )
        )
        for name, time in times.most_common(top)
        if time
    ]
    return Sheet(heads, tuple(lines), **_frame(trace, look))
