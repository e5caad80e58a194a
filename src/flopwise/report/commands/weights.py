"""The weights of a model as a table: one line for each layer or tensor, and the columns that there are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flopwise.analyses.weights.result import PERCENTILES, Entry, Histogram
from flopwise.errors import InputError, counted, entry
from flopwise.report.formats.format import Format
from flopwise.report.report import Report
from flopwise.report.sheet.columns import Kind, Value
from flopwise.report.sheet.sheet import Head, Line, Look, Sheet

if TYPE_CHECKING:
    from flopwise.analyses.weights.result import Weights

#: Heights of a bar in eighths of a line; the lowest is that of a bin with few elements, a space that of none.
BARS = " ▁▂▃▄▅▆▇█"

#: Bars of an inline histogram; a terminal of fewer cells than NARROW has none.
CELLS, NARROW = 20, 76


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its key for programs, its title for people, and when it is dropped from a table that is too wide."""

    key: str
    title: str
    kind: Kind
    rank: int
    #: Where the value is not a figure of an entry.
    value: Callable[[Entry], Any] | None = None

    def of(self, entry: Entry) -> Any:
        """The value; None where it is not known."""
        return entry.figure(self.key) if self.value is None else self.value(entry)


COLUMNS: dict[str, Column] = {
    column.key: column
    for column in (
        Column("name", "{one}", "text", 0),
        Column("op", "op", "text", 7),
        Column("dtype", "dtype", "text", 7, lambda e: ", ".join(e.dtypes)),
        Column("shape", "shape", "shapes", 8, lambda e: e.shapes),
        Column("bytes", "bytes", "bytes", 9, lambda e: e.nbytes),
        Column("length", "length", "number", 1),
        Column("max", "max", "number", 2),
        Column("min", "min", "number", 2),
        Column("mean", "mean", "number", 6),
        Column("deviation", "deviation", "number", 3),
        Column("zeros", "zeros", "number", 6),
        Column("zero%", "zeros %", "percent", 9),
        Column("nan", "NaN", "number", 5),
        Column("infinite", "infinite", "number", 5),
        Column("absmax", "abs. max", "number", 10),
        Column("l1", "L1", "number", 11),
        Column("l2", "L2", "number", 11),
        *(Column(key, key, "number", 12) for key in PERCENTILES),
        Column("histogram", "histogram", "number", 8, lambda e: e.histogram),
    )
}

#: Grouping -> the columns of a table; NaN and infinities are added where there are any.
SHOWN: dict[str, tuple[str, ...]] = {
    "layer": ("name", "op", "length", "max", "min", "deviation", "histogram"),
    "tensor": tuple(key for key in COLUMNS if key not in ("op", "zero%")),
}

#: Columns that are left to a table.
DRAWN = ("histogram",)


def chosen(keys: Sequence[str] | None, by: str, total: Entry, drawn: bool) -> list[Column]:
    """The columns to show.

    Raises:
        InputError: there is no column of that name.
    """
    wanted = [key for key in SHOWN[by] if key not in ("nan", "infinite")] if keys is None else list(keys)
    if keys is None:
        at = wanted.index("histogram")
        wanted[at:at] = [key for key in ("nan", "infinite") if getattr(total, key)]
    columns = [entry(COLUMNS, key) for key in wanted]
    return columns if drawn else [c for c in columns if c.key not in DRAWN]


def weights_report(
    weights: Weights, columns: Sequence[str] | None = None, sort: str | None = None, top: int | None = None
) -> Report:
    """The statistics of the weights; their JSON always holds all.

    Args:
        weights: what to write.
        columns: keys of columns; None for those of the grouping.
        sort: key of the column to sort by, the largest first; None for the model's order.
        top: how many lines to show, the longest unless ``sort`` says otherwise.

    Raises:
        InputError: a column is unknown.
    """

    def sheets(format: Format, look: Look) -> list[Sheet]:
        wide = look.width is not None and look.width >= NARROW and not look.ascii
        drawn = wide and format.audience == "terminal" and bool(weights.bins)
        shown = chosen(columns, weights.by, weights.total, drawn)
        if not shown:
            raise InputError("a histogram is drawn only in a terminal that is wide enough and shows block characters")
        return [_sheet(weights, shown, sort, top, look, format.data)]

    return Report(sheets, weights.to_dict)


