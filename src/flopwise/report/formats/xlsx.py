"""A sheet as an Excel workbook: the cells of CSV, with numbers as numbers and no text as a formula."""

from __future__ import annotations

import datetime
import io
from typing import Any

from flopwise.errors import InputError
from flopwise.report.formats.csv import inert, plain
from flopwise.report.sheet.sheet import Look, Sheet

#: Spreadsheets keep numbers as floats of 64 bits: an integer beyond this loses digits, and is written as text.
EXACT = 2**53

#: Columns are as wide as their longest cell, and at most so many characters.
WIDEST = 60

#: A date that is the same in each file, so that equal reports are equal files.
CREATED = datetime.datetime(2000, 1, 1)


def render_sheet(sheet: Sheet, look: Look) -> bytes:
    """The lines under a line with the keys of the columns, which stays in view and filters.

    Raises:
        InputError: xlsxwriter is missing.
    """
    try:
        import xlsxwriter
    except ImportError:
        raise InputError("Excel workbooks need xlsxwriter: pip install 'flopwise[xlsx]'") from None

    out = io.BytesIO()
    with xlsxwriter.Workbook(out, {"in_memory": True}) as book:
        book.set_properties({"created": CREATED})
        page: Any = book.add_worksheet("flopwise")
        rows: list[list[Any]] = [[head.key for head in sheet.heads]] if look.header else []
        rows += [list(line.values) for line in sheet.lines]
        for y, row in enumerate(rows):
            for x, value in enumerate(row):
                if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= EXACT:
                    page.write_number(y, x, value)
                elif text := inert(plain(value, look)):
                    page.write_string(y, x, text)
        if look.header:
            page.freeze_panes(1, 0)
            page.autofilter(0, 0, max(len(rows) - 1, 0), max(len(sheet.heads) - 1, 0))
        page.autofit(WIDEST * 7)  # in pixels, of about seven for each character
    return out.getvalue()
