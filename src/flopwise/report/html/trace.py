"""A trace as one HTML page: its timeline, modules by time and by FLOPs, what was reached, and a table of layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from flopwise._results import Json
from flopwise.analyses.traces.assembly import critical_path
from flopwise.analyses.traces.comparison import Item, common_module, grouped, layer_items
from flopwise.analyses.traces.trace import BACKWARD, FORWARD, Moment, Segment, StepTime, TimedRow
from flopwise.graph import Module
from flopwise.report.html.bound import roof_lines
from flopwise.report.html.model import EXACT, Index, number, text
from flopwise.report.html.page import Layout, page
from flopwise.report.structure import groups

if TYPE_CHECKING:
    from flopwise.analyses.traces.trace import Trace
    from flopwise.report.sheet.sheet import Look, Sheet, Value
if TYPE_CHECKING:
    from flopwise.analyses.traces.comparison import TraceComparison
    from flopwise.report.sheet.sheet import Look, Sheet

LAYOUT = Layout(
    folder="trace",
    sections={
        "summary": "Summary",
        "timeline": "Timeline",
        "where": "Modules",
        "roofline": "Roofline",
        "layers": "Layers",
    },
    scripts="base modules tips timeline steps flame flames roofline table layers",
    styles=("bound/page.css", "trace/page.css"),
)

#: So many events are drawn, the longest of them; the page says how many it leaves out.
MOST = 200_000

#: So many kernels of a layer are named.
KERNELS = 5


def render_trace(trace: Trace, sheet: Callable[[], Sheet], look: Look) -> str:
    """The page of a trace and a sheet with a line for each of its layers; the page has a look of its own."""
    return page(LAYOUT, f"{trace.model or trace.format} – trace – flopwise", page_data(trace, sheet()))


def page_data(trace: Trace, sheet: Sheet) -> Json:
    """The data of the page: layers as columns, then the names of the remainder, and the events of the timeline.

    A value that is None is unknown, and one that is "" belongs to a line that has no such figure.
    """
    items, remainder = layer_items(trace), list(trace.remainder)
    names = [text(name) for name in (*(item.name for item in items), *remainder)]
    rows = {row.name: row for row in trace.rows}
    ops = Index()
    op = [ops.number_of(text(name)) for name in (*(item.op for item in items), *("no layer" for _ in remainder))]
    modules, owners = groups(
        text(trace.model or "trace"),
        [_path(item, rows) for item in items],
        [item.op for item in items],
        names[: len(items)],
    )
    return {
        "schema": "flopwise.html-trace/1",
        "title": text(trace.model or "trace"),
        "about": " · ".join(sheet.about[1:] if trace.model else sheet.about),
        "summary": sheet.summary,
        "notes": list(sheet.notes),
        "covered": trace.covered_ns,
        "heads": [[head.key, head.title, head.kind] for head in sheet.heads],
        "columns": _columns(trace, sheet),
        "layers": {
            "name": names,
            "op": op,
            "group": [*owners, *(-1 for _ in remainder)],
            **_layers(trace, items),
        },
        "ops": ops.values,
        "groups": [[g.name, g.kind, -1 if g.parent is None else g.parent, int(g.run)] for g in modules],
        "roofs": roof_lines(trace.peaks, {peak.dtype for peak in trace.peaks if peak.dtype}),
        "steps": _steps(trace),
        **_events(trace, items, remainder),
    }


def _columns(trace: Trace, sheet: Sheet) -> Json:
    """The columns of the table: the lines of the layers as the sheet has them, then those of the remainder."""
    columns = {
        head.key: [_value(line.values[place]) for line in sheet.lines] for place, head in enumerate(sheet.heads[2:], 2)
    }
    remainder: dict[str, list[str | int | float | None]] = {
        "status": ["remainder" for _ in trace.remainder],
        "share": [_value(100 * time / trace.covered_ns) for time in trace.remainder.values()],
        "time": [_value(time / 1e3) for time in trace.remainder.values()],
    }
    blank: list[str | int | float | None] = ["" for _ in trace.remainder]
    return {key: values + remainder.get(key, blank) for key, values in columns.items()}


def _layers(trace: Trace, items: Sequence[Item]) -> Json:
    """The figures of the layers, then those of the remainder, as columns."""
    times = [number(item.time_ns) if _has_time(item) else "" for item in items]
    forward = [_forward(item) for item in items]
    unknown = [None for _ in trace.remainder]
    return {
        "time": [*times, *trace.remainder.values()],
        "flops": [*map(_flops, items), *("" for _ in trace.remainder)],
        "remainder": [*(0 for _ in items), *(1 for _ in trace.remainder)],
        "forward": [*(row and row.time_ns for row in forward), *unknown],
        "forward_flops": [*(row and number(row.flops) for row in forward), *unknown],
        "bytes": [*(row and number(row.bytes) for row in forward), *unknown],
        "inside": {place: list(map(text, inside)) for place, item in enumerate(items) if (inside := _inside(item))},
    }


def _steps(trace: Trace) -> Json:
    """The times of the steps, and which of them is shown; -1 for all."""
    names = [step.name for step in trace.times]
    return {
        "name": list(map(text, names)),
        **{key: [getattr(step, f"{key}_ns") for step in trace.times] for key in ("window", "busy", "wall")},
        "shown": names.index(trace.step) if trace.step != "all" else -1,
    }


def _path(item: Item, rows: dict[str, TimedRow]) -> tuple[Module, ...]:
    """The modules around a line, the outermost first."""
    names = [name for part in item.parts if isinstance(part, Segment) for name in part.layers] or [item.name]
    parts = common_module(rows[name].module for name in names).split(".")
    return tuple(Module(".".join(parts[:length]), "") for length in range(1, len(parts) + 1) if parts[0])


def _value(value: Value) -> str | int | float | None:
    """A value of a cell, of a float no more digits than anybody reads."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    return value if value is None or (isinstance(value, int) and value <= EXACT) else str(value)


