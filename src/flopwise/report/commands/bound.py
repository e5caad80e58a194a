"""The least time of a model on a device, layer by layer, as a table or as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from flopwise.errors import InputError
from flopwise.report.report import Report
from flopwise.report.sheet.columns import AtLeast, Value
from flopwise.report.sheet.sheet import Figure, Head, Line, Look, Sheet, model_name
from flopwise.report.sheet.units import human, ratio

if TYPE_CHECKING:
    from flopwise.analyses.timing.bound import Bound, BoundRow, Floor

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


def _status(item: Item, bound: Bound) -> Value:
    return ", ".join(dict.fromkeys(row.status for row in item.rows))


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
    BoundColumn(Head("status", "status", "text", 8), _status, "ok, roofline (not measured), unknown (no count)"),
)

COLUMNS: dict[str, BoundColumn] = {column.head.key: column for column in _COLUMNS}

#: What people are shown by itself; programs get all columns.
_DEFAULT = {
    "layer": "name op macs bytes intensity roof roofline share floor",
    "op": "name layers macs bytes intensity roof roofline share floor",
}


def bound_report(
    bound: Bound,
    by: str = "layer",
    columns: Sequence[str] | None = None,
    sort: str | None = None,
    top: int | None = None,
) -> Report:
    """The floors of a model; their JSON always holds all rows.

    Args:
        bound: what to write.
        by: one line for each "layer" or "op".
        columns: keys of columns; None for what suits the grouping.
        sort: key of the column to sort by, the largest first; None for the order of execution.
        top: how many lines to show, those with the largest roofline unless ``sort`` says otherwise.

    Raises:
        InputError: the grouping or a column is unknown.
    """
    if by not in _DEFAULT:
        raise InputError(f"cannot group by {by!r}; choose layer or op")
    for key in (*(columns or ()), *([sort] if sort else ())):
        _column(key)

    def sheet(data: bool, look: Look) -> Sheet:
        chosen = [_column(key) for key in columns or (tuple(COLUMNS) if data else _DEFAULT[by].split())]
        items = _items(bound, by)
        if sort or top or by == "op":
            key = _column(sort or "roofline")
            items.sort(key=lambda item: _order(key.value(item, bound)))
        shown, rest = items[:top], items[top:] if top else []
        lines = [Line(tuple(c.value(i, bound) for c in chosen), _mark(i)) for i in shown]
        if rest:
            left = Item(f"{len(rest)} more", "", tuple(row for item in rest for row in item.rows))
            lines.append(Line(tuple(c.value(left, bound) for c in chosen), "rest"))
        whole = Item("Total", "", bound.rows)
        total = Line(tuple("" if c.head.key in ("roof", "status", "floor") else c.value(whole, bound) for c in chosen))
        return Sheet(
            heads=tuple(c.head for c in chosen),
            lines=tuple(lines),
            total=total,
            about=(model_name(bound.profile, look), look.text(_device(bound))),
            summary=tuple(_summary(bound, look)),
            notes=tuple(look.text(note) for note in bound.notes),
        )

    return Report(lambda format, look: [sheet(format.data, look)], lambda: content(bound))


def content(bound: Bound) -> dict[str, Any]:
    """The JSON schema ``flopwise.bound/1``: nanoseconds are integers, what is not known is null."""
    rows = bound.rows
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
        "floors": {"physical_ns": _whole(bound.physical.ns), "engine_ns": None, "streamed_ns": None},
        "measured_ns": None,
        "noise": None,
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
                "time_ns": None,
                "floor_ns": _whole(row.floor_ns),
                "physical_ns": _whole(row.physical_ns),
                "roof": row.roof,
                "status": row.status,
                "roofline_ns": _whole(row.roofline_ns),
                "macs": row.work.macs,
                "flops": row.work.flops,
                "bytes": row.work.nbytes,
                "dtypes": list(row.work.dtypes),
            }
            for row in rows
        ],
        "notes": list(bound.notes),
    }


def _environment(bound: Bound) -> dict[str, Any]:
    device, floor = bound.device, bound.physical
    return {
        "device": {"id": device.id, "name": device.name, "kind": device.kind, "cores": device.cores},
        "threads": bound.threads,
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
