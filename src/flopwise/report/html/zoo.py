"""A data set of models as one HTML page: costs against sizes, operators by family and year, how layers repeat."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from flopwise.report.html.page import Layout, page

if TYPE_CHECKING:
    from flopwise.analyses.zoo.overview import Overview, Table

LAYOUT = Layout(
    folder="zoo",
    sections={
        "summary": "Summary",
        "costs": "Costs",
        "operators": "Operators",
        "curves": "Unique layers",
        "tables": "Tables",
    },
    styles=("bound/page.css", "zoo/page.css"),
    scripts=("zoo/summary.js", "zoo/scatter.js", "zoo/shares.js", "zoo/curves.js", "zoo/tables.js"),
)

#: Largest integer that JavaScript holds exactly; larger ones travel as text.
_EXACT = 1 << 53


def render(overview: Overview) -> str:
    """The page."""
    return page(LAYOUT, f"{overview.name} – zoo – flopwise", page_data(overview))


def page_data(overview: Overview) -> dict[str, Any]:
    """What the page draws: tables as columns and rows."""
    return {
        "name": overview.name,
        "totals": [[title, _plain(count)] for title, count in overview.totals.items()],
        "models": _table(overview.models),
        "by_family": _table(overview.by_family),
        "by_year": _table(overview.by_year),
        "growth": _table(overview.growth),
        "layers_covered": _table(overview.layers_covered),
        "macs_covered": _table(overview.macs_covered),
        "tables": {
            "unique": _table(overview.unique),
            "chains": _table(overview.chains),
            "census": _table(overview.census),
            "failures": _table(overview.failures),
        },
    }


def _table(table: Table) -> dict[str, Any]:
    return {"columns": list(table.columns), "rows": [[_plain(value) for value in row] for row in table.rows]}


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    return str(value) if isinstance(value, int) and abs(value) >= _EXACT else value
