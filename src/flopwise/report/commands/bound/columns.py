"""The columns of a bound, and the lines that they are of: rows, or rows of one operator added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from flopwise.analyses.timing.tiles import padding_share, wave_share
from flopwise.report.sheet.sheet import Field, Head, Mark
from flopwise.report.sheet.values import Value, total_of

if TYPE_CHECKING:
    from flopwise.analyses.timing.bound import Bound, BoundRow
    from flopwise.analyses.timing.device import Device

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
