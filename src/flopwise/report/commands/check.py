"""Verdicts on a budget as a table or as JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from flopwise.analyses.budget.checking import Verdict
from flopwise.report.formats.format import Format
from flopwise.report.report import Report
from flopwise.report.sheet.columns import AtLeast, Value
from flopwise.report.sheet.sheet import Head, Line, Look, Sheet, without_empty


def verdicts_report(verdicts: Sequence[Verdict]) -> Report:
    """What is over its limit, or what is within it when nothing is over; JSON and CSV hold all verdicts."""
    return Report(lambda format, look: [_sheet(verdicts, format, look)], lambda: content(verdicts))


def _sheet(verdicts: Sequence[Verdict], format: Format, look: Look) -> Sheet:
    broken = [v for v in verdicts if v.broken]
    shown = verdicts if format.data else broken or verdicts
    named = len({v.model for v in verdicts}) > 1 or format.data
    sheet = Sheet(
        heads=(
            *([Head("model", "model", "text", 1)] if named else []),
            Head("name", "limit", "text", 0),
            Head("layer", "layer", "text", 2),
            Head("value", "is", "number", 1),
            Head("most", "at most", "number", 1),
            Head("unit", "unit", "text", 6),
            Head("share", "% of limit", "percent", 7),
            Head("broken", "", "text", 1),
        ),
        lines=tuple(Line(_values(v, named, look, format.data), "unknown" if v.broken else "") for v in shown),
        about=(_told(verdicts, broken, look),),
        complete=True,
    )
    return sheet if format.data else without_empty(sheet)


def _told(verdicts: Sequence[Verdict], broken: Sequence[Verdict], look: Look) -> str:
    models = dict.fromkeys(v.model for v in verdicts)
    who = look.text(next(iter(models))) if len(models) == 1 else f"{len(models)} models"
    if not broken:
        return f"{who}: all {len(verdicts)} limits are met" if len(verdicts) > 1 else f"{who}: the limit is met"
    if len(verdicts) == 1:
        return f"{who}: the limit is exceeded"
    return f"{who}: {len(broken)} of {len(verdicts)} limits {'is' if len(broken) == 1 else 'are'} exceeded"


def _values(verdict: Verdict, named: bool, look: Look, data: bool) -> tuple[Value, ...]:
    value: Value = verdict.value
    if isinstance(value, int) and not verdict.exact:
        value = AtLeast(value)
    if verdict.missing:
        value = ""
    most = verdict.limit.most
    share = 100 * verdict.value / most if verdict.value is not None and most and verdict.exact else ""
    broken = ("yes" if verdict.broken else "no") if data else verdict.why if verdict.broken else "kept"
    return (
        *([look.text(verdict.model if data else os.path.basename(verdict.model))] if named else []),
        look.text(_limit(verdict)),
        look.text(verdict.layer),
        value,
        most,
        look.text(verdict.unit),
        share,
        broken,
    )


def _limit(verdict: Verdict) -> str:
    """The limit as it stands in the file: the figure, and the layers that it is for."""
    limit = verdict.limit
    figure = ".".join(filter(None, (limit.figure, limit.convention, limit.device)))
    return f"{limit.layers}: {figure}" if limit.layers else figure


def content(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The JSON schema ``flopwise.check/1``: every number an integer or null."""
    return {
        "schema": "flopwise.check/1",
        "ok": not any(v.broken for v in verdicts),
        "limits": [
            {
                "model": v.model,
                "limit": list(v.limit.path),
                "figure": v.limit.figure,
                "convention": v.limit.convention or None,
                **({"device": v.limit.device} if v.limit.device else {}),
                "layers": v.limit.layers or None,
                "layer": v.layer or None,
                "value": v.value,
                "exact": v.exact,
                "most": v.limit.most,
                "unit": v.unit or None,
                "broken": v.broken,
                "why": v.why or None,
            }
            for v in verdicts
        ],
    }