def _has_time(item: Item) -> bool:
    return any(part.time_ns is not None for part in item.parts)


def _flops(item: Item) -> Value:
    """The known FLOPs of a line; those of a row within a segment count there."""
    return _value(sum(part.flops or 0 for part in item.parts if part.time_ns is not None))


def _forward(item: Item) -> TimedRow | None:
    """The forward pass of a layer, of which the bytes are known; None for a segment."""
    return next((part for part in item.of(FORWARD) if isinstance(part, TimedRow) and part.time_ns), None)


def _inside(item: Item) -> Sequence[str]:
    """The layers of a segment."""
    return next((part.layers for part in item.parts if isinstance(part, Segment)), ())


def _events(trace: Trace, items: Sequence[Item], remainder: Sequence[str]) -> Json:
    """The events of the timeline as columns of whole numbers, and the kernels in which each layer took most time."""
    kernels = Index()
    places: dict[tuple[str, str], int] = {}
    for at, item in enumerate(items):
        places.setdefault((item.name, FORWARD), 2 * at)
        places.setdefault((item.name, BACKWARD), 2 * at + 1)
    places |= {(name, ""): 2 * (len(items) + at) for at, name in enumerate(remainder)}
    return {
        "timeline": _timeline(trace, items, places, kernels) if trace.timeline else None,
        "most": _most(trace, places, kernels),
        "kernels": kernels.values,
    }


def _rows(trace: Trace, items: Sequence[Item]) -> list[int]:
    """For each layer of the trace its line; names alone need not be unique."""
    lines = {id(part): at for at, item in enumerate(items) for part in item.parts}
    passes = len({row.phase for row in trace.rows}) or 1
    return [lines[id(row)] for row in trace.rows[::passes]]


