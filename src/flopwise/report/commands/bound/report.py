"""The report of a bound: its table, the table of what-ifs, and what the page draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flopwise.analyses.timing.engine import what_ifs
from flopwise.errors import InputError, counted
from flopwise.report.commands.bound.columns import (
    COLUMNS,
    DEFAULT,
    MEASURED,
    NO_TOTAL,
    Item,
    column_named,
    items_of,
    mark_of,
    order,
)
from flopwise.report.commands.bound.content import content
from flopwise.report.commands.bound.summary import device_text, summary_of
from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Head, Line, Look, Sheet, model_name

#: Grouping -> what a line is.
NOUNS = {"layer": "layer", "op": "operator"}

if TYPE_CHECKING:
    from flopwise.analyses.timing.bound import Bound
    from flopwise.report.formats.format import Format


def bound_report(
    bound: Bound,
    by: str = "layer",
    columns: Sequence[str] | None = None,
    sort: str | None = None,
    top: int | None = None,
    what_if: bool = False,
    workers: int = 2,
) -> Report:
    """The floors of a model; their JSON always holds all rows.

    Args:
        bound: what to write.
        by: one line for each "layer" or "op".
        columns: keys of columns; None for what suits the grouping.
        sort: key of the column to sort by, the largest first; None for the order of execution.
        top: how many lines to show, those with the largest roofline unless ``sort`` says otherwise.
        what_if: whether other ways are shown below: fused, parallel, at other levels.
        workers: how many nodes run at once in one of them.

    Raises:
        InputError: the grouping or a column is unknown.
    """
    if by not in DEFAULT:
        raise InputError(f"cannot group by {by!r}; choose layer or op")
    for key in (*(columns or ()), *([sort] if sort else ())):
        column_named(key)
    shown = (MEASURED if bound.engine is not None else DEFAULT)[by].split()

    def sheet(data: bool, look: Look) -> Sheet:
        chosen = [column_named(key) for key in columns or (tuple(COLUMNS) if data else shown)]
        items = items_of(bound, by)
        if sort or top or by == "op":
            key = column_named(sort or ("time" if bound.engine is not None else "roofline"))
            items.sort(key=lambda item: order(key.value(item, bound)))
        first, rest = items[:top], items[top:] if top else []
        lines = [Line(tuple(c.value(i, bound) for c in chosen), mark_of(i)) for i in first]
        if rest:
            left = Item(
                f"{look.glyphs.cut} {counted(len(rest), f'more {NOUNS[by]}')}",
                "",
                tuple(row for item in rest for row in item.rows),
            )
            lines.append(Line(tuple(c.value(left, bound) for c in chosen), "rest"))
        whole = Item("Total", "", bound.rows)
        total = Line(tuple("" if c.head.key in NO_TOTAL else c.value(whole, bound) for c in chosen))
        return Sheet(
            heads=tuple(c.head for c in chosen),
            lines=tuple(lines),
            total=total,
            about=(model_name(bound.profile, look), look.text(device_text(bound))),
            summary=tuple(summary_of(bound, look)),
            notes=tuple(look.text(note) for note in bound.notes),
        )

    plain = Look()
    drawn = (bound, model_name(bound.profile, plain), device_text(bound), tuple(summary_of(bound, plain)))

    def sheets(format: Format, look: Look) -> list[Sheet]:
        first = sheet(format.data, look)
        return [first, _what_if_sheet(bound, workers, look)] if what_if and not format.data else [first]

    return Report(sheets, lambda: content(bound, workers if what_if else None), {"bound": drawn})


def _what_if_sheet(bound: Bound, workers: int, look: Look) -> Sheet:
    """Other ways for the model, beside the engine's floor and the measured time."""
    base = bound.engine.hot_ns if bound.engine else 0.0
    return Sheet(
        heads=(
            Head("what", "what if", "text", 0, prose=True),
            Head("ms", "ms", "ratio", 1),
            Head("ratio", "of the floor", "ratio", 2),
            Head("kind", "is", "text", 1),
        ),
        lines=tuple(
            Line((look.text(each.what), each.ns / 1e6, each.ns / base if base else "", each.kind))
            for each in what_ifs(bound, workers)
        ),
        notes=() if bound.engine else ("what-ifs need a measured model: flopwise bench",),
        complete=True,
    )
