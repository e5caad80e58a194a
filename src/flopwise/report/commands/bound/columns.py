"""The columns of a bound, and the lines that they are of: rows, or rows of one operator added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from flopwise.report.sheet.columns import AtLeast, Value
from flopwise.report.sheet.sheet import Head, Mark

if TYPE_CHECKING:
    from flopwise.analyses.timing.bound import Bound, BoundRow

#: Nanoseconds of the unit that tables show.
MICRO = 1e3


class Item(NamedTuple):
    """A line: one row, or several of one operator added up."""

    name: str
    op: str
    rows: tuple[BoundRow, ...]

    def sum(self, figure: Callable[[BoundRow], float | None]) -> float | None:
        """A figure added up over the rows that have it; None when none has."""
        values = [value for value in map(figure, self.rows) if value is not None]
        return sum(values) if values else None


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
    """What binds the row; for several rows, what binds most of their time."""
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
    statuses = ", ".join(dict.fromkeys(row.status for row in item.rows))
    estimated = bound.engine is not None and any(row.engine_ns is None for row in item.rows)
    return f"~ {statuses}" if estimated else statuses


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
        return [Item(row.name, row.op, (row,)) for row in bound.rows]
    groups: dict[str, list[BoundRow]] = {}
    for row in bound.rows:
        groups.setdefault(row.op, []).append(row)
    return [Item(op, op, tuple(rows)) for op, rows in groups.items()]


def mark_of(item: Item) -> Mark:
    """What sets a line apart: that its work is unknown."""
    return "unknown" if any(row.status == "unknown" for row in item.rows) else ""
