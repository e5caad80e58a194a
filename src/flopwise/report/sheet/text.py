"""Text for people: what a name may contain, how wide it is, how it is shortened and wrapped, which glyphs are drawn."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from flopwise.errors import escaped


class Glyphs(NamedTuple):
    """The characters a report draws with, besides names."""

    times: str = "×"
    at_least: str = "≥ "
    cut: str = "…"
    dot: str = " · "
    rule: str = "─"
    pipe: str = "│  "
    tee: str = "├─ "
    corner: str = "└─ "


UNICODE = Glyphs()
ASCII = Glyphs(times="x", at_least=">= ", cut="...", dot=", ", rule="-", pipe="|  ", tee="|- ", corner="`- ")


def ascii_only(text: str) -> str:
    """The text with characters outside ASCII shown as escapes, and x for ×."""
    text = text.replace(UNICODE.times, ASCII.times)
    return text if text.isascii() else "".join(c if c.isascii() else escaped(c) for c in text)


def cells(text: str) -> int:
    """How many terminal cells the text takes: East Asian wide characters take two, combining marks none."""
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
