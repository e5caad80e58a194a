"""A profile as node data of Google's Model Explorer: the count of each layer beside the graph, as a colour.

The format as Model Explorer 0.1.34 reads it (``node_data_builder.py`` of the package ai-edge-model-explorer): an object
with a name, results (node id -> an object with a value) and the colours of a gradient, for the graph that is open. The
ids of ONNX models as the adapter model_explorer_onnx 0.4.2 makes them: the name of a node, made unique with a
number where it is missing or taken; the branches of an If lie in the graph around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flopwise.graph import Graph
from flopwise.graph.names import FreshNames
from flopwise.report.formats import json
from flopwise.report.sheet.columns import count_title

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

#: Colours from the least to the largest value, and what can be read on them.
GRADIENT = ((0.0, "#eef2f7", "#1a222d"), (0.35, "#9dbcec", "#1a222d"), (1.0, "#2563c9", "#ffffff"))


def render(profile: Profile) -> str:
    """The node data: the count of each layer in the profile's convention, named after its unit and the convention.

    A Loop or a Scan has what its body counts.
    """
    convention = profile.convention
    counts: dict[int, list[int | None]] = {}
    position = {id(node): index for index, node in enumerate(profile.graph.nodes)}
    for row in profile.rows:
        counts.setdefault(_shown(profile.graph, position[id(row.node)]), []).append(row.count)
    ids = _ids(profile.graph)
    results = {ids[at]: {"value": _value(counts[at])} for at in sorted(counts)}
    gradient = [{"stop": stop, "bgColor": ground, "textColor": ink} for stop, ground, ink in GRADIENT]
    return json.render_content(
        {"name": count_title(convention.unit, convention.name), "results": results, "gradient": gradient}
    )


def _value(counts: Sequence[int | None]) -> int | str:
    """The sum; "?" where it is unknown, and a text where some of it is unknown or it is a formula."""
    numbers = [count for count in counts if count is not None]
    total = sum(numbers, 0)
    if len(numbers) < len(counts):
        return f">= {total}" if numbers and total else "?"
    return total if isinstance(total, int) else str(total)


def _shown(graph: Graph, position: int) -> int:
    """Position of the node in the main graph that stands for a node: itself, or the Loop or Scan around it."""
    for body in graph.nodes[position].within:
        if graph.nodes[body.owner].op != "If":
            return body.owner
    return position


def _ids(graph: Graph) -> dict[int, str]:
    """The id of each node of the main graph, by position; a node in an If has the path of the If before its name."""
    places: dict[tuple[tuple[int, str], ...], list[int]] = {}
    for position, node in enumerate(graph.nodes):
        if _shown(graph, position) == position:
            places.setdefault(tuple((b.owner, b.part) for b in node.within), []).append(position)
    ids: dict[int, str] = {}
    for place, positions in sorted(places.items(), key=lambda item: len(item[0])):
        around = f"{ids[place[-1][0]]}/{place[-1][1]}/" if place else ""
        names = _unique([graph.nodes[p].name for p in positions])
        ids.update((p, around + name) for p, name in zip(positions, names, strict=True))
    return ids


def _unique(names: Sequence[str]) -> list[str]:
    """The names, with a number after those that are missing or taken, as onnx_ir's NameFixPass gives them.

    >>> _unique(["a", "", "a", ""])
    ['a', 'node', 'a_1', 'node_1']
    """
    distinct = FreshNames(form=lambda name, number: f"{name}_{number}")
    return [distinct.fresh(name or "node") for name in names]
