"""The names of modules in graphs that are read without them."""

from __future__ import annotations

from dataclasses import replace

from flopwise.graph import Graph


def in_modules(graph: Graph, named: Graph) -> Graph:
    """The graph with names and module paths of another one of the same model; as it is where the two differ."""
    if graph is named or len(graph.nodes) != len(named.nodes) or not any(n.scope for n in named.nodes):
        return graph
    pairs = zip(graph.nodes, named.nodes, strict=True)
    return replace(
        graph,
        nodes=tuple(replace(node, name=known.name, scope=known.scope, origin=known.origin) for node, known in pairs),
    )
