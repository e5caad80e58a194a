"""The least time of a model on a device, layer by layer, as a table or as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flopwise.analyses.timing.whatif import WhatIf, what_ifs
from flopwise.errors import InputError
from flopwise.report.report import Report
from flopwise.report.sheet.columns import AtLeast, Value
from flopwise.report.sheet.sheet import Figure, Head, Line, Look, Sheet, model_name
from flopwise.report.sheet.units import human, percent, ratio

if TYPE_CHECKING:
    from flopwise.analyses.timing.bound import Bound, BoundRow, EngineFloor, Floor
    from flopwise.report.formats.format import Format

#: In a CPU's, GPU's or TPU's figure: units for people.
MICRO = 1e3


class Item(NamedTuple):
    """A line: one row, or several of one operator added up."""

    name: str
    op: str
    rows: tuple[BoundRow, ...]

    def sum(self, figure: Callable[[BoundRow], float | None]) -> float | None:
        """A figure added up over the rows that have it; None when none has."""
        found = [value for value in map(figure, self.rows) if value is not None]
        return sum(found) if found else None


def _number(figure: Callable[[BoundRow], float | None]) -> Callable[[Item, Bound], Value]:
    def value(item: Item, bound: Bound) -> Value:
        total = item.sum(figure)
        if total is None:
            return None
        complete = all(figure(row) is not None for row in item.rows)
        return int(total) if complete else AtLeast(int(total))

    return value


def _micro(figure: Callable[[BoundRow], float | None]) -> Callable[[Item, Bound], Value]:
    def value(item: Item, bound: Bound) -> Value:
        total = item.sum(figure)
        return None if total is None else total / MICRO

    return value


def _intensity(item: Item, bound: Bound) -> Value:
    flops, nbytes = item.sum(lambda r: r.work.flops), item.sum(lambda r: r.work.nbytes)
    if flops is None or nbytes is None:
        return None
    return flops / nbytes if nbytes else ""


def _roof(item: Item, bound: Bound) -> Value:
    """What binds the row; of several rows the one that most of their time is under."""
    if len(item.rows) == 1:
        return item.rows[0].roof
    time: Counter[str] = Counter()
    for row in item.rows:
        time[row.roof] += row.roofline_ns or 0  # type: ignore[assignment] # a Counter of floats
    return time.most_common(1)[0][0]


def _share(item: Item, bound: Bound) -> Value:
    whole = bound.roofline_ns
    return 100 * (item.sum(lambda r: r.roofline_ns) or 0.0) / whole if whole else 0.0


def _time_share(item: Item, bound: Bound) -> Value:
    whole = bound.engine.hot_ns if bound.engine else 0.0
    return 100 * (item.sum(lambda r: r.engine_ns) or 0.0) / whole if whole else 0.0


def _over(item: Item, bound: Bound) -> Value:
    time, floor = item.sum(lambda r: r.engine_ns), item.sum(lambda r: r.physical_ns)
    return time / floor if time and floor else ""


def _rate(figure: Callable[[BoundRow], float | None]) -> Callable[[Item, Bound], Value]:
    def value(item: Item, bound: Bound) -> Value:
        rows = [row for row in item.rows if row.engine_ns and figure(row) is not None]
        time = sum(row.engine_ns or 0.0 for row in rows)
        return sum(figure(row) or 0.0 for row in rows) / time if time else ""

    return value


def _segment(item: Item, bound: Bound) -> Value:
    names = list(dict.fromkeys(name for row in item.rows for name in row.layers))
    return ", ".join(names[:2]) + (f" +{len(names) - 2}" if len(names) > 2 else "")


def _status(item: Item, bound: Bound) -> Value:
    known = ", ".join(dict.fromkeys(row.status for row in item.rows))
    estimated = bound.engine is not None and any(row.engine_ns is None for row in item.rows)
    return f"~ {known}" if estimated else known


class BoundColumn(NamedTuple):
    """A column of this report."""

    head: Head
    value: Callable[[Item, Bound], Value]
    about: str


_COLUMNS = (
    BoundColumn(Head("name", "layer", "text", 0), lambda i, b: i.name, "the layer, or the operator"),
    BoundColumn(Head("op", "op", "text", 3), lambda i, b: i.op, "the operator"),
    BoundColumn(Head("layers", "layers", "number", 6), lambda i, b: len(i.rows), "how many layers"),
    BoundColumn(Head("macs", "MACs", "number", 6), _number(lambda r: r.work.macs), "multiply-adds of products"),
    BoundColumn(Head("flops", "FLOPs", "number", 7), _number(lambda r: r.work.flops), "all arithmetic"),
    BoundColumn(Head("bytes", "bytes", "bytes", 6), _number(lambda r: r.work.nbytes), "bytes read and written"),
    BoundColumn(Head("intensity", "FLOP/B", "ratio", 5), _intensity, "arithmetic intensity: FLOP per byte"),
    BoundColumn(Head("roof", "roof", "text", 1), _roof, "what binds: compute or memory"),
    BoundColumn(
        Head("roofline", "roofline µs", "ratio", 1),
        _micro(lambda r: r.roofline_ns),
        "estimate: the slower of arithmetic at peak and operands from the memory that holds them",
    ),
    BoundColumn(Head("share", "%", "percent", 2), _share, "share of the sum of rooflines"),
    BoundColumn(
        Head("floor", "floor µs", "ratio", 1),
        _micro(lambda r: r.physical_ns),
        "physical floor: arithmetic at peak, operands at the fastest level",
    ),
    BoundColumn(
        Head("time", "alone µs", "ratio", 1), _micro(lambda r: r.engine_ns), "least time of the node alone, hot"
    ),
    BoundColumn(Head("time%", "%", "percent", 2), _time_share, "share of the engine's floor"),
    BoundColumn(
        Head("streamed", "streamed µs", "ratio", 7),
        _micro(lambda r: r.streamed_ns),
        "the same with weights from beyond the second cache",
    ),
    BoundColumn(Head("time/floor", "time/floor", "ratio", 3), _over, "time alone over the physical floor"),
    BoundColumn(Head("gflops", "GFLOP/s", "ratio", 4), _rate(lambda r: r.work.flops), "arithmetic per second"),
    BoundColumn(Head("gbytes", "GB/s", "ratio", 4), _rate(lambda r: r.work.nbytes), "bytes per second"),
    BoundColumn(Head("segment", "does the work of", "text", 6), _segment, "the model's layers behind an executed node"),
    BoundColumn(Head("status", "status", "text", 5), _status, "ok, roofline (not measured), unknown (no count)"),
)

COLUMNS: dict[str, BoundColumn] = {column.head.key: column for column in _COLUMNS}

#: What people are shown by itself; programs get all columns.
_DEFAULT = {
    "layer": "name op macs bytes intensity roof roofline share floor",
    "op": "name layers macs bytes intensity roof roofline share floor",
}

#: Columns of which no sum says anything.
_NO_TOTAL = ("roof", "status", "floor", "segment", "time/floor")

#: What is shown where an engine was measured; its rows are the nodes that it executes.
_MEASURED = {
    "layer": "name op roof floor time time% time/floor gflops gbytes segment status",
    "op": "name layers roof floor time time% time/floor gflops gbytes status",
}


def bound_report(
    bound: Bound,
    by: str = "layer",
    columns: Sequence[str] | None = None,
    sort: str | None = None,
    top: int | None = None,
    what_if: bool = False,
    workers: int = 2,
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

    Raises:
        InputError: the grouping or a column is unknown.
    """
    if by not in _DEFAULT:
        raise InputError(f"cannot group by {by!r}; choose layer or op")
    for key in (*(columns or ()), *([sort] if sort else ())):
        _column(key)
    shown = (_MEASURED if bound.engine is not None else _DEFAULT)[by].split()

    def sheet(data: bool, look: Look) -> Sheet:
        chosen = [_column(key) for key in columns or (tuple(COLUMNS) if data else shown)]
        items = _items(bound, by)
        if sort or top or by == "op":
            key = _column(sort or ("time" if bound.engine is not None else "roofline"))
            items.sort(key=lambda item: _order(key.value(item, bound)))
        first, rest = items[:top], items[top:] if top else []
        lines = [Line(tuple(c.value(i, bound) for c in chosen), _mark(i)) for i in first]
        if rest:
            left = Item(f"{len(rest)} more", "", tuple(row for item in rest for row in item.rows))
            lines.append(Line(tuple(c.value(left, bound) for c in chosen), "rest"))
        whole = Item("Total", "", bound.rows)
        total = Line(tuple("" if c.head.key in _NO_TOTAL else c.value(whole, bound) for c in chosen))
        return Sheet(
            heads=tuple(c.head for c in chosen),
            lines=tuple(lines),
            total=total,
            about=(model_name(bound.profile, look), look.text(_device(bound))),
            summary=tuple(_summary(bound, look)),
            notes=tuple(look.text(note) for note in bound.notes),
        )

    plain = Look()
    drawn = (bound, model_name(bound.profile, plain), _device(bound), tuple(_summary(bound, plain)))

    def sheets(format: Format, look: Look) -> list[Sheet]:
        first = sheet(format.data, look)
        return [first, _what_if_sheet(bound, workers, look)] if what_if and not format.data else [first]

    return Report(sheets, lambda: content(bound, workers if what_if else None), {"bound": drawn})


