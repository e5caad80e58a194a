"""A profile or a sheet as Parquet, for data frames: numbers as 64-bit integers or floats, what is unknown as null."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flopwise.profiles.arrow import arrow, as_parquet, parquet, printable, stacked
from flopwise.report.formats.csv import plain
from flopwise.report.sheet.sheet import Look, Sheet

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
    """The lines of the sheet under the keys of its columns; no total, so that columns can be added up.

    Raises:
        InputError: pyarrow is missing, or a figure does not fit into 64 bits.
    """
    pa = arrow()
    lines = [line.values for line in sheet.lines if line.mark != "rest"]
    columns = list(zip(*lines, strict=True)) or [()] * len(sheet.heads)
    named = {}
    for head, values in zip(sheet.heads, columns, strict=True):
        number = head.right and all(value is None or value == "" or isinstance(value, int | float) for value in values)
        real = number and any(isinstance(value, float) for value in values)
        cells: list[Any] = [None if value is None or value == "" else value for value in values]
        if not number:
            cells = [None if value is None else printable(plain(value, look)) for value in values]
        kind = pa.float64() if real else pa.int64() if number else pa.string()
        named[head.key] = (cells, kind)
    return as_parquet(named)


def stack(parts: Sequence[tuple[str, bytes]]) -> bytes:
    """The files of several profiles as one, with a column ``model`` for the path of each."""
    return stacked(parts)
