"""The totals of one model in several batch sizes, one column each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from flopwise.errors import InputError
from flopwise.report.report import Report
from flopwise.report.sheet.columns import cell, select
from flopwise.report.sheet.listing import about
from flopwise.report.sheet.sheet import Head, Kind, Line, Look, Sheet, Value

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

#: What is shown unless columns are asked for; the peak always is.
SHOWN = ("count", "macs", "flops", "params", "buffers", "weight_bytes", "activations", "output_bytes")

#: Key and title of a figure, and its value for each batch size.
Figure: TypeAlias = "tuple[str, str, Sequence[Value]]"


def batches_report(profiles: Sequence[Profile], sizes: Sequence[int], columns: Sequence[str] | None = None) -> Report:
    """A line for each figure and a column for each batch size; as JSON a list of profiles.

    Args:
        profiles: one for each size.
        sizes: the batch sizes.
        columns: keys of columns with figures; None for SHOWN.

    Raises:
        InputError: a column is unknown or has no total.
    """
    convention, figures = profiles[0].convention, list[Figure]()
    for column in select(columns or SHOWN):
        if column.kind not in ("number", "bytes"):
            raise InputError(f"the column {column.key!r} has no total to show for each batch size")
        if columns is None and column.key == convention.name:  # the count says it already
            continue
        title = column.head(convention).title
        figures.append((column.key, title, [cell(column, p.sum, p) for p in profiles]))
    peaks = [p.peak_activation_bytes for p in profiles]
    figures.append(("peak_activation_bytes", "peak activation bytes", peaks))
    notes = [note for p in profiles for note in p.notes]
    return figures_in_batches(profiles, sizes, figures, notes, "number", lambda: [p.to_dict() for p in profiles])


def figures_in_batches(
    profiles: Sequence[Profile],
    sizes: Sequence[int],
    figures: Sequence[Figure],
    notes: Sequence[str],
    kind: Kind,
    content: Callable[[], object],
) -> Report:
    """Lines of figures, a column for each batch size; operations are counted where these are not of bytes alone."""

    def sheet(data: bool, look: Look) -> Sheet:
        inputs = "; ".join(" ".join(look.shape(t.shape) for t in p.graph.inputs) for p in profiles)
        model, *_, convention = about(profiles[0], look, kind == "number")
        return Sheet(
            heads=(
                Head("figure", "total", "text", 0),
                *(Head(f"batch {size}", f"batch {size}", kind, 1) for size in sizes),
            ),
            lines=tuple(Line((key if data else look.text(title), *values)) for key, title, values in figures),
            about=(model, inputs, *([convention] if kind == "number" else [])),
            notes=look.texts(dict.fromkeys(notes)),
            squeeze=True,
        )

    return Report(lambda format, look: [sheet(format.data, look)], content)
