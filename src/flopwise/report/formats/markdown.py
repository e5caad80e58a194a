"""A sheet as a Markdown table (GitHub's, with pipes)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from flopwise.report.sheet.sheet import Look, Sheet, show

#: What Markdown would read as markup anywhere, and an underscore that could start or end an emphasis.
_MARKUP = re.compile(r"[\\`*|<>\[\]~&$]|(?<![^\W_])_|_(?![^\W_])")


def escape(text: str) -> str:
    r"""The text with Markdown's special characters escaped.

    >>> print(escape("a|b_c *d*"))
    a\|b_c \*d\*
    """
    return _MARKUP.sub(lambda match: "\\" + match[0], text)


def render_sheet(sheet: Sheet, look: Look) -> str:
    """The table, a line about the model above it, the total in bold, and the notes as a list."""
    look = look._replace(width=None)
    body = [[escape(show(v, h, look)) for v, h in zip(line.values, sheet.heads, strict=True)] for line in sheet.lines]
    if sheet.total:
        total = [show(v, h, look) for v, h in zip(sheet.total.values, sheet.heads, strict=True)]
        body.append([f"**{escape(text)}**" if text else "" for text in total])
    lines: list[str] = []
    if look.header:
        lines += [look.glyphs.dot.join(map(escape, sheet.about)), ""]
        lines += [_row([escape(h.title) for h in sheet.heads])]
        lines += [_row(["--:" if h.right else ":--" for h in sheet.heads])]
    lines += map(_row, body)
    if sheet.notes:
        lines += ["", *(f"- {escape(note)}" for note in sheet.notes)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
