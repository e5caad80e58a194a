"""The totals of one model in several batch sizes, one column each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flopwise.errors import InputError
from flopwise.report.formats import json, writers
from flopwise.report.sheet.columns import Value, cell, select
from flopwise.report.sheet.sheet import Head, Line, Look, Sheet, about, shape_text

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile
    from flopwise.report.commands.memory import Memory

FORMATS = (*writers.SHEET_FORMATS, "json")

#: What is shown unless columns are asked for; the peak always is.
SHOWN = ("count", "macs", "flops", "params", "buffers", "weight_bytes", "activations", "output_bytes")


def render_batches(
    profiles: Sequence[Profile],
    sizes: Sequence[int],
    format: str = "table",
    columns: Sequence[str] | None = None,
    look: Look | None = None,
) -> str:
    """A line for each figure and a column for each batch size; as JSON a list of profiles.

    Args:
        profiles: one for each size.
        sizes: the batch sizes.
        format: a name from FORMATS.
        columns: keys of columns with figures; None for SHOWN.
        look: how it should look.

    Raises:
        InputError: the format or a column is unknown, or a column has no total.
    """
    look = look or Look()
    if format == "json":
        return json.dump([p.to_dict() for p in profiles])
    convention = profiles[0].convention
    lines = []
    for column in select(columns or SHOWN):
        if column.kind not in ("number", "bytes"):
            raise InputError(f"the column {column.key!r} has no total to show for each batch size")
        if columns is None and column.key == convention.name:  # the count says it already
            continue
        title = column.title.format(unit=convention.unit, convention=convention.name, one="", kind="")
        figures = [cell(column, p.sum, p) for p in profiles]
        lines.append(Line((column.key if format == "csv" else look.text(title), *figures)))
    peaks: list[Value] = [p.peak_activation_bytes for p in profiles]
    lines.append(Line(("peak_activation_bytes" if format == "csv" else "peak activation bytes", *peaks)))
    notes = tuple(dict.fromkeys(note for p in profiles for note in p.notes))
    return writers.write(_sheet(profiles, sizes, lines, notes, look, counted=True), format, look, FORMATS)


def render_memory_batches(
    memories: Sequence[Memory], sizes: Sequence[int], format: str = "table", look: Look | None = None
) -> str:
    """A line for each figure of a model's memory and a column for each batch size; as JSON a list of reports.

    Args:
        memories: one for each size.
        sizes: the batch sizes.
        format: a name from FORMATS.
        look: how it should look.

    Raises:
        InputError: the format is unknown.
    """
    from flopwise.report.commands.memory import content, totals

    look = look or Look()
    if format == "json":
        return json.dump([content(memory) for memory in memories])
    found = [totals(memory) for memory in memories]
    lines = [
        Line((same[0][0] if format == "csv" else look.text(same[0][1]), *(value for _, _, value in same)))
        for same in zip(*found, strict=True)
    ]
    notes = tuple(dict.fromkeys(note for memory in memories for note in (*memory.notes, *memory.profile.notes)))
    sheet = _sheet([memory.profile for memory in memories], sizes, lines, notes, look, counted=False)
    return writers.write(sheet, format, look, FORMATS)


def _sheet(
    profiles: Sequence[Profile],
    sizes: Sequence[int],
    lines: Sequence[Line],
    notes: Sequence[str],
    look: Look,
    counted: bool,
) -> Sheet:
    """Lines of figures, a column for each batch size; of bytes alone unless operations are counted."""
    inputs = "; ".join(" ".join(shape_text(t.shape, look) for t in p.graph.inputs) for p in profiles)
    told = about(profiles[0], look, counted)
    return Sheet(
        heads=(
            Head("figure", "total", "text", 0),
            *(Head(f"batch {size}", f"batch {size}", "number" if counted else "bytes", 1) for size in sizes),
        ),
        lines=tuple(lines),
        about=(told[0], inputs, *([told[-1]] if counted else [])),
        notes=tuple(look.text(note) for note in notes),
        squeeze=True,
        complete=True,
    )
