"""The columns of a bound, and the lines that they are of: rows, or rows of one operator added up."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from flopwise._results import Json, fields
from flopwise.analyses.timing.bound import WhatIf
from flopwise.analyses.timing.quantities import padding_share, wave_share
from flopwise.analyses.timing.whatif import notes_on, what_ifs
from flopwise.errors import InputError, counted, entry
from flopwise.report.drawings import as_bytes, require_matplotlib, styled
from flopwise.report.formats.format import FIGURES
from flopwise.report.formats.table import shorten
from flopwise.report.html.bound import roofs, waterfall
from flopwise.report.report import Report
from flopwise.report.sheet.listing import model_name
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
    duration,
    human,
    percent,
    ratio,
    total_of,
)

if TYPE_CHECKING:
    from flopwise.analyses.timing.bound import Bound, BoundRow
    from flopwise.analyses.timing.device import Device
if TYPE_CHECKING:
    from flopwise.analyses.timing.bound import Bound, EngineFloor, Floor
    from flopwise.analyses.timing.whatif import Utilisation
    from flopwise.report.formats.format import Format
if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from flopwise.analyses.timing.bound import Bound

#: Nanoseconds of the unit that tables show.
MICRO = 1e3


class Item(NamedTuple):
    """A line: one row, or several of one operator added up."""

    name: str
    op: str
    rows: tuple[BoundRow, ...]
    bound: Bound

    def sum(self, figure: Callable[[BoundRow], float | None]) -> float | None:
        """A figure added up over the rows that have it; None when none has."""
        values = [value for value in map(figure, self.rows) if value is not None]
        return sum(values) if values else None


def _total(figure: Callable[[BoundRow], int | None]) -> Callable[[Item], Value]:
    return lambda item: total_of(map(figure, item.rows))


def _microseconds(figure: Callable[[BoundRow], float | None]) -> Callable[[Item], Value]:
    return lambda item: None if (total := item.sum(figure)) is None else total / MICRO


def _share(part: Callable[[BoundRow], float | None], of: Callable[[Bound], float]) -> Callable[[Item], Value]:
    return lambda item: 100 * (item.sum(part) or 0.0) / of(item.bound) if of(item.bound) else 0.0


def _intensity(item: Item) -> Value:
    flops, nbytes = item.sum(lambda r: r.work.flops), item.sum(lambda r: r.work.nbytes)
    if flops is None or nbytes is None:
        return None
    return flops / nbytes if nbytes else ""


def _roof(item: Item) -> Value:
    """The roof of the row; for several rows, that of most of their time."""
    if len(item.rows) == 1:
        return item.rows[0].roof
    time: Counter[str] = Counter()
    for row in item.rows:
        time[row.roof] += row.roofline_ns or 0  # type: ignore[assignment] # a Counter of floats
    return time.most_common(1)[0][0]


def _over(item: Item) -> Value:
    time, floor = item.sum(lambda r: r.engine_ns), item.sum(lambda r: r.physical_ns)
    return time / floor if time and floor else ""


def _rate(figure: Callable[[BoundRow], float | None]) -> Callable[[Item], Value]:
    def value(item: Item) -> Value:
        rows = [row for row in item.rows if row.engine_ns and figure(row) is not None]
        time = sum(row.engine_ns or 0.0 for row in rows)
        return sum(figure(row) or 0.0 for row in rows) / time if time else ""

    return value


def _segment(item: Item) -> Value:
    names = list(dict.fromkeys(name for row in item.rows for name in row.layers))
    return ", ".join(names[:2]) + (f" +{len(names) - 2}" if len(names) > 2 else "")


def _status(item: Item) -> Value:
    statuses = ", ".join(dict.fromkeys(row.status for row in item.rows))
    estimated = item.bound.engine is not None and any(row.engine_ns is None for row in item.rows)
    return f"~ {statuses}" if estimated else statuses


def _wasted(share: Callable[[BoundRow, Device], float | None]) -> Callable[[Item], Value]:
    """A share of the multiply-adds of the rows that have one, in percent."""

    def value(item: Item) -> Value:
        shares = [(row.work.macs or 0, share(row, item.bound.device)) for row in item.rows]
        macs = sum(count for count, part in shares if part is not None)
        return 100 * sum(count * part for count, part in shares if part is not None) / macs if macs else ""

    return value


def _padding(row: BoundRow, device: Device) -> float | None:
    return None if row.work.product is None else padding_share(row.work.product, row.work.dtypes[0], device)


def _waves(row: BoundRow, device: Device) -> float | None:
    return None if row.work.product is None else wave_share(row.work.product, device)


_COLUMNS: tuple[Field[Item], ...] = (
    Field(Head("name", "layer", "text", 0), lambda i: i.name, "the layer, or the operator"),
    Field(Head("op", "op", "text", 3), lambda i: i.op, "the operator"),
    Field(Head("layers", "layers", "number", 6), lambda i: len(i.rows), "how many layers"),
    Field(Head("macs", "MACs", "number", 6), _total(lambda r: r.work.macs), "multiply-adds of products"),
    Field(Head("flops", "FLOPs", "number", 7), _total(lambda r: r.work.flops), "all arithmetic"),
    Field(Head("bytes", "bytes", "bytes", 6), _total(lambda r: r.work.nbytes), "bytes read and written"),
    Field(Head("intensity", "FLOP/B", "ratio", 5), _intensity, "arithmetic intensity: FLOP per byte"),
    Field(Head("roof", "roof", "text", 1), _roof, "the limit: compute or memory"),
    Field(
        Head("roofline", "roofline µs", "ratio", 1),
        _microseconds(lambda r: r.roofline_ns),
        "estimate: the slower of arithmetic at peak and operands from the memory that holds them",
    ),
    Field(
        Head("share", "%", "percent", 2),
        _share(lambda r: r.roofline_ns, lambda b: b.roofline_ns),
        "share of the sum of rooflines",
    ),
    Field(
        Head("floor", "floor µs", "ratio", 1),
        _microseconds(lambda r: r.physical_ns),
        "physical floor: arithmetic at peak, operands at the fastest level",
    ),
    Field(
        Head("time", "alone µs", "ratio", 1), _microseconds(lambda r: r.engine_ns), "least time of the node alone, hot"
    ),
    Field(
        Head("time%", "%", "percent", 2),
        _share(lambda r: r.engine_ns, lambda b: b.engine.hot_ns if b.engine else 0.0),
        "share of the engine's floor",
    ),
    Field(
        Head("streamed", "streamed µs", "ratio", 7),
        _microseconds(lambda r: r.streamed_ns),
        "the same with weights from beyond the second cache",
    ),
    Field(
        Head("padding", "padding %", "percent", 8),
        _wasted(_padding),
        "of a GPU of NVIDIA's: multiply-adds of products on padding to 16 bytes, which tensor cores take",
    ),
    Field(
        Head("waves", "idle in waves %", "percent", 8),
        _wasted(_waves),
        "the same: time in which multiprocessors have no tile of 256x128",
    ),
    Field(Head("time/floor", "time/floor", "ratio", 3), _over, "time alone over the physical floor"),
    Field(Head("gflops", "GFLOP/s", "ratio", 4), _rate(lambda r: r.work.flops), "arithmetic per second"),
    Field(Head("gbytes", "GB/s", "ratio", 4), _rate(lambda r: r.work.nbytes), "bytes per second"),
    Field(Head("segment", "implements", "text", 6), _segment, "the model's layers behind an executed node"),
    Field(Head("status", "status", "text", 5), _status, "ok, roofline (not measured), unknown (no count)"),
)

COLUMNS: dict[str, Field[Item]] = {column.head.key: column for column in _COLUMNS}

#: What people are shown by itself; programs get all columns.
DEFAULT = {
    "layer": "name op macs bytes intensity roof roofline share floor",
    "op": "name layers macs bytes intensity roof roofline share floor",
}

#: Columns of which no sum says anything.
NO_TOTAL = ("roof", "status", "floor", "segment", "time/floor")

#: What is shown where an engine was measured; its rows are the nodes that it executes.
MEASURED = {
    "layer": "name op roof floor time time% time/floor gflops gbytes segment status",
    "op": "name layers roof floor time time% time/floor gflops gbytes status",
}


def items_of(bound: Bound, by: str) -> list[Item]:
    """A line for each row, or for each operator."""
    if by == "layer":
        return [Item(row.name, row.op, (row,), bound) for row in bound.rows]
    groups: dict[str, list[BoundRow]] = {}
    for row in bound.rows:
        groups.setdefault(row.op, []).append(row)
    return [Item(op, op, tuple(rows), bound) for op, rows in groups.items()]


def mark_of(item: Item) -> Mark:
    """The mark of a line: its work is unknown, or not."""
    return "unknown" if any(row.status == "unknown" for row in item.rows) else ""


# The report of a bound: its table and its figures, the table of what-ifs, its JSON, and what the page draws.


#: Grouping -> what a line is.
NOUNS = {"layer": "layer", "op": "operator"}

#: What a time below the floor says.
TOO_FAST = "the measured time is below the floor: another device, type (--dtype), input or unit (35ms) was measured"

#: What is said in place of other times where none can be given.
UNMEASURED = "what-ifs need a measured model: flopwise bench, or --try"


def bound_report(
    bound: Bound,
    by: str = "layer",
    columns: Sequence[str] | None = None,
    sort: str | None = None,
    top: int | None = None,
    what_if: bool = False,
    workers: int = 2,
    run: Utilisation | None = None,
) -> Report:
    """The floors of a model; their JSON always holds all rows.

    Args:
        bound: what to write.
        by: one line for each "layer" or "op".
        columns: keys of columns; None for what suits the grouping.
        sort: key of the column to sort by, the largest first; None for the order of execution.
        top: how many lines to show, those with the largest roofline unless ``sort`` says otherwise.
        what_if: whether other ways are shown below: fused, parallel, at other levels.
        workers: how many nodes run at once in one of them.
        run: a measured time as shares of what is possible.

    Raises:
        InputError: the grouping or a column is unknown.
    """
    if by not in DEFAULT:
        raise InputError(f"cannot group by {by!r}; choose layer or op")
    for key in (*(columns or ()), *([sort] if sort else ())):
        entry(COLUMNS, key)

    def chosen(data: bool) -> list[Field[Item]]:
        shown = (MEASURED if bound.engine is not None else DEFAULT)[by].split()
        fields = [COLUMNS[key] for key in columns or (COLUMNS if data else shown)]
        return [replace(f, head=f.head._replace(title=NOUNS[by])) if f.head.key == "name" else f for f in fields]

    def sheet(data: bool, look: Look) -> Sheet:
        items = items_of(bound, by)
        if sort or top or by == "op":
            key = COLUMNS[sort or ("time" if bound.engine is not None else "roofline")]
            items.sort(key=lambda item: by_size(key.value(item)))
        first, hidden = items[:top], items[top:] if top else []
        if hidden:
            label = f"{look.glyphs.cut} {counted(len(hidden), f'more {NOUNS[by]}')}"
            first.append(Item(label, "", tuple(row for item in hidden for row in item.rows), bound))
        total = Item("Total", "", bound.rows, bound)
        return Sheet.of(
            [replace(c, total="" if c.head.key in NO_TOTAL else c.value(total)) for c in chosen(data)],
            first,
            lambda item: "rest" if hidden and item is first[-1] else mark_of(item),
            **_frame(bound, look, run),
        )

    def sheets(format: Format, look: Look) -> list[Sheet]:
        first = sheet(format.data, look)
        if not what_if or format.data:
            return [first]
        ways = what_ifs(bound, workers)
        if not ways:
            return [first._replace(notes=(*first.notes, look.text(UNMEASURED)))]
        notes = notes_on([way.what.partition(" ")[0] for way in bound.tried if way.kind == "estimate"])
        return [first, what_if_sheet(ways, look, notes)]

    return Report(
        sheets,
        lambda: {**content(bound, workers if what_if else None), **({} if run is None else {"run": _run(run)})},
        {"bound": (bound, Sheet((), (), **_frame(bound, Look(), run)))},
    )


def _frame(bound: Bound, look: Look, run: Utilisation | None = None) -> Json:
    """The parts of a sheet above and below its lines."""
    return {
        "about": (model_name(bound.profile, look), look.text(device_text(bound))),
        "summary": (*summary_of(bound, look), *(_run_figures(run, look) if run is not None else ())),
        "notes": look.texts([*bound.notes, *([TOO_FAST] if run is not None and run.floor_share > 1 else [])]),
    }


def _run_figures(run: Utilisation, look: Look) -> Iterable[Figure]:
    """The shares of a time that somebody measured."""
    yield Figure(look.text("measured time"), _time(run.measured_ns), "as given")
    peaks = ", ".join(f"{human(round(p.value), p.unit)} {p.dtype}" for p in run.peaks)
    what = f"products at the rated dense peak: {peaks}" if run.mfu is not None else "no peak of a product's type"
    yield Figure(look.text("  MFU"), _percent(run.mfu), look.text(what))
    yield Figure(look.text("  share of the physical floor"), _percent(run.floor_share), "floor over measured time")
    yield Figure(look.text("  share of the rooflines"), _percent(run.roofline_share), "an estimate: nothing fused")


def _percent(value: float | None) -> str:
    return "?" if value is None else f"{100 * value:.1f} %"


def _run(run: Utilisation) -> Json:
    """The key "run" of the JSON schema."""
    return {"measured_ns": _rounded(run.measured_ns), **fields(run, "mfu floor_share roofline_share")}


def device_text(bound: Bound) -> str:
    """The device, and how much of it is used."""
    cores = f", {bound.threads} of {bound.device.cores} cores" if bound.threads and bound.device.cores else ""
    return f"{bound.device.name}{cores}"


def summary_of(bound: Bound, look: Look) -> Iterable[Figure]:
    """The floors of the whole model, and the figures that they rest on."""
    if bound.engine is not None:
        yield from _engine(bound, bound.engine, look)
    floor = bound.physical
    unknown = any(row.status == "unknown" for row in bound.rows)
    at_least = look.glyphs.at_least if unknown else ""
    yield Figure(look.text("physical floor"), at_least + _time(floor.ns), f"{floor.roof}-bound")
    yield Figure(look.text("  arithmetic at peak"), _time(floor.compute_ns), _rates(floor, bound, "FLOP/s"))
    moved = f"{human(floor.movement.total, 'B')} from {_LEVELS[floor.level]} at {_rates(floor, bound, 'B/s')}"
    yield Figure(look.text("  minimum memory traffic"), _time(floor.memory_ns), moved)
    if bound.machine is not None:
        yield Figure(look.text("at measured peaks"), _time(bound.machine.ns), f"{bound.machine.roof}-bound")
    yield Figure(look.text("sum of the rooflines"), _time(bound.roofline_ns), "an estimate: nothing fused")


_VERDICTS = {
    "holds": "the floor is not above the measured time",
    "noisy": "it holds, but the machine was busy",
    "BROKEN": "the floor is above the measured time",
    "roofline": "the whole was not measured",
}


def _engine(bound: Bound, engine: EngineFloor, look: Look) -> Iterable[Figure]:
    """The engine's floor beside the measured time."""
    facts = engine.environment.get("engine", {})
    threads = facts.get("threads", 1)
    plural = "s" if threads > 1 else ""
    how = f"{facts.get('name')} {facts.get('version')}, {facts.get('level')}, {threads} thread{plural}"
    yield Figure("measured", _time(engine.measured_ns), how)
    if engine.noise is not None:
        count = f"best of {engine.sessions} sessions" if engine.sessions > 1 else "one session"
        yield Figure("  noise", f"{percent(100 * engine.noise)} %", f"of two equal runs, {count}")
    bound_mark = "" if engine.complete else look.glyphs.at_least
    over = "" if engine.ratio is None else f"{100 * engine.ratio:.1f} % of the measured time"
    yield Figure("engine floor", bound_mark + _time(engine.hot_ns), over)
    yield Figure("  verdict", bound.verdict, _VERDICTS.get(bound.verdict, ""))
    error = ""
    if engine.measured_ns:
        error = f"an estimate, {100 * (engine.streamed_ns / engine.measured_ns - 1):+.1f} % off"
    yield Figure("  with streamed weights", bound_mark + _time(engine.streamed_ns), error)
    if engine.critical_ns < 0.999 * engine.hot_ns:
        yield Figure("  along the longest path", _time(engine.critical_ns), "if independent nodes ran at once")
    share = "" if engine.macs_share is None else f", {percent(100 * engine.macs_share)} % of the multiply-adds"
    yield Figure("  coverage", f"{engine.measured_nodes} of {engine.nodes}", f"nodes{share}")


