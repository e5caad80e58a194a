"""A report of tables as one HTML page: they sort and filter; figures and notes stand above and below them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flopwise._results import Json, fields
from flopwise.report.html.page import Layout, page

if TYPE_CHECKING:
    from flopwise.report.sheet.sheet import Line, Sheet
    from flopwise.report.sheet.values import Look

LAYOUT = Layout(
    folder="sheet",
    sections={"summary": "Summary", "tables": "Tables"},
    scripts="tables",
    styles=("bound/page.css", "sheet/page.css"),
)


def render_sheets(sheets: Sequence[Sheet], look: Look) -> str:
    """The page of a report's sheets, one below the other."""
    look = look._replace(width=None)
    about = next((sheet.about for sheet in sheets if sheet.about), ("report",))
    data = {"title": about[0], "sheets": [_sheet(sheet, look) for sheet in sheets]}
    return page(LAYOUT, f"{about[0]} – flopwise", data)


def _sheet(sheet: Sheet, look: Look) -> Json:
    """A sheet as texts; numbers stand at the right."""

    def cells(line: Line) -> list[str]:
        return sheet.texts(line, look)

    return {
        **fields(sheet, "verdict about summary"),
        "heads": [[head.title, head.right, head.prose] for head in sheet.heads],
        "lines": [[cells(line), line.mark, len(line.indent)] for line in sheet.lines],
        "total": cells(sheet.total) if sheet.total else None,
        "notes": sheet.notes,
    }