def _what_if_sheet(bound: Bound, workers: int, look: Look) -> Sheet:
    """Other ways for the model, beside the engine's floor and the measured time."""
    base = bound.engine.hot_ns if bound.engine else 0.0
    return Sheet(
        heads=(
            Head("what", "what if", "text", 0, prose=True),
            Head("ms", "ms", "ratio", 1),
            Head("ratio", "of the floor", "ratio", 2),
            Head("kind", "is", "text", 1),
        ),
        lines=tuple(
            Line((look.text(each.what), each.ns / 1e6, each.ns / base if base else "", each.kind))
            for each in what_ifs(bound, workers)
        ),
        notes=() if bound.engine else ("what-ifs need a measured model: flopwise bench",),
        complete=True,
    )


def content(bound: Bound, workers: int | None = None) -> dict[str, Any]:
    """The JSON schema ``flopwise.bound/1``: nanoseconds are integers, what is not known is null.

    Args:
        bound: what to write.
        workers: with a number, "what_if" holds other ways, one of them with so many nodes at once.
    """
    rows, engine = bound.rows, bound.engine
    macs = sum(row.work.macs or 0 for row in rows)
    known = sum(row.work.macs or 0 for row in rows if row.engine_ns is not None)
    return {
        "schema": "flopwise.bound/1",
        "model": {
            "name": bound.profile.graph.name,
            "source": bound.profile.graph.source,
            "format": bound.profile.graph.format,
        },
        "environment": _environment(bound),
        "floors": {
            "physical_ns": _whole(bound.physical.ns),
            "engine_ns": _whole(engine.hot_ns) if engine else None,
            "streamed_ns": _whole(engine.streamed_ns) if engine else None,
            "critical_path_ns": _whole(engine.critical_ns) if engine else None,
            "at_measured_peaks_ns": _whole(bound.machine.ns) if bound.machine else None,
        },
        "measured_ns": _whole(engine.measured_ns) if engine else None,
        "noise": engine.noise if engine else None,
        "coverage": {
            "nodes": len(rows),
            "measured": sum(row.engine_ns is not None for row in rows),
            "macs_share": known / macs if macs else None,
        },
        "verdict": bound.verdict,
        "rows": [
            {
                "name": row.name,
                "op": row.op,
                "time_ns": _whole(row.engine_ns),
                "floor_ns": _whole(row.floor_ns),
                "physical_ns": _whole(row.physical_ns),
                "roof": row.roof,
                "status": row.status,
                "roofline_ns": _whole(row.roofline_ns),
                "macs": row.work.macs,
                "flops": row.work.flops,
                "bytes": row.work.nbytes,
                "dtypes": list(row.work.dtypes),
                "streamed_ns": _whole(row.streamed_ns),
                "layers": list(row.layers),
            }
            for row in rows
        ],
        "notes": list(bound.notes),
        **({} if workers is None else {"what_if": [_other(each) for each in what_ifs(bound, workers)]}),
    }