_LEVELS = {"l1": "L1", "l2": "L2", "llc": "the last cache", "dram": "memory"}


def _time(nanoseconds: float | None) -> str:
    return "?" if nanoseconds is None else duration(nanoseconds / 1e9)


def _rates(floor: Floor, bound: Bound, unit: str) -> str:
    rates = []
    for peak in floor.peaks:
        if peak.unit == unit:
            text = human(round(peak.scaled(bound.threads)), unit)
            rates.append(f"{text} {peak.dtype}" if peak.dtype else text)
    return ", ".join(rates) or "an unknown rate"


def content(bound: Bound, workers: int | None = None) -> Json:
    """The JSON schema ``flopwise.bound/1``: nanoseconds are integers, what is not known is null.

    Args:
        bound: what to write.
        workers: with a number, "what_if" holds other ways, one of them with so many nodes at once.
    """
    rows, engine = bound.rows, bound.engine
    macs = sum(row.work.macs or 0 for row in rows)
    measured = sum(row.work.macs or 0 for row in rows if row.engine_ns is not None)
    return {
        "schema": "flopwise.bound/1",
        "model": fields(bound.profile.graph, "name source format"),
        "environment": _environment(bound),
        "floors": {
            "physical_ns": _rounded(bound.physical.ns),
            "engine_ns": _rounded(engine.hot_ns) if engine else None,
            "streamed_ns": _rounded(engine.streamed_ns) if engine else None,
            "critical_path_ns": _rounded(engine.critical_ns) if engine else None,
            "at_measured_peaks_ns": _rounded(bound.machine.ns) if bound.machine else None,
        },
        "measured_ns": _rounded(engine.measured_ns) if engine else None,
        "noise": engine.noise if engine else None,
        "coverage": {
            "nodes": len(rows),
            "measured": sum(row.engine_ns is not None for row in rows),
            "macs_share": measured / macs if macs else None,
        },
        "verdict": bound.verdict,
        "rows": [
            {
                **fields(row, "name op"),
                "time_ns": _rounded(row.engine_ns),
                "floor_ns": _rounded(row.floor_ns),
                "physical_ns": _rounded(row.physical_ns),
                **fields(row, "roof status"),
                "roofline_ns": _rounded(row.roofline_ns),
                **fields(row.work, "macs flops"),
                "bytes": row.work.nbytes,
                "dtypes": list(row.work.dtypes),
                "streamed_ns": _rounded(row.streamed_ns),
                "layers": list(row.layers),
            }
            for row in rows
        ],
        "notes": list(bound.notes),
        **({} if workers is None else {"what_if": plain_ways(what_ifs(bound, workers))}),
    }