def _most(trace: Trace, places: dict[tuple[str, str], int], kernels: Index) -> dict[int, list[int]]:
    """For each layer the kernels that took most of its time: kernel, nanoseconds, kernel, nanoseconds ..."""
    times: dict[int, Counter[str]] = {}
    for (where, phase, kernel), time in trace.kernels.items():
        if (where, phase) in places and kernel:
            times.setdefault(places[where, phase] // 2, Counter())[kernel] += time
    return {
        layer: [each for name, time in own.most_common(KERNELS) for each in (kernels.number_of(text(name)), time)]
        for layer, own in times.items()
    }


def _timeline(trace: Trace, items: Sequence[Item], places: dict[tuple[str, str], int], kernels: Index) -> Json:
    """Events in the order of their start, from the first one on."""
    first = min([event.start_ns for event in trace.timeline] + [step.start_ns or 0 for step in _marks(trace)])
    shown = _longest(trace.timeline)
    events = [trace.timeline[at] for at in shown]
    starts = [events[0].start_ns - first, *(later.start_ns - earlier.start_ns for earlier, later in pairwise(events))]
    lanes = Index()
    return {
        "start": starts,
        "time": [_length(event) for event in events],
        "lane": [lanes.number_of(text(event.lane)) for event in events],
        "place": _places(trace, items, places, events),
        "kernel": [kernels.number_of(text(event.kernel)) for event in events],
        "lanes": lanes.values,
        **_critical(trace, shown, first),
        "events": len(trace.timeline),
        "left_ns": sum(map(_length, trace.timeline)) - sum(map(_length, events)),
        "steps": [
            (text(step.name), (step.start_ns or 0) - first, (step.start_ns or 0) - first + step.window_ns)
            for step in _marks(trace)
        ],
    }


def _marks(trace: Trace) -> list[StepTime]:
    """The steps that are shown, if the trace has times of day."""
    return [step for step in trace.times if step.start_ns is not None and trace.step in ("all", step.name)]


def _longest(timeline: Sequence[Moment]) -> list[int]:
    """The positions of the events that are drawn, in order."""
    return sorted(sorted(range(len(timeline)), key=lambda at: -_length(timeline[at]))[:MOST])


def _places(
    trace: Trace, items: Sequence[Item], places: dict[tuple[str, str], int], events: Sequence[Moment]
) -> list[int]:
    """For each event twice the number of its line, and one more in the backward pass; -1 where it has none."""
    passes = {part.phase for item in items for part in item.parts}
    lines = _rows(trace, items)
    return [
        places.get(_where(event, passes), -1)
        if event.layer is None or event.phase not in passes
        else 2 * lines[event.layer] + (event.phase == BACKWARD)
        for event in events
    ]


def _critical(trace: Trace, shown: Sequence[int], first: int) -> Json:
    """The critical path: which of the events that are shown are on it, its time, and that in which it waits."""
    path = critical_path(trace.timeline)
    on_path = set(path)
    taken = sum(_length(trace.timeline[at]) for at in path)
    return {
        "path": [at for at, place in enumerate(shown) if place in on_path],
        "path_ns": taken,
        "waits_ns": max(moment.end_ns for moment in trace.timeline) - first - taken,
    }


def _where(moment: Moment, passes: Collection[str]) -> tuple[str, str]:
    """The place of an event; one of a pass that is not shown is of the remainder's name for it."""
    return (moment.where, moment.phase) if not moment.phase or moment.phase in passes else (moment.phase, "")


def _length(moment: Moment) -> int:
    return moment.end_ns - moment.start_ns


# Two traces as one HTML page: where the difference comes from, and a table of layers, modules and kernels.


COMPARISON_LAYOUT = Layout(
    folder="traces",
    sections={"summary": "Summary", "waterfall": "Difference", "largest": "Largest", "layers": "Layers"},
    scripts="base waterfall largest table layers",
    styles=("bound/page.css", "compare/page.css", "traces/page.css"),
)

#: Operators that have a bar of their own in the waterfall; the rest share one.
OWN_BARS = 8

#: The groupings of the page.
GROUPINGS = {"layer": "layers", "op": "operators", "module": "modules", "kernel": "kernels"}


def render_traces(comparison: TraceComparison, sheet: Sheet, look: Look) -> str:
    """The page of two traces and what a sheet says above and below its lines; the page has a look of its own."""
    return page(
        COMPARISON_LAYOUT, f"{comparison.before.model or 'two'} – traces – flopwise", comparison_data(comparison, sheet)
    )


def comparison_data(comparison: TraceComparison, sheet: Sheet) -> Json:
    """The data of the page: the lines of all groupings as columns, and the steps of the waterfall."""
    lines = [(place, change) for place, by in enumerate(GROUPINGS) for change in grouped(comparison, by)]
    ops = Index()
    return {
        "schema": "flopwise.html-traces/1",
        "title": text(comparison.before.model or "Two traces"),
        "about": " · ".join(sheet.about[1:] if comparison.before.model else sheet.about),
        "summary": sheet.summary,
        "notes": list(sheet.notes),
        "groupings": list(GROUPINGS.values()),
        "covered": [comparison.before.covered_ns, comparison.after.covered_ns],
        "layers": {
            "name": [text(change.name) for _, change in lines],
            "op": [ops.number_of(text(c.op or ("several" if any(c.times_ns) else "no layer"))) for _, c in lines],
            "by": [place for place, _ in lines],
            "phase": [change.phase for _, change in lines],
            **{key: [getattr(c, f"{key}_ns") for _, c in lines] for key in ("before", "after", "spread")},
            "verdict": [change.verdict if any(change.times_ns) else "no layer" for _, change in lines],
        },
        "ops": ops.values,
        "waterfall": waterfall(comparison),
    }


def waterfall(comparison: TraceComparison) -> list[Json]:
    """The steps from the time that the first trace covers to that of the second, by operator."""
    steps: list[Json] = [{"label": "before", "from": 0, "to": comparison.before.covered_ns, "kind": "sum"}]
    changes = sorted(grouped(comparison, "op"), key=lambda change: -abs(change.more_ns))
    sizes = [(text(change.name), change.more_ns) for change in changes if change.more_ns]
    rest = sizes[OWN_BARS:]
    if len(rest) > 1:
        sizes[OWN_BARS:] = [(f"{len(rest)} others", sum(size for _, size in rest))]
    for label, size in sizes:
        at = steps[-1]["to"]
        steps.append({"label": label, "from": at, "to": at + size, "kind": "step"})
    return [*steps, {"label": "after", "from": 0, "to": comparison.after.covered_ns, "kind": "sum"}]
