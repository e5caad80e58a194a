"""Profiles, comparisons and traces as small HTML tables for notebooks: no scripts, no styles, every text escaped."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flopwise.report.commands.compare import comparison_report
from flopwise.report.commands.trace import trace_comparison_report, trace_report
from flopwise.report.formats.format import FORMATS
from flopwise.report.sheet.listing import Choice, listing
from flopwise.report.sheet.sheet import Figure, Look, Sheet, is_gap

if TYPE_CHECKING:
    from flopwise.analyses.compare.comparison import Comparison
    from flopwise.analyses.traces.comparison import TraceComparison
    from flopwise.analyses.traces.trace import Trace
    from flopwise.profiles.profile import Profile
    from flopwise.report.report import Report

#: So many layers are shown, those that cost most, where there are more than LONG.
TOP, LONG = 12, 30

_LOOK = Look(human=True)


def profile_html(profile: Profile) -> str:
    """The totals and the layers; for a long model, the heaviest layers and the rest as one line."""
    top = TOP if len(profile.rows) > LONG else None
    sheet = listing(profile, Choice(columns="name,op,outputs,params,macs,count,count%", top=top), _LOOK, "document")
    return _block(sheet)


def comparison_html(comparison: Comparison) -> str:
    """The totals of the models side by side, with the differences from the first."""
    return "".join(map(_block, comparison_report(comparison, "total").sheets(FORMATS["markdown"], _LOOK)))


def trace_html(trace: Trace) -> str:
    """Where the time of a step went, and its slowest layers."""
    return _timed(trace_report(trace, top=TOP if len(trace.rows) > LONG else None))


def traces_html(comparison: TraceComparison) -> str:
    """Two traces as a whole, and the layers that differ most."""
    return _timed(trace_comparison_report(comparison, TOP if len(comparison.changes) > LONG else None))


def _timed(report: Report) -> str:
    """A report of times, whose figures have two parts: what was measured, and what that is of the whole."""
    (sheet,) = report.sheets(FORMATS["markdown"], Look())
    summary = (f._replace(short=", ".join(filter(None, (f.exact, f.short)))) for f in sheet.summary)
    return _block(sheet.for_people()._replace(summary=tuple(summary)))


def _block(sheet: Sheet) -> str:
    """A sheet between the lines about the model and the notes."""
    above = [f"<div><b>{_text(part)}</b></div>" for part in sheet.about[:1]]
    above += [f"<div style='opacity:.75'>{_text(part)}</div>" for part in sheet.about[1:]]
    above += [_figures(sheet.summary)] if sheet.summary else []
    below = [f"<div style='{_GAP if is_gap(note) else _NOTE}'>{_text(note)}</div>" for note in sheet.notes]
    return f"<div style='font-size:13px;line-height:1.5'>{''.join([*above, _table(sheet), *below])}</div>"


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


def _table(sheet: Sheet) -> str:
    """The lines between the titles and the total; cells of numbers stand at the right."""

    def row(cells: Sequence[str], tag: str, bold: bool = False) -> str:
        styles = [_RIGHT if head.right else _LEFT for head in sheet.heads]
        tags = [
            f"<{tag} style='{style}'>{f'<b>{_text(c)}</b>' if bold else _text(c)}</{tag}>"
            for c, style in zip(cells, styles, strict=True)
        ]
        return f"<tr>{''.join(tags)}</tr>"

    body = [row([head.title for head in sheet.heads], "th")]
    body += [row(sheet.texts(line, _LOOK), "td") for line in sheet.lines]
    if sheet.total:
        body.append(row(sheet.texts(sheet.total, _LOOK), "td", bold=True))
    return f"<table style='border-collapse:collapse'>{''.join(body)}</table>"


def _text(text: str) -> str:
    return html.escape(_LOOK.text(text))
