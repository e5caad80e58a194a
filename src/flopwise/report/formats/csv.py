"""A sheet as comma-separated values: for programs, so every number is a plain integer, and what is unknown is empty."""

from __future__ import annotations

import csv
import io

from flopwise.report.sheet.columns import Value
from flopwise.report.sheet.sheet import Look, Sheet, shape_text

#: Programs read shapes such as 1x3x224x224.
SHAPES = Look(ascii=True)


def render_sheet(sheet: Sheet, look: Look) -> str:
    """One line for each row, under a line with the keys of the columns; no total, so that columns can be added up.

    Several shapes in a cell are separated by "; ". Of a top only the rows themselves are written.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if look.header:
        writer.writerow([h.key for h in sheet.heads])
    writer.writerows([plain(v, look) for v in line.values] for line in sheet.lines if line.mark != "rest")
    return out.getvalue()


def plain(value: Value, look: Look) -> str:
    """A value as text that programs read; "" where it is unknown."""
    if isinstance(value, tuple):
        return "; ".join(shape_text(shape, SHAPES) for shape in value)
    if isinstance(value, float):
        return f"{value:.4f}"
    return "" if value is None else look.text(str(value))
