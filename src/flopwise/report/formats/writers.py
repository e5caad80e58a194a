"""The formats that write a sheet; each file is imported when its format is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from flopwise.errors import InputError
from flopwise.report.sheet.sheet import Look, Sheet

#: Formats that write any sheet: the file of that name in this package has ``write(sheet, look)``.
SHEET_FORMATS: tuple[str, ...] = ("table", "markdown", "csv", "latex")


def write(sheet: Sheet, format: str, look: Look, known: Sequence[str] = SHEET_FORMATS) -> str:
    """The sheet in a format.

    Args:
        sheet: what to write.
        format: one of SHEET_FORMATS.
        look: how it should look.
        known: all formats that the caller has, for the error.

    Raises:
        InputError: no format of that name writes sheets.
    """
    if format not in SHEET_FORMATS:
        raise InputError(f"unknown format {format!r}; known: {', '.join(known)}")
    text: str = import_module(f"flopwise.report.formats.{format}").write(sheet, look)
    return text
