"""The values that layers pass to one another, and what makes two layers alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from flopwise.graph import STORED, Graph, Node
from flopwise.graph.graph import Shape
from flopwise.rows import Row

#: From, to and shape of a value; -1 is the outside.
Edge: TypeAlias = "tuple[int, int, Shape | None]"


def edges(graph: Graph, nodes: Sequence[Node]) -> list[Edge]:
    """Each value that one layer passes to another.

    Through an operator that is not a layer, such as one on constants alone, nothing flows.
    """
    layer = {id(node): index for index, node in enumerate(nodes)}
    maker = {t.name: -1 for t in graph.inputs}
    for node in graph.nodes:
        if id(node) in layer:
            maker.update({t.name: layer[id(node)] for t in node.known_outputs})
    values: dict[Edge, None] = {}
    for index, node in enumerate(nodes):
        for tensor in node.known_inputs:
            if tensor.name in maker and maker[tensor.name] != index:
                values[maker[tensor.name], index, tensor.shape] = None
    for tensor in graph.outputs:
        if maker.get(tensor.name, -1) >= 0:
            values[maker[tensor.name], -1, tensor.shape] = None
    return list(values)


def makers(values: Sequence[Edge], layers: int) -> list[list[int]]:
    """For each layer the layers whose results it takes, from the edges between so many layers."""
    sources: list[list[int]] = [[] for _ in range(layers)]
    for maker, user, _ in values:
        if maker >= 0 and user >= 0:
            sources[user].append(maker)
    return sources


def likeness(node: Node, row: Row) -> tuple[object, ...]:
    """A key that layers share if they do the same work on tensors of the same sizes."""
    tensors = tuple(
        None if t is None else (t.shape, t.dtype, t.kind in STORED) for t in (*node.inputs, None, *node.outputs)
    )
    return node.op, node.origin, tensors, row.counts, row.times
