"""A comparison as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from flopwise.report.html.compare_data import compare_data
from flopwise.report.html.page import Layout, page

if TYPE_CHECKING:
    from flopwise.analyses.compare.comparison import Comparison

LAYOUT = Layout(
    folder="compare",
    sections={"summary": "Summary", "operators": "Operators", "depth": "Depth", "layers": "Layers"},
    styles=("compare/page.css",),
    scripts=(
        "compare/base.js",
        "compare/summary.js",
        "compare/causes.js",
        "compare/operators.js",
        "compare/depth.js",
        "table.js",
        "compare/layers.js",
        "compare/start.js",
    ),
    controls=True,
)

#: So many labels are in the title of the page.
NAMED = 4


def render(comparison: Comparison, figures: Sequence[str], full: bool, titles: Mapping[str, str]) -> str:
    """The page: all layers and figures; its table is sorted and filtered where it is read.

    Args:
        comparison: what to write.
        figures: of the layers, those that are shown at first.
        full: whether layers that are the same in all models are shown at first.
        titles: figure -> what it is called.
    """
    data = compare_data(comparison, figures, full, titles)
    labels = [model["label"] for model in data["models"]]
    more = [f"{len(labels) - NAMED} more"] if len(labels) > NAMED else []
    title = f"{' and '.join([*labels[:NAMED], *more])} – flopwise"
    return page(LAYOUT, title, data)
