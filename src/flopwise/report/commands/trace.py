"""The report of a trace: a line for each layer, operator, module, kernel or step, and where the other time went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flopwise._results import Json
from flopwise.analyses.timing.whatif import notes_on
from flopwise.analyses.traces.assembly import critical_path
from flopwise.analyses.traces.comparison import (
    Break,
    Change,
    Item,
    Part,
    TraceComparison,
    common_module,
    grouped,
    layer_items,
    modules_around,
    time_of,
    timed,
)
from flopwise.analyses.traces.floors import what_ifs
from flopwise.analyses.traces.trace import BACKWARD, FORWARD, Moment, Segment, TimedRow, Trace
from flopwise.errors import InputError, counted, entry
from flopwise.report.commands.bound import COLOURS, Dot, draw_roofline, plain_ways, what_if_sheet
from flopwise.report.drawings import write_all
from flopwise.report.formats.format import Format
from flopwise.report.formats.table import shorten
from flopwise.report.html.bound import roof_lines
from flopwise.report.report import Report
from flopwise.report.sheet.sheet import (
    Field,
    Figure,
    Head,
    Line,
    Look,
    Mark,
    Sheet,
    Value,
    by_size,
    percent,
    ratio,
    total_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot

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


# The report of two traces: a line for each layer with its time in both, the largest difference first.


def _growth(before: int, after: int) -> Value:
    return 100 * (after - before) / before if before else ""


CHANGES: tuple[Field[Change], ...] = (
    Field(Head("name", "layer", "text", 0), lambda c: c.name, "the layer, or several together"),
    Field(Head("op", "op", "text", 5), lambda c: c.op, "the operator"),
    Field(Head("phase", "pass", "text", 5), lambda c: c.phase, "forward or backward"),
    Field(Head("before", "before µs", "ratio", 2), lambda c: c.before_ns / MICRO, "time in the first trace"),
    Field(Head("after", "after µs", "ratio", 2), lambda c: c.after_ns / MICRO, "time in the second"),
    Field(Head("more", "diff µs", "ratio", 1), lambda c: c.more_ns / MICRO, "the second less the first"),
    Field(Head("share", "%", "percent", 3), lambda c: _growth(c.before_ns, c.after_ns), "that, of the first"),
    Field(Head("spread", "± µs", "ratio", 4), lambda c: c.spread_ns / MICRO, "spread of the steps of both traces"),
    Field(
        Head("verdict", "verdict", "text", 1),
        lambda c: c.verdict if any(c.times_ns) else "",
        "same: within the spread of the steps",
    ),
)

#: Columns of which no sum says anything.
CHANGES_NO_TOTAL = ("name", "op", "phase", "spread", "verdict")


def trace_comparison_report(
    comparison: TraceComparison, top: int | None = None, by: str = "layer", depth: int | None = None
) -> Report:
    """Two traces as a table; its JSON always holds all layers.

    Args:
        comparison: what to write.
        top: how many lines to show, those that differ most; the rest becomes one line.
        by: one line for each "layer", "op", "module" or "kernel".
        depth: with modules: how many levels.

    Raises:
        InputError: the grouping is unknown, or has no levels.
    """
    if by not in NOUNS or by == "step":
        raise InputError(f"two traces are compared by {', '.join(key for key in NOUNS if key != 'step')}, not by {by}")
    if by != "module" and depth is not None:
        raise InputError(f"depth is of modules, not of lines by {by}")

    def sheet(format: Format, look: Look) -> list[Sheet]:
        timed = [change for change in grouped(comparison, by, depth) if change.before_ns or change.after_ns]
        changes = sorted(timed, key=lambda change: by_size(abs(change.more_ns)))
        first, hidden = changes[:top], changes[top:] if top else []
        if hidden:
            rest = f"{look.glyphs.cut} {counted(len(hidden), f'more {NOUNS[by]}')}"
            seen = {layer for change in first for layer in change.layers}  # modules hold each other
            first.append(_together([change for change in hidden if not seen.intersection(change.layers)], rest))
        total = _together(comparison.changes, "Total")
        keys = CHANGES_NO_TOTAL if format.data else (*CHANGES_NO_TOTAL[1:],)
        columns = [replace(c, total="" if c.head.key in keys else c.value(total)) for c in CHANGES]
        if not format.data:
            columns[0] = replace(columns[0], head=columns[0].head._replace(title=NOUNS[by]))
        frame = _changes_frame(comparison, look)
        return [Sheet.of(columns, first, lambda c: "rest" if hidden and c is first[-1] else "", **frame)]

    return Report(
        sheet, comparison.to_dict, {"traces": (comparison, Sheet((), (), **_changes_frame(comparison, Look())))}
    )


def _changes_frame(comparison: TraceComparison, look: Look) -> Json:
    """The parts of a sheet above and below its lines."""
    return {
        "about": look.texts(filter(None, [comparison.before.model, *map(_about_changes, _sides(comparison))])),
        "summary": tuple(_changes_summary(comparison)),
        "notes": look.texts(comparison.notes),
        "skip_empty": True,
    }


def _sides(comparison: TraceComparison) -> tuple[Trace, Trace]:
    return comparison.before, comparison.after


def _about_changes(trace: Trace) -> str:
    return f"{trace.format}, {trace.step} of {counted(len(trace.steps), 'step')}"


def _together(changes: tuple[Change, ...] | list[Change], name: str) -> Change:
    """Several changes as one; whether they differ clearly is known of each alone."""
    before, after = sum(c.before_ns for c in changes), sum(c.after_ns for c in changes)
    return Change(name, "", "", (), before, after, 0, 0)


def _changes_summary(comparison: TraceComparison) -> Iterator[Figure]:
    """The number of layers that differ, and the traces as a whole."""
    timed = [change for change in comparison.changes if change.layers and (change.before_ns or change.after_ns)]
    verdicts = [change.verdict for change in timed]
    noun = "line" if any(change.phase == BACKWARD for change in timed) else "layer"
    for verdict in ("slower", "faster", "same", "added", "gone"):
        if count := verdicts.count(verdict):
            yield Figure(verdict, counted(count, noun), "")
    before, after = (trace.covered_ns for trace in _sides(comparison))
    share = f": {'+' if after > before else ''}{percent(100 * (after - before) / before)} %" if before else ""
    yield Figure("total", f"{ratio(before / MICRO)} µs", f"before, {ratio(after / MICRO)} µs after{share}")


def breaks_text(breaks: list[Break]) -> Iterator[str]:
    """A line for each condition that holds."""
    for condition, before, after, spread in breaks:
        times = (f"{ratio(time / MICRO)} µs" for time in (before, after, spread))
        yield "{}: {} before, {} after, ± {}".format(condition, *times)


# Figures of traces by matplotlib, the extra ``figures``: slowest layers, timeline and roofline; two side by side.


#: So many layers have a bar of their own, and so many lanes are drawn.
MOST, LANES = 20, 24

#: Events of one colour that are closer than this share of a timeline are drawn as one.
FINEST = 1 / 2000

#: Colours that stay apart in grey and for colour-blind readers: forward, backward, no layer; slower, faster, the same.
FIRST, SECOND, REST = "#4477AA", "#EE8866", "#999999"
SLOWER, FASTER = "#CC3311", "#228833"

_LOOK = Look()


def draw(trace: Trace, directory: str, format: str = "png") -> list[str]:
    """Draw the slowest layers, the timeline and the roofline, and write them into a directory; the paths of the files.

    A timeline needs times of day, a roofline layers of which FLOPs and bytes are known.

    Raises:
        InputError: the format is unknown, matplotlib is missing, or a file cannot be written.
    """
    return write_all(_figures(trace), directory, format)


def draw_both(comparison: TraceComparison, directory: str, format: str = "png") -> list[str]:
    """Draw the largest differences, and write them into a directory; the paths of the files.

    Raises:
        InputError: the format is unknown, matplotlib is missing, or a file cannot be written.
    """
    return write_all((("differences", drawn(comparison)) for drawn in (_differences,)), directory, format)


def _figures(trace: Trace) -> Iterator[tuple[str, Plot]]:
    yield "layers", _layers(trace)
    if trace.timeline:
        yield "timeline", _timeline(trace)
    if dots := _dots(trace):
        figure, axes = _new(_about(trace), 6.4, 4.2)
        draw_roofline(axes, dots, roof_lines(trace.peaks, {peak.dtype for peak in trace.peaks if peak.dtype}))
        axes.set_title("what the forward pass of each layer reached; the area of a dot is its time", fontsize=7)
        yield "roofline", figure


def _new(title: str, width: float, height: float) -> tuple[Plot, Axes]:
    from matplotlib.figure import Figure as New

    figure = New(figsize=(width, height), layout="constrained")
    figure.suptitle(shorten(_LOOK.text(title), 100), fontsize=9)
    return figure, figure.subplots()


def _about(trace: Trace) -> str:
    device = trace.device or trace.format
    steps = f"{trace.step} of {counted(len(trace.steps), 'step')}" if len(trace.steps) > 1 else trace.step
    return " · ".join(filter(None, [trace.model, device, steps]))


def _unit(largest: int) -> tuple[float, str]:
    """The nanoseconds of the unit that suits, and its name.

    >>> _unit(2_500_000)
    (1000000.0, 'ms')
    """
    return (1e9, "s") if largest >= 1e9 else (1e6, "ms") if largest >= 1e6 else (1e3, "µs")


def _layers(trace: Trace) -> Plot:
    """Where the time of the trace went above, and the slowest layers, forward and backward, below."""
    from matplotlib.figure import Figure as New

    items = sorted(layer_items(trace), key=lambda item: -item.time_ns)
    shown = items[:MOST]
    rest = sum(item.time_ns for item in items[MOST:])
    parts = {"layers": trace.rows_ns, "segments of several": trace.segments_ns, **trace.remainder}
    parts = {name: time for name, time in parts.items() if time}
    sizes = len(parts), max(len(shown), 1)
    figure = New(figsize=(6.4, 1.4 + 0.19 * sum(sizes)), layout="constrained")
    figure.suptitle(shorten(_LOOK.text(_about(trace)), 100), fontsize=9)
    above, below = figure.subplots(2, 1, height_ratios=sizes)
    size, unit = _unit(trace.covered_ns)
    shades = [FIRST if name in ("layers", "segments of several") else REST for name in parts]
    _bars(above, list(parts), [[time / size for time in parts.values()]], [shades], unit)
    size, unit = _unit(max((item.time_ns for item in shown), default=0))
    phases = [phase for phase in (FORWARD, BACKWARD) if any(item.of(phase) for item in shown)]
    times = [[time_of(item.of(phase)) / size for item in shown] for phase in phases]
    _bars(below, [item.name for item in shown], times, [[shade] for shade in (FIRST, SECOND)], unit, phases)
    more = f"; {counted(len(items) - MOST, 'more line')} took {rest / size:,.3g} {unit} together" if rest else ""
    below.set_title(f"the slowest layers{more}", fontsize=7)
    above.set_title("what the trace covers", fontsize=7)
    return figure


def _bars(
    axes: Axes,
    names: Sequence[str],
    times: Sequence[Sequence[float]],
    shades: Sequence[Sequence[str]],
    unit: str,
    labels: Sequence[str] = (),
) -> None:
    """Draw a bar for each name, of several parts one behind the other."""
    left = [0.0] * len(names)
    for place, part in enumerate(times):
        axes.barh(range(len(names)), part, left=left, color=shades[place], label=labels[place] if labels else None)
        left = [before + time for before, time in zip(left, part, strict=True)]
    axes.set_yticks(range(len(names)), [_label(name) for name in names], fontsize=6.5)
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    if len(labels) > 1:
        axes.legend(loc="lower right", fontsize=7, frameon=False)


def _label(name: str) -> str:
    return shorten(_LOOK.text(name), 40)


def _timeline(trace: Trace) -> Plot:
    """The events of each lane, and those on the critical path, coloured by their operators."""
    ops = {item.name: item.op for item in layer_items(trace)}
    times: Counter[str] = Counter()
    lanes: dict[str, list[Moment]] = {"critical path": [trace.timeline[at] for at in critical_path(trace.timeline)]}
    busy: Counter[str] = Counter()
    for moment in trace.timeline:
        lanes.setdefault(moment.lane, []).append(moment)
        busy[moment.lane] += moment.end_ns - moment.start_ns
        if moment.phase:
            times[ops.get(moment.where, "")] += moment.end_ns - moment.start_ns
    shades = {op: COLOURS[place] for place, (op, _) in enumerate(times.most_common(len(COLOURS) - 1))}
    start, end = trace.timeline[0].start_ns, max(moment.end_ns for moment in trace.timeline)
    size, unit = _unit(end - start)
    shown = ["critical path", *(lane for lane, _ in busy.most_common(LANES))]
    figure, axes = _new(_about(trace), 9, 1.3 + 0.26 * len(shown))

    def colour(moment: Moment) -> str:
        return shades.get(ops.get(moment.where, ""), COLOURS[-1]) if moment.phase else "#444444"

    for place, lane in enumerate(shown):
        spans = list(_merged(lanes[lane], colour, FINEST * (end - start)))
        bars = [((one - start) / size, (other - one) / size) for one, other, _ in spans]
        axes.broken_barh(bars, (place - 0.38, 0.76), facecolors=[shade for *_, shade in spans], linewidth=0)
    axes.set_yticks(range(len(shown)), [_label(lane) for lane in shown], fontsize=6.5)
    axes.invert_yaxis()
    axes.set_xlim(0, (end - start) / size)
    axes.set_xlabel(unit)
    left = len(busy) - LANES
    fine = f"events of one colour that are closer than {(end - start) * FINEST / size:.2g} {unit} are drawn as one"
    axes.set_title(fine + (f"; {counted(left, 'more lane')} left out" if left > 0 else ""), fontsize=7)
    keys = [*shades.items(), *([("other operators", COLOURS[-1])] if len(times) > len(shades) else [])]
    keys += [("no layer", "#444444")] if any(not moment.phase for moment in trace.timeline) else []
    marks = [axes.scatter([], [], marker="s", s=22, color=shade, label=_label(op)) for op, shade in keys]
    figure.legend(handles=marks, fontsize=6.5, frameon=False, ncols=8, loc="outside lower center")
    return figure


def _merged(
    moments: Sequence[Moment], colour: Callable[[Moment], str], finest: float
) -> Iterator[tuple[int, int, str]]:
    """Start, end and colour of events, those of one colour that nearly touch together."""
    open_: tuple[int, int, str] | None = None
    for moment in moments:
        own = (moment.start_ns, moment.end_ns, colour(moment))
        if open_ is not None and own[2] == open_[2] and own[0] - open_[1] <= finest:
            open_ = (open_[0], max(open_[1], own[1]), own[2])
            continue
        if open_ is not None:
            yield open_
        open_ = own
    if open_ is not None:
        yield open_


def _dots(trace: Trace) -> list[Dot]:
    """The forward pass of each layer of which FLOPs and bytes are known."""
    return [
        Dot(row.op, row.flops / row.bytes, 1e9 * row.flops / row.time_ns, row.time_ns)
        for row in trace.rows
        if row.phase == FORWARD and row.time_ns and row.flops and row.bytes
    ]


def _differences(comparison: TraceComparison) -> Plot:
    """The largest differences: a ring for the first trace, a dot for the second, and the spread of the steps."""
    changes = sorted((c for c in comparison.changes if c.more_ns), key=lambda c: -abs(c.more_ns))
    shown = changes[:MOST]
    size, unit = _unit(max((max(c.before_ns, c.after_ns) for c in shown), default=0))
    title = " · ".join(filter(None, [comparison.before.model, "ring: first trace, dot: second"]))
    figure, axes = _new(title, 6.4, 0.9 + 0.19 * max(len(shown), 1))
    for place, change in enumerate(shown):
        first, second, doubt = change.before_ns / size, change.after_ns / size, change.spread_ns / size
        shade = _verdict_colour(change)
        axes.plot([first, second], [place, place], color=shade, linewidth=1)
        axes.plot([second - doubt, second + doubt], [place, place], color=shade, linewidth=4, alpha=0.3)
        axes.plot(first, place, "o", ms=4, mfc="white", mec=shade)
        axes.plot(second, place, "o", ms=4, color=shade)
    axes.set_yticks(range(len(shown)), [_label(_named(change)) for change in shown], fontsize=6.5)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel(unit)
    rest = len(changes) - len(shown)
    left = f"; {counted(rest, 'smaller difference')} left out" if rest else ""
    axes.set_title(f"grey: within the spread of the steps, which is the wide line{left}", fontsize=7)
    return figure


def _named(change: Change) -> str:
    return f"{change.name} (backward)" if change.phase == BACKWARD else change.name


def _verdict_colour(change: Change) -> str:
    if change.verdict == "same":
        return REST
    return SLOWER if change.more_ns > 0 else FASTER
