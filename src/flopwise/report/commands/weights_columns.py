"""The columns of a report on weights: one list, whatever the format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flopwise.analyses.weights.result import PERCENTILES, Entry
from flopwise.errors import InputError, did_you_mean
from flopwise.report.sheet.columns import Kind


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its key for programs, its title for people, and how it gives way where a table is too wide."""

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
    wanted = list(keys) if keys is not None else list(SHOWN[by])
    if keys is None:
        wanted = [key for key in wanted if key not in ("nan", "infinite")]
        strange = [key for key in ("nan", "infinite") if getattr(total, key)]
        at = wanted.index("histogram")
        wanted[at:at] = strange
    columns = [column(key) for key in wanted]
    return columns if drawn else [c for c in columns if c.key not in DRAWN]


def column(key: str) -> Column:
    """The column of that key.

    Raises:
        InputError: there is none.
    """
    if key not in COLUMNS:
        raise InputError(f"unknown column {key!r}{did_you_mean(key, COLUMNS) or ';'} known: {', '.join(COLUMNS)}")
    return COLUMNS[key]
