"""Verdicts on a budget as a table or as JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence

from flopwise._results import Json, fields
from flopwise.analyses.budget import Verdict
from flopwise.report.formats.format import Format
from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Field, Head, Look, Sheet, Value, bounded


def verdicts_report(verdicts: Sequence[Verdict]) -> Report:
    """The limits that are exceeded, or all where none is; JSON and CSV always hold all."""
    return Report(lambda format, look: [_sheet(verdicts, format, look)], lambda: content(verdicts))


def _sheet(verdicts: Sequence[Verdict], format: Format, look: Look) -> Sheet:
    broken = [v for v in verdicts if v.broken]
    data = format.data
    columns: tuple[Field[Verdict], ...] = (
        Field(Head("model", "model", "text", 1), lambda v: look.text(v.model if data else os.path.basename(v.model))),
        Field(Head("name", "limit", "text", 0), lambda v: look.text(_limit(v))),
        Field(Head("layer", "layer", "text", 2), lambda v: look.text(v.layer)),
        Field(Head("value", "is", "number", 1), _value),
        Field(Head("most", "at most", "number", 1), lambda v: v.limit.most),
        Field(Head("unit", "unit", "text", 6), lambda v: look.text(v.unit)),
        Field(Head("share", "% of limit", "percent", 7), _share),
        Field(
            Head("broken", "", "text", 1),
            lambda v: ("yes" if v.broken else "no") if data else v.why if v.broken else "kept",
        ),
    )
    if not data and len({v.model for v in verdicts}) < 2:
        columns = columns[1:]
    shown = verdicts if data else broken or verdicts
    about = (_outcome(verdicts, broken, look),)
    return Sheet.of(columns, shown, lambda v: "unknown" if v.broken else "", about=about, skip_empty=True)


def _outcome(verdicts: Sequence[Verdict], broken: Sequence[Verdict], look: Look) -> str:
    models = dict.fromkeys(v.model for v in verdicts)
    who = look.text(next(iter(models))) if len(models) == 1 else f"{len(models)} models"
    if not broken:
        return f"{who}: all {len(verdicts)} limits are met" if len(verdicts) > 1 else f"{who}: the limit is met"
    if len(verdicts) == 1:
        return f"{who}: the limit is exceeded"
    return f"{who}: {len(broken)} of {len(verdicts)} limits {'is' if len(broken) == 1 else 'are'} exceeded"


def _value(verdict: Verdict) -> Value:
    if verdict.missing:
        return ""
    return bounded(verdict.value, verdict.exact)


def _share(verdict: Verdict) -> Value:
    most = verdict.limit.most
    return 100 * verdict.value / most if verdict.value is not None and most and verdict.exact else ""


def _limit(verdict: Verdict) -> str:
    """The limit as it stands in the file: the figure, and the layers that it is for."""
    limit = verdict.limit
    figure = ".".join(filter(None, (limit.figure, limit.convention, limit.device)))
    return f"{limit.layers}: {figure}" if limit.layers else figure


def content(verdicts: Sequence[Verdict]) -> Json:
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
                **fields(v, "value exact"),
                "most": v.limit.most,
                "unit": v.unit or None,
                "broken": v.broken,
                "why": v.why or None,
            }
            for v in verdicts
        ],
    }
