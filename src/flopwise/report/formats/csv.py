"""A sheet as comma-separated values: for programs, so every number is a plain integer, and what is unknown is empty."""

from __future__ import annotations

import csv
import io

from flopwise.report.sheet.columns import Value
from flopwise.report.sheet.sheet import Look, Sheet, shape_text

#: What a spreadsheet would take for the beginning of a formula: https://owasp.org/www-community/attacks/CSV_Injection.
FORMULA = ("=", "+", "-", "@", "\t", "\r")

#: Programs read shapes such as 1x3x224x224.
SHAPES = Look(ascii=True)


def render_sheet(sheet: Sheet, look: Look) -> str:
    """One line for each row, under a line with the keys of the columns; no total, so that columns can be added up.

    Several shapes in a cell are separated by "; ". Of a top only the rows themselves are written. An apostrophe stands
    before a text that a spreadsheet would take for a formula.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if look.header:
        writer.writerow([inert(h.key) for h in sheet.heads])
    writer.writerows([inert(plain(v, look)) for v in line.values] for line in sheet.lines if line.mark != "rest")
    return out.getvalue()


def inert(text: str) -> str:
    """The text with an apostrophe before what would be a formula in a spreadsheet; numbers stay as they are.

    >>> inert("=1+1"), inert("conv1"), inert("-0.5")
    ("'=1+1", 'conv1', '-0.5')
    """
    return f"'{text}" if text.startswith(FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        return float(text) is not None
    except ValueError:
        return False


def plain(value: Value, look: Look) -> str:
    """A value as text that programs read; "" where it is unknown."""
    if isinstance(value, tuple):
        return "; ".join(shape_text(shape, SHAPES) for shape in value)
    if isinstance(value, float):
        return f"{value:.4f}"
    return "" if value is None else look.text(str(value))
