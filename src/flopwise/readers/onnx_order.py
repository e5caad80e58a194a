"""Nodes in execution order."""

from __future__ import annotations

from collections import deque

import onnx

from flopwise.errors import ModelError
from flopwise.readers.onnx_shapes import describe


def in_execution_order(graph: onnx.GraphProto) -> None:
    """Put the nodes of a graph in an order in which each runs after those it depends on, the file's order if it does.

    Raises:
        ModelError: two nodes make one tensor, a tensor comes from nowhere, or nodes wait for each other.
    """
    ready = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    ready |= {s.values.name for s in graph.sparse_initializer} | {""}
    makers: dict[str, int] = {}
    for position, node in enumerate(graph.node):
        for name in node.output:
            if name and name in makers:
                first = describe(graph.node[makers[name]])
                raise ModelError(f"tensor {name!r} is made twice, by {first} and by {describe(node)}")
            makers[name] = position
    needs = [_needs(node) for node in graph.node]
    known = set(ready)
    for node, names in zip(graph.node, needs, strict=True):
        if not names <= known:
            break
        known.update(node.output)
    else:
        return
    _sort(graph, needs, ready, makers)


def _needs(node: onnx.NodeProto) -> set[str]:
    """Names of the tensors that a node takes, those that its subgraphs take from outside included."""
    names = set(node.input)
    for attribute in node.attribute:
        for body in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
            inner = {i.name for i in body.input} | {t.name for t in body.initializer}
            inner |= {o for n in body.node for o in n.output}
            taken = {name for n in body.node for name in _needs(n)} | {o.name for o in body.output}
            names |= taken - inner
    return names - {""}


def _sort(graph: onnx.GraphProto, needs: list[set[str]], ready: set[str], makers: dict[str, int]) -> None:
    waiting: dict[int, int] = {}
    followers: dict[int, list[int]] = {}
    for position, names in enumerate(needs):
        before = set()
        for name in names - ready:
            if name not in makers:
                raise ModelError(f"{describe(graph.node[position])} takes {name!r}, which nothing makes")
            before.add(makers[name])
        waiting[position] = len(before)
        for maker in before:
            followers.setdefault(maker, []).append(position)
    queue = deque(p for p, n in waiting.items() if n == 0)
    order: list[int] = []
    while queue:
        position = queue.popleft()
        order.append(position)
        for follower in followers.get(position, ()):
            waiting[follower] -= 1
            if waiting[follower] == 0:
                queue.append(follower)
    if len(order) < len(needs):
        stuck = [describe(graph.node[p]) for p, n in waiting.items() if n > 0]
        more = f" and {len(stuck) - 4} more" if len(stuck) > 4 else ""
        raise ModelError(f"the graph has a cycle: {', '.join(stuck[:4])}{more} wait for each other")
    nodes = [onnx.NodeProto.FromString(graph.node[p].SerializeToString()) for p in order]
    del graph.node[:]
    graph.node.extend(nodes)