def _other(each: WhatIf) -> dict[str, Any]:
    return {"what": each.what, "ns": _whole(each.ns), "kind": each.kind}


def _environment(bound: Bound) -> dict[str, Any]:
    device, floor = bound.device, bound.physical
    return {
        "device": {"id": device.id, "name": device.name, "kind": device.kind, "cores": device.cores},
        "threads": bound.threads,
        "engine": dict(bound.engine.environment.get("engine", {})) if bound.engine else None,
        "machine": dict(bound.engine.environment.get("machine", {})) if bound.engine else None,
        "sessions": bound.engine.sessions if bound.engine else 0,
        "roof": floor.roof,
        "compute_ns": _whole(floor.compute_ns),
        "memory_ns": _whole(floor.memory_ns),
        "must_move": {
            "weights": floor.movement.weights,
            "inputs": floor.movement.inputs,
            "outputs": floor.movement.outputs,
            "level": floor.level,
        },
        "peaks": [
            {
                "what": peak.what,
                "dtype": peak.dtype,
                "value": peak.scaled(bound.threads),
                "unit": peak.unit,
                "kind": peak.kind,
                "source": peak.source,
                "url": peak.url or None,
                "verified": peak.verified,
            }
            for peak in floor.peaks
        ],
    }


def _whole(nanoseconds: float | None) -> int | None:
    return None if nanoseconds is None else round(nanoseconds)


