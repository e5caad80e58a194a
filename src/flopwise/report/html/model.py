"""A profile as one HTML page that needs nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flopwise.graph.garbage import no_search_for_garbage
from flopwise.report.html.data import page_data
from flopwise.report.html.page import Layout, page

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

LAYOUT = Layout(
    folder="model",
    sections={
        "summary": "Summary",
        "where": "Where",
        "depth": "Depth",
        "memory": "Memory",
        "intensity": "Intensity",
        "graph": "Graph",
        "layers": "Layers",
    },
    scripts=(
        "model/base.js",
        "model/summary.js",
        "model/operators.js",
        "model/treemap.js",
        "model/flame.js",
        "model/where.js",
        "model/depth.js",
        "model/memory.js",
        "model/intensity.js",
        "table.js",
        "model/layers.js",
        "model/graph.js",
        "model/start.js",
    ),
    graph=True,
    controls=True,
)


def render(profile: Profile, title: str) -> str:
    """The page of a profile."""
    with no_search_for_garbage():
        data = page_data(profile)
    return page(LAYOUT, title, data)
