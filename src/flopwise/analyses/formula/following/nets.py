"""Caffe nets: the rules of their layers are arithmetic on sizes, so a net is read with sizes that carry expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flopwise.analyses.formula.dim import Dim, dim
from flopwise.analyses.formula.following.program import Followed
from flopwise.analyses.formula.guards import Guards
from flopwise.analyses.formula.propagation.engine import Propagation
from flopwise.analyses.formula.terms.evaluation import substituted
from flopwise.analyses.formula.terms.polynomial import Term
from flopwise.graph import Graph, Tensor


class NetFacts(Followed):
    """Facts about a net: its graph with sizes that carry expressions, in tensors and attributes."""

    def __init__(self, graph: Graph, guards: Guards) -> None:
        super().__init__(guards)
        self.graph = graph

    def give(self, walk: Propagation, scales: Mapping[str, Term]) -> None:
        """Hand over the graph and the conditions."""
        walk.graph = scaled(self.graph, scales)
        super().give(walk, scales)


def scaled(graph: Graph, scales: Mapping[str, Term]) -> Graph:
    """The graph with other terms in place of the symbols."""
    tensors: dict[int, Tensor] = {}

    def size(thing: Any) -> Any:
        if type(thing) is Dim:
            return dim(int(thing), substituted(thing.expression, scales))
        if isinstance(thing, (list, tuple)):
            return type(thing)(map(size, thing))
        return thing

    def tensor(old: Tensor | None) -> Tensor | None:
        if old is None or old.shape is None:
            return old
        if id(old) not in tensors:
            tensors[id(old)] = replace(old, shape=size(old.shape))
        return tensors[id(old)]

    def every(old: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        return tuple(map(tensor, old))

    nodes = tuple(
        replace(
            node,
            inputs=every(node.inputs),
            outputs=every(node.outputs),
            attrs={name: size(value) for name, value in node.attrs.items()},
        )
        for node in graph.nodes
    )
    return replace(graph, inputs=every(graph.inputs), outputs=every(graph.outputs), nodes=nodes)
