"""A JSON document that flopwise has written, here or on another machine, as tables again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from flopwise._results import Json
from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Figure, Head, Line, Sheet, figure
from flopwise.report.sheet.values import Look, Value

#: Cells of a table for each value that it shows, at most, and cells that any table may have.
_SPARSE, _FEW = 16, 1 << 16


def document_report(document: Json, name: str) -> Report:
    """The document: its single figures, and a table for each of its lists.

    Args:
        document: plain values, with the key ``schema``.
        name: what to call it.
    """
    return Report(lambda format, look: _sheets(document, name, look), lambda: document)


def _sheets(document: Json, name: str, look: Look) -> list[Sheet]:
    lists = {key: value for key, value in document.items() if isinstance(value, list)}
    figures = tuple(_figures({key: value for key, value in document.items() if key not in lists}, look))
    notes = tuple(look.text(str(note)) for note in lists.pop("notes", ()))
    first = Sheet((), (), about=(look.text(name), look.text(str(document["schema"]))), summary=figures, notes=notes)
    return [first, *(_table(key, items, look) for key, items in lists.items() if items)]


def _figures(values: Json, look: Look, around: str = "") -> Iterator[Figure]:
    """Each single value with its key, and the keys around it."""
    for key, value in values.items():
        title = f"{around}{key}".replace("_", " ")
        if isinstance(value, dict):
            yield from _figures(value, look, f"{title}: ")
        else:
            plain = isinstance(value, int) and not isinstance(value, bool)
            yield figure(title, value if plain or value is None else _text(value), "", look)


def _table(key: str, items: Sequence[object], look: Look) -> Sheet:
    """A line for each item of a list; an item that is no object is a line of one cell."""
    lines = [item if isinstance(item, dict) else {key: item} for item in items]
    keys = dict.fromkeys(key for line in lines for key in line)
    if len(keys) * len(lines) > _SPARSE * sum(map(len, lines)) + _FEW:  # hardly any item has the keys of another
        lines, keys = [{key: _text(item)} for item in items], {key: None}
    heads = tuple(Head(key, key.replace("_", " "), "number" if _numbers(lines, key) else "text") for key in keys)
    rows = (tuple(_cell(line.get(head.key), head, look) for head in heads) for line in lines)
    return Sheet(heads, tuple(map(Line, rows)), about=(look.text(key.replace("_", " ")),))


def _numbers(lines: Sequence[Json], key: str) -> bool:
    """True where every value of a column is a number or unknown."""
    values = [line.get(key) for line in lines]
    return all(value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)) for value in values)


def _cell(value: Any, head: Head, look: Look) -> Value:
    return value if head.right else "" if value is None else look.text(_text(value))


def _text(value: object) -> str:
    """A value that is no number: a shape as in the reports, other lists and objects as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(size, int) for size in value):
        return "x".join(map(str, value))
    return json.dumps(value, ensure_ascii=False)