def _environment(bound: Bound) -> Json:
    device, floor = bound.device, bound.physical
    return {
        "device": fields(device, "id name kind cores"),
        "threads": bound.threads,
        "engine": dict(bound.engine.environment.get("engine", {})) if bound.engine else None,
        "machine": dict(bound.engine.environment.get("machine", {})) if bound.engine else None,
        "sessions": bound.engine.sessions if bound.engine else 0,
        "roof": floor.roof,
        "compute_ns": _rounded(floor.compute_ns),
        "memory_ns": _rounded(floor.memory_ns),
        "must_move": {**fields(floor.movement, "weights inputs outputs"), "level": floor.level},
        "peaks": [
            {
                **fields(peak, "what dtype"),
                "value": peak.scaled(bound.threads),
                **fields(peak, "unit kind source"),
                "url": peak.url or None,
            }
            for peak in floor.peaks
        ],
    }


def _rounded(nanoseconds: float | None) -> int | None:
    return None if nanoseconds is None else round(nanoseconds)


# A figure of a bound by matplotlib, the extra ``figures``: the roofline, and the waterfall to the measured time.


#: Colours that stay apart in grey and for colour-blind readers (Paul Tol's bright and muted schemes).
COLOURS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#BBBBBB")
SUM, LOSS, GAIN = "#4477AA", "#EE8866", "#228833"


