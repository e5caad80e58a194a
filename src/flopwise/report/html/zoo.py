"""A data set of models as one HTML page: costs against sizes, operators by family and year, how layers repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flopwise._results import Json
from flopwise.report.formats.json import plain_value
from flopwise.report.html.model import EXACT
from flopwise.report.html.page import Layout, page

if TYPE_CHECKING:
    from flopwise.analyses.zoo.views import Overview, Table
    from flopwise.report.sheet.sheet import Look

LAYOUT = Layout(
    folder="zoo",
    sections={
        "summary": "Summary",
        "costs": "Costs",
        "operators": "Operators",
        "curves": "Unique layers",
        "tables": "Tables",
    },
    scripts="summary scatter shares curves tables",
    styles=("bound/page.css", "zoo/page.css"),
)


def render_zoo(overview: Overview, look: Look) -> str:
    """The page: models, operators and unique layers of a data set."""
    return page(LAYOUT, f"{overview.name} – zoo – flopwise", page_data(overview))


def page_data(overview: Overview) -> Json:
    """The data of the page: tables as columns and rows."""
    return {
        "name": overview.name,
        "totals": [[title, _plain(count)] for title, count in overview.totals.items()],
        **_tables(overview, "models by_family by_year growth layers_covered macs_covered"),
        "tables": _tables(overview, "unique chains census failures"),
    }


def _tables(overview: Overview, names: str) -> Json:
    tables: dict[str, Table] = {name: getattr(overview, name) for name in names.split()}
    return {
        name: {"columns": list(table.columns), "rows": [[_plain(value) for value in row] for row in table.rows]}
        for name, table in tables.items()
    }


def _plain(value: object) -> object:
    value = plain_value(value)
    return str(value) if isinstance(value, int) and abs(value) >= EXACT else value
