"""A profile or a sheet as Parquet, for data frames: numbers as 64-bit integers or floats, what is unknown as null."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flopwise.profiles.arrow import arrow, as_parquet, parquet, printable, stacked
from flopwise.report.formats.csv import plain
from flopwise.report.sheet.sheet import Head, Look, Sheet, Value

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile
    from flopwise.report.sheet.listing import Choice


def render_profile(profile: Profile, choice: Choice, look: Look) -> bytes:
    """One line for each layer in the columns of the JSON schema, independent of what a table would show.

    Raises:
        InputError: pyarrow is missing, or a figure does not fit into 64 bits.
    """
    return parquet(profile.to_dict())


def render_sheet(sheet: Sheet, look: Look) -> bytes:
    """The lines of the sheet under the keys of its columns.

    Raises:
        InputError: pyarrow is missing, or a figure does not fit into 64 bits.
    """
    columns = list(zip(*(line.values for line in sheet.lines), strict=True)) or [()] * len(sheet.heads)
    return as_parquet({h.key: _column(h, values, look) for h, values in zip(sheet.heads, columns, strict=True)})


def _column(head: Head, values: Sequence[Value], look: Look) -> tuple[list[Value], Any]:
    """The cells of a column, and its type for Arrow: a number unless one of them is text."""
    pa = arrow()
    if not (head.right and all(value is None or value == "" or isinstance(value, int | float) for value in values)):
        return [None if value is None else printable(plain(value, look)) for value in values], pa.string()
    real = any(isinstance(value, float) for value in values)
    return [None if value == "" else value for value in values], pa.float64() if real else pa.int64()


def stack(parts: Sequence[tuple[str, bytes]]) -> bytes:
    """The files of several profiles as one, with a column ``model`` for the path of each."""
    return stacked(parts)
