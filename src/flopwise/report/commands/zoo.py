"""The rows of a query, and the overview of a data set, as sheets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flopwise.report.formats.json import plain_value
from flopwise.report.report import Report
from flopwise.report.sheet.sheet import Figure, Head, Kind, Line, Sheet, Value, human

if TYPE_CHECKING:
    from flopwise.analyses.zoo.views import Overview


def query_report(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Report:
    """The result of a query; JSON is a list of objects, one for each row."""
    sheet, plain = _sheet(columns, rows)
    return Report(lambda format, look: [sheet], lambda: [dict(zip(columns, row, strict=True)) for row in plain])


def overview_report(overview: Overview) -> Report:
    """A data set: its figures and its models as a sheet; its page has all the rest."""
    sheet, _ = _sheet(overview.models.columns, overview.models.rows)
    figures = tuple(Figure(title, f"{count:,}", human(count)) for title, count in overview.totals.items())
    titled = sheet._replace(about=(overview.name,), summary=figures)
    return Report(lambda format, look: [titled], subjects={"zoo": (overview,)})


def _sheet(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> tuple[Sheet, list[list[object]]]:
    """The rows as a sheet, and as JSON has them."""
    plain = [[plain_value(value) for value in row] for row in rows]
    heads = (Head(name, name, _kind(name, [row[i] for row in plain]), i) for i, name in enumerate(columns))
    return Sheet(tuple(heads), tuple(Line(tuple(map(_shown, columns, row))) for row in plain)), plain


def _kind(name: str, values: Sequence[object]) -> Kind:
    if name == "year":  # no thousands are told apart in it
        return "text"
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in present):
        return "ratio" if any(isinstance(value, float) for value in present) else "number"
    return "text"


def _shown(name: str, value: Any) -> Value:
    if name == "year" and value is not None:
        return str(value)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else value