def _sheet(
    weights: Weights, shown: Sequence[Column], sort: str | None, top: int | None, look: Look, data: bool
) -> Sheet:
    every = _sorted(weights.entries, sort or ("length" if top is not None else None))
    entries = every if top is None else every[:top]
    lines = [
        Line(tuple(_cell(c, e, look, data) for c in shown), "unknown" if e.nan or e.infinite else "") for e in entries
    ]
    if len(entries) < len(every) and not data:
        hidden = every[len(entries) :]
        values: dict[str, Value] = {
            "name": f"{look.glyphs.cut} {counted(len(hidden), f'more {weights.by}')}",
            "length": sum(e.length for e in hidden),
            "bytes": sum(e.nbytes for e in hidden),
        }
        lines.append(Line(tuple(values.get(c.key, "") for c in shown), "rest"))
    by_layer = weights.by == "layer"
    what = "floating-point weights, one line per layer" if by_layer else "one line per tensor"
    more = "all columns with --by tensor or --columns" if by_layer else "other columns with --columns"
    return Sheet(
        heads=tuple(Head(c.key, c.title.format(one=weights.by), c.kind, c.rank) for c in shown),
        lines=tuple(lines),
        total=Line(tuple(_total(c, weights.total, look) for c in shown)),
        about=(look.text(weights.model or "model"), what, "population standard deviation"),
        notes=tuple(look.text(note) for note in weights.notes),
        hint=f"{more}; figures with --figures DIR" if len(every) > 20 else "",
        complete=True,
    )


def _sorted(entries: Sequence[Entry], key: str | None) -> list[Entry]:
    """The entries, the largest first; those without a value last."""
    if key is None:
        return list(entries)
    by = entry(COLUMNS, key)
    if key in ("name", "op", "dtype"):
        return sorted(entries, key=by.of)

    def value(entry: Entry) -> float:
        value = by.of(entry)
        return value if isinstance(value, (int, float)) else -math.inf

    if key in ("shape", "histogram"):
        raise InputError(f"cannot sort by {key}")
    return sorted(entries, key=value, reverse=True)


def _total(column: Column, total: Entry, look: Look) -> Value:
    if column.key in ("name", "length", "bytes", "zeros", "zero%", "nan", "infinite"):
        return column.of(total)  # type: ignore[no-any-return]
    if column.key in ("op", "dtype", "shape", "histogram") or column.key in PERCENTILES:
        return ""
    return _cell(column, total, look, False)


def _cell(column: Column, entry: Entry, look: Look, exact: bool) -> Value:
    """A value as a sheet takes it: real numbers as text, because a sheet's floats are shares and quotients."""
    value = column.of(entry)
    if isinstance(value, Histogram):
        return bars(value)
    if isinstance(value, float) and column.kind == "number":
        if (
            any(d.startswith(("int", "uint", "bool")) for d in entry.dtypes)
            and value.is_integer()
            and abs(value) < 2**53
        ):
            return int(value)
        return repr(value) if exact else number(value)
    if value is None and (exact or column.kind == "text"):
        return None
    return value  # type: ignore[no-any-return]


def number(value: float) -> str:
    """A real number with six significant digits.

    >>> number(0.44255533814430237), number(0.0), number(1e-20), number(-3.0)
    ('0.442555', '0', '1e-20', '-3')
    """
    return f"{value:.6g}"


def bars(histogram: Histogram, cells: int = CELLS) -> str:
    """The histogram in block characters, a bar for several bins; its height grows with the root of the count.

    >>> bars(Histogram((0.0, 1.0, 2.0, 3.0, 4.0), (0, 1, 25, 100)), 4)
    ' ▁▄█'
    """
    bins = len(histogram.counts)
    cells = min(cells, bins)
    sums = [sum(histogram.counts[k * bins // cells : (k + 1) * bins // cells]) for k in range(cells)]
    most = max(sums)
    return "".join(BARS[math.ceil(math.sqrt(s / most) * 8 - 0.5) or 1] if s else " " for s in sums) if most else ""
