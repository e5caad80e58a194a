"""A sheet as comma-separated values: for programs, so every number is a plain integer, and what is unknown is empty."""

from __future__ import annotations

import csv
import io
import re

from flopwise.report.sheet.sheet import Look, Sheet, Value

#: What a spreadsheet would take for the beginning of a formula: https://owasp.org/www-community/attacks/CSV_Injection.
#: Some take full-width and small forms of these for the same, and look past spaces and quotes.
FORMULA = re.compile(r"""[\s"]*[-=+@\t\r\u2212\uff0b\uff0d\uff1d\uff20\ufe62\ufe63\ufe66\ufe6b]""")

#: Programs read shapes such as 1x3x224x224.
SHAPES = Look(ascii=True)


def render_sheet(sheet: Sheet, look: Look) -> str:
    """The lines under a line with the keys of the columns.

    Several shapes in a cell are separated by "; ". An apostrophe stands before a text that a spreadsheet would take for
    a formula.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if look.header:
        writer.writerow([inert(look.text(h.key)) for h in sheet.heads])
    writer.writerows([inert(plain(v, look)) for v in line.values] for line in sheet.lines)
    return out.getvalue()


def inert(text: str) -> str:
    """The text with an apostrophe before what would be a formula in a spreadsheet; numbers stay as they are.

    >>> inert("=1+1"), inert("conv1"), inert("-0.5")
    ("'=1+1", 'conv1', '-0.5')
    """
    return f"'{text}" if FORMULA.match(text) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        return float(text) is not None
    except ValueError:
        return False


def plain(value: Value, look: Look) -> str:
    """A value as text that programs read; "" where it is unknown."""
    if isinstance(value, tuple):
        return "; ".join(SHAPES.shape(shape) for shape in value)
    if isinstance(value, float):
        return f"{value:.4f}"
    return "" if value is None else look.text(str(value))