def _items(bound: Bound, by: str) -> list[Item]:
    if by == "layer":
        return [Item(row.name, row.op, (row,)) for row in bound.rows]
    groups: dict[str, list[BoundRow]] = {}
    for row in bound.rows:
        groups.setdefault(row.op, []).append(row)
    return [Item(op, op, tuple(rows)) for op, rows in groups.items()]


def _column(key: str) -> BoundColumn:
    if key not in COLUMNS:
        raise InputError(f"unknown column {key!r}; known: {', '.join(COLUMNS)}")
    return COLUMNS[key]


def _order(value: Value) -> tuple[int, Any]:
    """The unknown first, then the largest, then text by the alphabet."""
    if value is None:
        return (0, 0)
    return (1, -value) if isinstance(value, int | float) else (2, str(value))


def _mark(item: Item) -> Any:
    return "unknown" if any(row.status == "unknown" for row in item.rows) else ""


def _device(bound: Bound) -> str:
    cores = f", {bound.threads} of {bound.device.cores} cores" if bound.threads and bound.device.cores else ""
    return f"{bound.device.name}{cores}"


def _summary(bound: Bound, look: Look) -> Iterable[Figure]:
    """The floors of the whole model, and the figures that they rest on."""
    if bound.engine is not None:
        yield from _engine(bound, bound.engine, look)
    floor = bound.physical
    unknown = any(row.status == "unknown" for row in bound.rows)
    at_least = look.glyphs.at_least if unknown else ""
    yield Figure(look.text("physical floor"), at_least + milliseconds(floor.ns), f"{floor.roof}-bound")
    yield Figure(look.text("  arithmetic at peak"), milliseconds(floor.compute_ns), _rates(floor, bound, "FLOP/s"))
    moved = f"{human(floor.movement.total, 'B')} from {_LEVELS[floor.level]} at {_rates(floor, bound, 'B/s')}"
    yield Figure(look.text("  bytes that must move"), milliseconds(floor.memory_ns), moved)
    if bound.machine is not None:
        yield Figure(look.text("at measured peaks"), milliseconds(bound.machine.ns), f"{bound.machine.roof}-bound")
    yield Figure(look.text("rooflines added up"), milliseconds(bound.roofline_ns), "an estimate: nothing fused")


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
    many = "s" if threads > 1 else ""
    how = f"{facts.get('name')} {facts.get('version')}, {facts.get('level')}, {threads} thread{many}"
    yield Figure("measured", milliseconds(engine.measured_ns), how)
    if engine.noise is not None:
        count = f"best of {engine.sessions} sessions" if engine.sessions > 1 else "one session"
        yield Figure("  noise", f"{percent(100 * engine.noise)} %", f"of two equal runs, {count}")
    bound_mark = "" if engine.complete else look.glyphs.at_least
    over = "" if engine.ratio is None else f"{100 * engine.ratio:.1f} % of the measured time"
    yield Figure("engine floor", bound_mark + milliseconds(engine.hot_ns), over)
    yield Figure("  verdict", bound.verdict, _VERDICTS.get(bound.verdict, ""))
    error = ""
    if engine.measured_ns:
        error = f"an estimate, {100 * (engine.streamed_ns / engine.measured_ns - 1):+.1f} % off"
    yield Figure("  with streamed weights", bound_mark + milliseconds(engine.streamed_ns), error)
    if engine.critical_ns < 0.999 * engine.hot_ns:
        yield Figure("  along the longest path", milliseconds(engine.critical_ns), "if independent nodes ran at once")
    share = "" if engine.macs_share is None else f", {percent(100 * engine.macs_share)} % of the multiply-adds"
    yield Figure("  coverage", f"{engine.measured_nodes} of {engine.nodes}", f"nodes{share}")


_LEVELS = {"l1": "L1", "l2": "L2", "llc": "the last cache", "dram": "memory"}


def milliseconds(nanoseconds: float | None) -> str:
    """A time for people.

    >>> milliseconds(2582.58), milliseconds(4.09e9), milliseconds(None)
    ('0.00258 ms', '4,090 ms', '?')
    """
    return "?" if nanoseconds is None else f"{ratio(nanoseconds / 1e6)} ms"


def _rates(floor: Floor, bound: Bound, unit: str) -> str:
    found = []
    for peak in floor.peaks:
        if peak.unit == unit:
            text = human(round(peak.scaled(bound.threads)), unit)
            found.append(f"{text} {peak.dtype}" if peak.dtype else text)
    return ", ".join(found) or "an unknown rate"
