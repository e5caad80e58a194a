"""The rows of a query as a sheet."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from flopwise.report.report import Report
from flopwise.report.sheet.columns import Value
from flopwise.report.sheet.sheet import Head, Line, Sheet


def query_report(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Report:
    """The result of a query; JSON is a list of objects, one for each row."""
    plain = [[_plain(value) for value in row] for row in rows]
    sheet = Sheet(
        heads=tuple(Head(name, name, _kind([row[i] for row in plain]), i) for i, name in enumerate(columns)),
        lines=tuple(Line(tuple(_shown(value) for value in row)) for row in plain),
    )
    return Report(lambda format, look: [sheet], lambda: [dict(zip(columns, row, strict=True)) for row in plain])


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def _kind(values: Sequence[Any]) -> Any:
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in present):
        return "ratio" if any(isinstance(value, float) for value in present) else "number"
    return "text"


def _shown(value: Any) -> Value:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else value
