"""A trace as one HTML page: its timeline, modules by time and by FLOPs, what was reached, and a table of layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from flopwise.analyses.traces.critical import critical_path
from flopwise.analyses.traces.lines import Item, common_module, layer_items
from flopwise.analyses.traces.trace import BACKWARD, FORWARD, Moment, Segment, TimedRow
from flopwise.graph import Module
from flopwise.report.formats.json import Json
from flopwise.report.html.bound import roof_lines
from flopwise.report.html.model import EXACT, Index, number, text
from flopwise.report.html.page import Layout, page
from flopwise.report.structure.modules import groups

if TYPE_CHECKING:
    from flopwise.analyses.traces.trace import Trace
    from flopwise.report.sheet.sheet import Sheet
    from flopwise.report.sheet.values import Look, Value

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
    paths = [_path(item, rows) for item in items]
    ops = Index()
    op = [ops.number_of(text(name)) for name in (*(item.op for item in items), *("no layer" for _ in remainder))]
    modules, owners = groups(text(trace.model or "trace"), paths, [item.op for item in items], names[: len(items)])
    others: list[Value] = ["" for _ in remainder]
    forward = [_forward(item) for item in items]
    columns = {
        head.key: [_value(line.values[at]) for line in sheet.lines] for at, head in enumerate(sheet.heads[2:], 2)
    }
    return {
        "schema": "flopwise.html-trace/1",
        "title": text(trace.model or "trace"),
        "about": " · ".join(sheet.about[1:] if trace.model else sheet.about),
        "summary": sheet.summary,
        "notes": list(sheet.notes),
        "covered": trace.covered_ns,
        "heads": [[head.key, head.title, head.kind] for head in sheet.heads],
        "columns": {
            **{key: [*values, *others] for key, values in columns.items()},
            "status": [*columns["status"], *("remainder" for _ in remainder)],
            "share": [*columns["share"], *(_value(100 * t / trace.covered_ns) for t in trace.remainder.values())],
            "time": [*columns["time"], *(_value(t / 1e3) for t in trace.remainder.values())],
        },
        "layers": {
            "name": names,
            "op": op,
            "group": [*owners, *(-1 for _ in remainder)],
            "time": [*(number(item.time_ns) if _has_time(item) else "" for item in items), *trace.remainder.values()],
            "flops": [*(_flops(item) for item in items), *others],
            "remainder": [*(0 for _ in items), *(1 for _ in remainder)],
            "forward": [*(None if row is None else row.time_ns for row in forward), *(None for _ in remainder)],
            "forward_flops": [*(None if r is None else number(r.flops) for r in forward), *(None for _ in remainder)],
            "bytes": [*(None if row is None else number(row.bytes) for row in forward), *(None for _ in remainder)],
            "inside": {at: list(map(text, _inside(item))) for at, item in enumerate(items) if _inside(item)},
        },
        "ops": ops.values,
        "groups": [[g.name, g.kind, -1 if g.parent is None else g.parent, int(g.run)] for g in modules],
        "roofs": roof_lines(trace.peaks, {peak.dtype for peak in trace.peaks if peak.dtype}),
        "steps": {
            "name": [text(step.name) for step in trace.times],
            **{key: [getattr(step, f"{key}_ns") for step in trace.times] for key in ("window", "busy", "wall")},
            "shown": [step.name for step in trace.times].index(trace.step) if trace.step != "all" else -1,
        },
        **_events(trace, items, remainder),
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
    path = critical_path(trace.timeline)
    on_path = set(path)
    marks = [step for step in trace.times if step.start_ns is not None and trace.step in ("all", step.name)]
    first = min([event.start_ns for event in trace.timeline] + [step.start_ns or 0 for step in marks])
    longest = sorted(range(len(trace.timeline)), key=lambda at: -_length(trace.timeline[at]))
    shown = sorted(longest[:MOST])
    events = [trace.timeline[at] for at in shown]
    passes = {part.phase for item in items for part in item.parts}
    lines = _rows(trace, items)
    lanes = Index()
    starts = [0, *(later.start_ns - earlier.start_ns for earlier, later in pairwise(events))]
    starts[0] = events[0].start_ns - first
    left = sum(map(_length, trace.timeline)) - sum(map(_length, events))
    taken = sum(_length(trace.timeline[at]) for at in path)
    return {
        "start": starts,
        "time": [_length(event) for event in events],
        "lane": [lanes.number_of(text(event.lane)) for event in events],
        "place": [
            places.get(_where(event, passes), -1)
            if event.layer is None or event.phase not in passes
            else 2 * lines[event.layer] + (event.phase == BACKWARD)
            for event in events
        ],
        "kernel": [kernels.number_of(text(event.kernel)) for event in events],
        "lanes": lanes.values,
        "path": [at for at, place in enumerate(shown) if place in on_path],
        "path_ns": taken,
        "waits_ns": max(moment.end_ns for moment in trace.timeline) - first - taken,
        "events": len(trace.timeline),
        "left_ns": left,
        "steps": [
            (text(step.name), (step.start_ns or 0) - first, (step.start_ns or 0) - first + step.window_ns)
            for step in marks
        ],
    }


def _where(moment: Moment, passes: Collection[str]) -> tuple[str, str]:
    """The place of an event; one of a pass that is not shown is of the remainder's name for it."""
    return (moment.where, moment.phase) if not moment.phase or moment.phase in passes else (moment.phase, "")


def _length(moment: Moment) -> int:
    return moment.end_ns - moment.start_ns
