"""The modules of a model with their sums, where modules that repeat are one line: "22 × LlamaDecoderLayer"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flopwise.graph import Graph
from flopwise.report.structure import wiring
from flopwise.report.structure.modules import Layers, Part, layers_of, parts_of
from flopwise.rows import Row, Sum, add_up


class Folded(NamedTuple):
    """A module, or modules that repeat, with the sum of all their layers."""

    sum: Sum
    #: How often what lies below it comes, of which the lines below show one; 1 for a module.
    times: int


def folded(graph: Graph, rows: Sequence[Row], depth: int | None = None) -> list[Folded]:
    """The modules in the order of execution, the model first, so many levels deep.

    Args:
        graph: the model.
        rows: its layers.
        depth: how many levels of modules to show; None for all.
    """
    nodes = [row.node for row in rows]
    makers = wiring.makers(wiring.edges(graph, nodes), len(nodes))
    alike = Layers([wiring.likeness(node, row) for node, row in zip(nodes, rows, strict=True)], makers)
    root = parts_of("", [node.scope for node in nodes], [node.op for node in nodes], [row.name for row in rows], alike)
    return list(_walk(root, rows, 0, depth))


def _walk(part: Part, rows: Sequence[Row], level: int, deepest: int | None) -> Iterator[Folded]:
    own = add_up(part.name, [rows[index] for index in layers_of(part)], part.kind, level)
    yield Folded(own, len(part.parts) // part.period if part.period else 1)
    if deepest is not None and level >= deepest:
        return
    for inner in part.parts[: part.period or None]:
        if inner.layer is None:
            yield from _walk(inner, rows, level + 1, deepest)
