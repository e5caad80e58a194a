"""Names for control flow without one, for ``--trip NAME=N`` and for the names of what is in bodies."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from flopwise.formats.onnx.file.model import CONTROL_FLOW, Graph, Node


def named(graph: Graph) -> Graph:
    """The graph with a name for each control-flow operator: its own, or its type with a running number (``loop_1``)."""
    return _with_names(graph, Counter())


def _with_names(graph: Graph, seen: Counter[str]) -> Graph:
    if CONTROL_FLOW.isdisjoint([operation.op for operation in graph.operations]):
        return graph
    nodes: list[Node] = []
    for node in graph.nodes:
        seen[node.op] += 1
        if not node.domain and node.op in CONTROL_FLOW:
            node = node._replace(name=node.name or f"{node.op.lower()}_{seen[node.op]}")
            node = node.with_bodies(lambda body: _with_names(body, seen))
        nodes.append(node)
    return replace(graph, nodes=nodes)
