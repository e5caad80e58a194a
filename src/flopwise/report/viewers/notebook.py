"""Profiles and comparisons as small HTML tables for notebooks: no scripts, no style sheet, every text escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flopwise.report.sheet.columns import Value
from flopwise.report.sheet.listing import Choice, listing
from flopwise.report.sheet.sheet import Figure, Head, Line, Look, Sheet, is_gap, model_name, shape_text, show
from flopwise.report.sheet.units import TITLES, human

if TYPE_CHECKING:
    from flopwise.analyses.compare.comparison import Comparison
    from flopwise.profiles.profile import Profile

#: So many layers are shown, those that cost most, where there are more than LONG.
TOP, LONG = 12, 30

_LOOK = Look(human=True)
_EXACT = Look()

#: What a comparison shows.
_COMPARED = ("count", "macs", "params", "weight_bytes", "peak_activation_bytes")


def profile_html(profile: Profile) -> str:
    """The totals and the layers; for a long model, the heaviest layers and the rest as one line."""
    top = TOP if len(profile.rows) > LONG else None
    sheet = listing(profile, Choice(columns="name,op,outputs,params,macs,count,count%", top=top), _LOOK, "document")
    return _whole(sheet.about, [_figures(sheet.summary), _table(sheet, _LOOK)], sheet.notes)


def comparison_html(comparison: Comparison) -> str:
    """The totals of the models side by side, with the differences from the first in percent."""
    about = []
    for label, profile in zip(comparison.labels, comparison.profiles, strict=True):
        inputs = ", ".join(f"{t.name} {shape_text(t.shape, _EXACT)}" for t in profile.graph.inputs) or "no inputs"
        convention = profile.convention
        about.append(
            f"{label}: {model_name(profile, _EXACT)}, {inputs}, convention {convention.name} ({convention.unit})"
        )
    heads = [Head("figure", "", "text"), *(Head(str(i), n, "text") for i, n in enumerate(comparison.labels))]
    lines = []
    for figure in _COMPARED:
        values = comparison.total(figure)
        least = [] if figure == "peak_activation_bytes" else [not exact for exact in comparison.exact(figure)]
        units = dict.fromkeys(p.convention.unit for p in comparison.profiles)
        cells: list[Value] = [TITLES.get(figure) or " / ".join(units)]
        for index, value in enumerate(values):
            cells.append(_compared(value, values[0], figure, index, bool(least) and least[index]))
        lines.append(Line(tuple(cells)))
    notes = tuple(dict.fromkeys(note for p in comparison.profiles for note in p.notes))
    return _whole(tuple(about), [_table(Sheet(tuple(heads), tuple(lines)), _EXACT, right=True)], notes)


def _compared(value: Value, first: Value, figure: str, index: int, least: bool) -> str:
    """A figure and, for later models, the difference from the first."""
    if not isinstance(value, int):
        return "?" if value is None else str(value)
    text = ("≥ " if least else "") + human(value, "B" if figure.endswith("bytes") else "")
    if not index or not isinstance(first, int) or not first:
        return text
    return f"{text} ({100 * (value - first) / first:+.1f} %)"


def _whole(about: Sequence[str], parts: Sequence[str], notes: Sequence[str]) -> str:
    above = [f"<div><b>{_text(about[0])}</b></div>" if about else ""]
    above += [f"<div style='opacity:.75'>{_text(part)}</div>" for part in about[1:]]
    below = [f"<div style='{_GAP if is_gap(note) else _NOTE}'>{_text(note)}</div>" for note in notes]
    return f"<div style='font-size:13px;line-height:1.5'>{''.join([*above, *parts, *below])}</div>"


_GAP = "color:#b45309;font-weight:600"
_NOTE = "opacity:.75"
_LEFT = "text-align:left;white-space:nowrap;padding:2px 10px 2px 0"
_RIGHT = "text-align:right;white-space:nowrap;padding:2px 10px 2px 0;font-variant-numeric:tabular-nums"


def _figures(summary: Sequence[Figure]) -> str:
    """The totals on one line."""
    figures = [
        f"<span title='{_text(f.exact)}'>{_text(f.title)} <b>{_text(f.short or f.exact)}</b></span>" for f in summary
    ]
    return f"<div style='margin:4px 0'>{' · '.join(figures)}</div>"


def _table(sheet: Sheet, look: Look, right: bool = False) -> str:
    """The lines between the titles and the total; cells of numbers stand at the right."""

    def row(cells: Sequence[str], tag: str, bold: bool = False) -> str:
        styles = [_RIGHT if head.right or (right and i) else _LEFT for i, head in enumerate(sheet.heads)]
        made = [
            f"<{tag} style='{style}'>{f'<b>{_text(c)}</b>' if bold else _text(c)}</{tag}>"
            for c, style in zip(cells, styles, strict=True)
        ]
        return f"<tr>{''.join(made)}</tr>"

    def shown(line: Line) -> list[str]:
        return [show(value, head, look) for value, head in zip(line.values, sheet.heads, strict=True)]

    body = [row([head.title for head in sheet.heads], "th"), *(row(shown(line), "td") for line in sheet.lines)]
    if sheet.total:
        body.append(row(shown(sheet.total), "td", bold=True))
    return f"<table style='border-collapse:collapse'>{''.join(body)}</table>"


def _text(text: str) -> str:
    return html.escape(_EXACT.text(text))