def format_of(path: str) -> str:
    """The format of a figure's file name.

    Raises:
        InputError: matplotlib is missing, or draws no such files.
    """
    name = os.path.splitext(path)[1][1:].lower()
    if name not in FIGURES:
        raise InputError(f"{path}: a figure ends in {', '.join('.' + f for f in FIGURES)}")
    require_matplotlib()
    return name


def figure(bound: Bound, format: str) -> bytes:
    """The figure as the bytes of a file: roofline on the left, waterfall on the right.

    Raises:
        InputError: matplotlib is missing.
    """
    with styled():
        from matplotlib.figure import Figure

        drawn = Figure(figsize=(11, 4.4), layout="constrained")
        left, right = drawn.subplots(1, 2, width_ratios=(1.1, 1))
        draw_roofline(left, _dots(bound), roofs(bound))
        _waterfall(bound, right)
        model, device = shorten(model_name(bound.profile, Look()), 60), shorten(bound.device.name, 40)
        drawn.suptitle(f"{model} · {device}", fontsize=9)
        return as_bytes(drawn, format)


class Dot(NamedTuple):
    """A layer that computes, in a roofline."""

    op: str
    flops_per_byte: float
    flops_per_second: float
    #: Its area.
    ns: float


def draw_roofline(axes: Axes, dots: Sequence[Dot], lines: Sequence[Json]) -> None:
    """Roofs (``report.html.bound.roof_lines``), and a dot for each layer that computes; its area is its time."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    _scatter(dots, axes)
    low, high = axes.get_xlim()
    fastest = max((roof["value"] for roof in lines if roof["unit"] == "FLOP/s"), default=None)
    for roof in lines:
        style: Json = {"linewidth": 0.9, "linestyle": "-" if roof["kind"] == "measured" else "--"}
        value, text = roof["value"], f"{roof['label']} {human(round(roof['value']), roof['unit'])}"
        if roof["unit"] == "FLOP/s":
            axes.axhline(value, color="black", **style)
            axes.annotate(text, (high, value), ha="right", va="bottom", fontsize=7)
        else:
            end = high if fastest is None else min(high, fastest / value)
            axes.plot([low, end], [low * value, end * value], "k", **style)
            axes.annotate(text, (low, low * value), ha="left", va="bottom", fontsize=7)
    axes.set_xlim(low, high)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, _: human(round(value)))
    axes.set_xlabel("FLOP per byte")
    axes.set_ylabel("FLOP/s")
    if dots:
        axes.legend(loc="lower right", fontsize=6.5, frameon=False)


def _dots(bound: Bound) -> list[Dot]:
    """A dot for each layer that computes."""
    dots = []
    for row in bound.rows:
        flops, nbytes, time = row.work.flops, row.work.nbytes, row.engine_ns
        time = row.roofline_ns if time is None else time
        if flops and nbytes and time:
            dots.append(Dot(row.op, flops / nbytes, 1e9 * flops / time, time))
    return dots


def _scatter(dots: Sequence[Dot], axes: Axes) -> None:
    """Draw dots, coloured by their operators."""
    totals: dict[str, float] = {}
    for op, *_, time in dots:
        totals[op] = totals.get(op, 0.0) + time
    first = sorted(totals, key=lambda op: -totals[op])[: len(COLOURS) - 1]
    parts = [(op or "others", [dot for dot in dots if dot[0] == op], COLOURS[i]) for i, op in enumerate(first)]
    parts.append(("others", [dot for dot in dots if dot[0] not in first], COLOURS[-1]))
    largest = max((time for *_, time in dots), default=1.0)
    style: Json = {"alpha": 0.75, "linewidths": 0.4, "edgecolors": "white"}
    for label, part, colour in parts:
        if part:
            _, x, y, times = zip(*part, strict=True)
            axes.scatter(x, y, s=[4 + 120 * t / largest for t in times], c=colour, label=shorten(label, 28), **style)


def _waterfall(bound: Bound, axes: Axes) -> None:
    """The steps from the physical floor to the measured time, in ms."""
    steps = waterfall(bound)
    for place, step in enumerate(steps):
        size = step["to"] - step["from"]
        colour = SUM if step["kind"] == "sum" else LOSS if size >= 0 else GAIN
        axes.barh(place, size / 1e6, left=step["from"] / 1e6, color=colour, height=0.66)
        sign = "" if step["kind"] == "sum" else "+" if size >= 0 else "−"
        end = max(step["from"], step["to"]) / 1e6
        axes.annotate(f" {sign}{ratio(abs(size) / 1e6)}", (end, place), va="center", fontsize=7)
    axes.set_yticks(range(len(steps)), [shorten(step["label"], 34) for step in steps])
    axes.invert_yaxis()
    axes.margins(x=0.14)
    axes.set_xlabel("ms")


# What-ifs in every format: floors, estimates with their ranges, and measured times.


def what_if_sheet(ways: Sequence[WhatIf], look: Look, notes: Sequence[str] = ()) -> Sheet:
    """A line for each way; a time is held against one of its own kind."""
    return Sheet(
        heads=(
            Head("what", "what if", "text", 0, prose=True),
            Head("ms", "ms", "ratio", 1),
            Head("range", "range, ms", "text", 3),
            Head("ratio", "× now", "ratio", 2),
            Head("kind", "kind", "text", 1),
        ),
        lines=tuple(
            Line((look.text(way.what), way.ns / 1e6, look.text(_range(way)), _ratio(way), way.kind)) for way in ways
        ),
        notes=look.texts(notes),
        skip_empty=True,
    )


def _range(way: WhatIf) -> str:
    if way.low_ns is None or way.high_ns is None:
        return ""
    return f"{ratio(way.low_ns / 1e6)} to {ratio(way.high_ns / 1e6)}"


def _ratio(way: WhatIf) -> Value:
    return "" if way.ratio is None else way.ratio


def plain_ways(ways: Sequence[WhatIf]) -> list[Json]:
    """The ways in JSON: nanoseconds are integers."""
    times = ("ns", "base_ns", "low_ns", "high_ns")
    return [
        {"what": way.what, "kind": way.kind}
        | {name: None if getattr(way, name) is None else round(getattr(way, name)) for name in times}
        for way in ways
    ]
