"""The weights of a model as a table: one line for each layer or tensor, and the columns that there are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from flopwise.analyses.weights.result import PERCENTILES, Entry, Histogram
from flopwise.errors import InputError, counted, entry
from flopwise.report.formats.format import Format
from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Field, Head, Line, Sheet
from flopwise.report.sheet.values import Kind, Look, Value

if TYPE_CHECKING:
    from flopwise.analyses.weights.result import Weights

#: Heights of a bar in eighths of a line; the lowest is that of a bin with few elements, a space that of none.
BARS = " ▁▂▃▄▅▆▇█"

#: Bars of an inline histogram; a terminal of fewer cells than NARROW has none.
CELLS, NARROW = 20, 76


def _own(key: str, title: str, rank: int, kind: Kind = "number") -> Field[Entry]:
    """The column of a figure that entries have under that name."""
    return Field(Head(key, title, kind, rank), lambda entry: entry.figure(key))


COLUMNS: dict[str, Field[Entry]] = {
    field.head.key: field
    for field in (
        _own("name", "{one}", 0, "text"),
        _own("op", "op", 7, "text"),
        Field(Head("dtype", "dtype", "text", 7), lambda e: ", ".join(e.dtypes)),
        Field(Head("shape", "shape", "shapes", 8), lambda e: e.shapes),
        Field(Head("bytes", "bytes", "bytes", 9), lambda e: e.nbytes),
        _own("length", "length", 1),
        _own("max", "max", 2),
        _own("min", "min", 2),
        _own("mean", "mean", 6),
        _own("deviation", "deviation", 3),
        _own("zeros", "zeros", 6),
        _own("zero%", "zeros %", 9, "percent"),
        _own("nan", "NaN", 5),
        _own("infinite", "infinite", 5),
        _own("absmax", "abs. max", 10),
        _own("l1", "L1", 11),
        _own("l2", "L2", 11),
        *(_own(key, key, 12) for key in PERCENTILES),
        Field(Head("histogram", "histogram", "number", 8), lambda e: bars(e.histogram) if e.histogram else None),
    )
}

#: Columns that are shown where there are such elements, and one that is left to a table.
NOT_FINITE, DRAWN = ("nan", "infinite"), "histogram"

#: Grouping -> the columns of a table.
SHOWN: dict[str, tuple[str, ...]] = {
    "layer": ("name", "op", "length", "max", "min", "deviation", *NOT_FINITE, DRAWN),
    "tensor": (*(key for key in COLUMNS if key not in ("op", "zero%", *NOT_FINITE, DRAWN)), *NOT_FINITE, DRAWN),
}


def _chosen(keys: Sequence[str] | None, weights: Weights, drawn: bool) -> list[Field[Entry]]:
    """The columns to show.

    Raises:
        InputError: there is no column of that name.
    """
    if keys is None:
        keys = [key for key in SHOWN[weights.by] if key not in NOT_FINITE or getattr(weights.total, key)]
    return [column for column in (entry(COLUMNS, key) for key in keys) if drawn or column.head.key != DRAWN]


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
        shown = _chosen(columns, weights, drawn)
        if not shown:
            raise InputError("a histogram is drawn only in a terminal that is wide enough and shows block characters")
        return [_sheet(weights, shown, sort, top, look, format.data)]

    return Report(sheets, weights.to_dict)


def _sheet(
    weights: Weights, shown: Sequence[Field[Entry]], sort: str | None, top: int | None, look: Look, data: bool
) -> Sheet:
    entries = _sorted(weights.entries, sort or ("length" if top is not None else None))
    hidden = [] if top is None else entries[top:]
    by_layer = weights.by == "layer"
    kind = "floating-point weights, one line per layer" if by_layer else "one line per tensor"
    more = "all columns with --by tensor or --columns" if by_layer else "other columns with --columns"
    sheet = Sheet.of(
        [Field(c.head, _written(c, repr)) if data else _short(c, weights) for c in shown],
        entries[:top],
        lambda e: "unknown" if e.nan or e.infinite else "",
        about=(look.text(weights.model or "model"), kind, "population standard deviation"),
        notes=look.texts(weights.notes),
        hint=f"{more}; figures with --figures DIR" if len(entries) > 20 else "",
    )
    rest: dict[str, Value] = {
        "name": f"{look.glyphs.cut} {counted(len(hidden), f'more {weights.by}')}",
        "length": sum(e.length for e in hidden),
        "bytes": sum(e.nbytes for e in hidden),
    }
    together = Line(tuple(rest.get(c.head.key, "") for c in shown), "rest")
    return sheet._replace(lines=(*sheet.lines, together)) if hidden else sheet


def _sorted(entries: Sequence[Entry], key: str | None) -> list[Entry]:
    """The entries, the largest first; those without a value last."""
    if key is None:
        return list(entries)
    column = entry(COLUMNS, key)
    if column.head.kind == "shapes" or key == DRAWN:
        raise InputError(f"cannot sort by {key}")
    if column.head.kind == "text":
        return sorted(entries, key=lambda e: str(column.value(e)))

    def size(entry: Entry) -> float:
        value = column.value(entry)
        return value if isinstance(value, (int, float)) else -math.inf

    return sorted(entries, key=size, reverse=True)


#: Columns whose total is a figure of the model in every digit, and those that have none.
_ADDED = ("name", "length", "bytes", "zeros", "zero%", *NOT_FINITE)
_NO_TOTAL = ("op", "dtype", "shape", DRAWN, *PERCENTILES)


def _short(column: Field[Entry], weights: Weights) -> Field[Entry]:
    """A column for people: real numbers with six digits, as text, because a sheet's floats are shares and quotients."""
    head, value = column.head, _written(column, number)
    total = column.value if head.key in _ADDED else value
    return Field(
        head._replace(title=head.title.format(one=weights.by)),
        value,
        total="" if head.key in _NO_TOTAL else total(weights.total),
    )


def _written(column: Field[Entry], text: Callable[[float], str]) -> Callable[[Entry], Value]:
    """The values of a column, real numbers as text; those of tensors of integers stay integers."""

    def value(entry: Entry) -> Value:
        value = column.value(entry)
        if not isinstance(value, float) or column.head.kind != "number":
            return value
        integers = any(d.startswith(("int", "uint", "bool")) for d in entry.dtypes)
        return int(value) if integers and value.is_integer() and abs(value) < 2**53 else text(value)

    return value


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
