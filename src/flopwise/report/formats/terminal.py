"""Text in a terminal: how many cells it takes, how it is shortened, filled, wrapped and painted."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from flopwise.report.sheet.values import UNICODE, Look

#: How lines and cells are set apart: ECMA-48 "select graphic rendition" codes, in the terminal's own colours.
COLORS = {"heavy": "33", "unknown": "31", "rest": "2", "dim": "2", "bold": "1"}


def paint(text: str, how: str, look: Look) -> str:
    """The text in the terminal's colour for ``how``, a key of COLORS, where colour is wanted."""
    return f"\x1b[{COLORS[how]}m{text}\x1b[0m" if look.color and how and text else text


def cells(text: str) -> int:
    """The terminal cells that the text takes: East Asian wide characters take two, combining marks none."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _start(text: str, width: int) -> str:
    """The longest beginning of the text that takes at most ``width`` cells."""
    if text.isascii():
        return text[: max(width, 0)]
    taken = 0
    for position, character in enumerate(text):
        taken += _cells(character)
        if taken > width:
            return text[:position]
    return text


def shorten(text: str, width: int, cut: str = UNICODE.cut, start: bool = True) -> str:
    """The text in at most ``width`` cells, its middle left out, or its ``start``: names differ at their ends.

    >>> shorten("/model/layers.11/mlp/down_proj/MatMul", 24)
    '/model/la…wn_proj/MatMul'
    >>> shorten("/model/layers.11/mlp/down_proj/MatMul", 24, start=False)
    '…11/mlp/down_proj/MatMul'
    """
    if cells(text) <= width:
        return text
    room = width - len(cut)
    if room < 2:
        return _start(text, width)
    head = room * 2 // 5 if start else 0
    return _start(text, head) + cut + _start(text[::-1], room - head)[::-1]


def pad(text: str, width: int, right: bool = False) -> str:
    """The text filled with spaces to ``width`` cells; a longer text stays as it is."""
    space = " " * (width - cells(text))
    return space + text if right else text + space


def widest(rows: Iterable[Sequence[str]]) -> list[int]:
    """The cells that each column of a table takes; [] without rows."""
    return [max(map(cells, column)) for column in zip(*rows, strict=True)]


def aligned(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool], cut: str | None = None) -> list[str]:
    """A line's texts, each filled to the width of its column.

    Args:
        texts: one for each column.
        widths: of the columns, in cells.
        right: for each column whether its texts stand at the right; those are never shortened.
        cut: what stands for the middle of a text that is too long; None to leave it whole.
    """
    return [
        pad(text if at_right or cut is None else shorten(text, width, cut), width, at_right)
        for text, width, at_right in zip(texts, widths, right, strict=True)
    ]


def wrap(text: str, width: int | None, indent: str = "  ") -> Iterator[str]:
    """The text in lines of at most ``width`` cells, the second and later ones indented."""
    if width is None or cells(text) <= width:
        yield text
        return
    line, lead = "", ""
    for word in text.split(" "):
        if line and cells(lead) + cells(line) + 1 + cells(word) <= width:
            line += " " + word
            continue
        if line:
            yield lead + line
            lead = indent
        while cells(word) > max(width - len(lead), 2):  # a word of several lines
            part = _start(word, max(width - len(lead), 2))
            yield lead + part
            word, lead = word[len(part) :], indent
        line = word
    yield lead + line
