"""The weights of a model as a table: one line for each layer or tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flopwise.analyses.weights.result import PERCENTILES, Entry, Histogram
from flopwise.errors import InputError, counted
from flopwise.report.commands.weights_columns import Column, chosen, column
from flopwise.report.formats.format import Format
from flopwise.report.report import Report
from flopwise.report.sheet.columns import Value
from flopwise.report.sheet.sheet import Head, Line, Look, Sheet

if TYPE_CHECKING:
    from flopwise.analyses.weights.result import Weights

#: Heights of a bar in eighths of a line; the lowest is that of a bin with few elements, a space that of none.
BARS = " ▁▂▃▄▅▆▇█"

#: Bars of an inline histogram; a terminal of fewer cells than NARROW has none.
CELLS, NARROW = 20, 76


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
    lines = [Line(tuple(_cell(c, entry, look, data) for c in shown), _mark(entry)) for entry in entries]
    if len(entries) < len(every) and not data:
        rest = every[len(entries) :]
        values: dict[str, Value] = {
            "name": f"{look.glyphs.cut} {counted(len(rest), f'more {weights.by}')}",
            "length": sum(e.length for e in rest),
            "bytes": sum(e.nbytes for e in rest),
        }
        lines.append(Line(tuple(values.get(c.key, "") for c in shown), "rest"))
    return Sheet(
        heads=tuple(Head(c.key, c.title.format(one=weights.by), c.kind, c.rank) for c in shown),
        lines=tuple(lines),
        total=Line(tuple(_total(c, weights.total, look) for c in shown)),
        about=_about(weights, look),
        notes=tuple(look.text(note) for note in weights.notes),
        hint=_hint(weights) if len(every) > 20 else "",
        complete=True,
    )


def _hint(weights: Weights) -> str:
    more = "all columns with --by tensor or --columns" if weights.by == "layer" else "other columns with --columns"
    return f"{more}; figures with --figures DIR"


def _about(weights: Weights, look: Look) -> tuple[str, ...]:
    what = "floating-point weights, one line per layer" if weights.by == "layer" else "one line per tensor"
    return (look.text(weights.model or "model"), what, "population standard deviation")


def _sorted(entries: Sequence[Entry], key: str | None) -> list[Entry]:
    """The entries, the largest first; those without a value last."""
    if key is None:
        return list(entries)
    by = column(key)
    if key in ("name", "op", "dtype"):
        return sorted(entries, key=by.of)

    def value(entry: Entry) -> float:
        value = by.of(entry)
        return value if isinstance(value, (int, float)) else -math.inf

    if key in ("shape", "histogram"):
        raise InputError(f"cannot sort by {key}")
    return sorted(entries, key=value, reverse=True)


def _mark(entry: Entry) -> Any:
    return "unknown" if entry.nan or entry.infinite else ""


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
