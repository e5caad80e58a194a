"""A sheet as a Markdown table (GitHub's, with pipes)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from flopwise.report.sheet.sheet import Look, Sheet

#: What Markdown would read as markup anywhere, and an underscore that could start or end an emphasis.
_MARKUP = re.compile(r"[\\`*|<>\[\]~&$]|(?<![^\W_])_|_(?![^\W_])")


#: What GitHub makes links of and notifies people for, which no backslash prevents: mentions and addresses, numbers of
#: issues, commits, and URLs. With all around it that may stand in code.
_LIVE = re.compile(r"@[\w-]|\#\d|\bGH-\d|://|\bwww\.|\b[0-9a-f]{40}\b", re.IGNORECASE)
_WORD = re.compile(r"[^\s\\`|]+")

#: What begins a heading, a list, a quotation or a rule at the start of a paragraph.
_BEGINNING = re.compile(r"([#>+=-]|\d+(?=[.)]))")


def escape(text: str) -> str:
    r"""The text with Markdown's special characters escaped, and what GitHub would link as code.

    >>> print(escape("a|b_c *d*"), escape("fix #1 of @who"))
    a\|b_c \*d\* fix `#1` of `@who`
    """
    if not _LIVE.search(text):
        return _escape(text)
    parts, end = [], 0
    for word in _WORD.finditer(text):
        if _LIVE.search(text, word.start(), word.end()):
            parts += [_escape(text[end : word.start()]), f"`{word[0]}`"]
            end = word.end()
    return "".join([*parts, _escape(text[end:])])


def _escape(text: str) -> str:
    return _MARKUP.sub(lambda match: "\\" + match[0], text)


def paragraph(text: str) -> str:
    r"""The same where a paragraph or an item of a list begins.

    >>> print(paragraph("# x"), paragraph("1. y"), paragraph("1.5 MB"))
    \# x 1\. y 1\.5 MB
    """
    escaped = escape(text.strip())
    begins = _BEGINNING.match(escaped)
    if begins is None:
        return escaped
    place = begins.end() if begins[0].isdigit() else 0
    return f"{escaped[:place]}\\{escaped[place:]}"


def render_sheet(sheet: Sheet, look: Look) -> str:
    """The table, a line about the model above it, the total in bold, and the notes as a list."""
    look = look._replace(width=None)
    body = [list(map(escape, sheet.texts(line, look))) for line in sheet.lines]
    if sheet.total:
        body.append([f"**{escape(text)}**" if text else "" for text in sheet.texts(sheet.total, look)])
    lines: list[str] = []
    if look.header:
        lines += [f"**{paragraph(sheet.verdict)}**", ""] if sheet.verdict else []
        lines += [paragraph(look.glyphs.dot.join(sheet.about)), ""]
        lines += [_row([escape(h.title) for h in sheet.heads])] if sheet.heads else []
        lines += [_row(["--:" if h.right else ":--" for h in sheet.heads])] if sheet.heads else []
    lines += map(_row, body)
    if sheet.notes:
        lines += ["", *(f"- {paragraph(note)}" for note in sheet.notes)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
