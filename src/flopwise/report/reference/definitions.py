"""A sheet of few short cells and one long one, as paragraphs that fit a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.report.formats.table import paint
from flopwise.report.sheet.sheet import Look, Sheet, show
from flopwise.report.sheet.text import wrap

INDENT = "    "


def render_sheet(sheet: Sheet, look: Look) -> str:
    """For each line its first cell and the short ones after it, and below them the long cells, wrapped and indented."""
    return "\n".join(_lines(sheet, look)) + "\n"


def _lines(sheet: Sheet, look: Look) -> Iterator[str]:
    if look.header:
        for part in sheet.about:
            yield from wrap(part, look.width)
        if sheet.about:
            yield ""
    for line in sheet.lines:
        cells = [(head, show(value, head, look)) for head, value in zip(sheet.heads, line.values, strict=True)]
        (_, title), *rest = cells
        short = [text for head, text in rest if text and not head.prose]
        yield paint(title, "bold", look) + (f"  {look.glyphs.dot.join(short)}" if short else "")
        for head, text in rest:
            if head.prose and text:
                room = None if look.width is None else max(look.width - len(INDENT), len(INDENT))
                yield from (INDENT + piece for piece in wrap(text, room, INDENT))
    for note in sheet.notes:
        yield from wrap(note, look.width)
