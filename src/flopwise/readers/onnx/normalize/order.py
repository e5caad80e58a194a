"""Nodes in execution order."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Container, Sequence

import onnx

from flopwise.errors import ModelError
from flopwise.readers.onnx.listing import Listed, complete, listed
from flopwise.readers.onnx.types import CONTROL_FLOW, bodies, describe, refuse_bytes


def in_execution_order(
    graph: onnx.GraphProto,
    outside: Container[str] = frozenset(),
    nodes: list[Listed] | None = None,
    stored: Collection[str] | None = None,
) -> list[Listed]:
    """The nodes of a graph in an order in which each runs after those it depends on, the file's order if it does.

    The graph is put in that order, and so are the bodies of control flow.

    Args:
        graph: changed in place.
        outside: names of tensors that a body may take from the graphs around it.
        nodes: its nodes, where they have been listed before.
        stored: the names of its stored tensors, the same.

    Raises:
        ModelError: two nodes make one tensor, two stored tensors of other shapes have one name, a tensor comes from
            nowhere, or nodes wait for each other.
    """
    stored = {t.name for t in graph.initializer} if stored is None else stored
    if len(stored) < len(graph.initializer):
        _refuse_twins(graph)
    nodes = _order(graph, outside, listed(graph) if nodes is None else nodes, stored)
    seen: _Seen | None = None
    for node in nodes:
        if (node.domain or node.op in CONTROL_FLOW) and (inner := bodies(node.proto)):
            if seen is None:
                names = {o for n in nodes for o in n.outputs}.union((i.name for i in graph.input), stored)
                seen = _Seen(names, outside)
            for body in inner:
                in_execution_order(body, seen)
    return nodes


class _Seen(Container[str]):
    """The names of a graph, and those of the graphs around it, which are not copied for each body."""

    def __init__(self, names: set[str], outside: Container[str]) -> None:
        self._names = names
        self._outside = outside

    def __contains__(self, name: object) -> bool:
        return name in self._names or name in self._outside


def _refuse_twins(graph: onnx.GraphProto) -> None:
    """Refuse stored tensors of one name that differ: runtimes take one of them."""
    first: dict[str, onnx.TensorProto] = {}
    for tensor in graph.initializer:
        twin = first.setdefault(tensor.name, tensor)
        if (twin.data_type, *twin.dims) != (tensor.data_type, *tensor.dims):
            raise ModelError(
                f"two stored tensors are named {tensor.name!r}: one of shape {tuple(twin.dims)}, "
                f"one of {tuple(tensor.dims)}{', of other elements' if twin.dims == tensor.dims else ''}"
            )


def _order(
    graph: onnx.GraphProto, outside: Container[str], nodes: list[Listed], stored: Collection[str]
) -> list[Listed]:
    ready = {i.name for i in graph.input}.union(stored)
    ready |= {s.values.name for s in graph.sparse_initializer}
    ready.discard("")
    made = [n.outputs for n in nodes]
    makers = {name: position for position, names in enumerate(made) for name in names}
    if len(makers) - ("" in makers) < sum(map(len, made)) - sum(names.count("") for names in made if "" in names):
        complete(nodes)
        _refuse_second(graph)
    if not ready.isdisjoint(makers):
        name = next(name for names in made for name in names if name in ready)
        node = nodes[makers[name]].proto
        raise ModelError(f"tensor {name!r} is produced twice, as a stored tensor or input and by {describe(node)}")
    ready.add("")
    for output in graph.output:
        if output.name not in makers and output.name not in ready and output.name not in outside:
            raise ModelError(f"nothing produces the output {output.name!r} of the model")
    wanted = [needs(n.proto) if n.domain or n.op in CONTROL_FLOW else n.inputs for n in nodes]
    refuse_bytes(ready)
    ready_names = set(ready)
    for outputs, names in zip(made, wanted, strict=True):
        if not (ready_names.issuperset(names) or all(n in ready_names or n in outside for n in names)):
            break
        ready_names.update(outputs)
    else:
        return nodes
    complete(nodes)
    _sort(graph, [{n for n in names if n not in outside} for names in wanted], ready, makers)
    return listed(graph)


def _refuse_second(graph: onnx.GraphProto) -> None:
    """Say which tensor two nodes make.

    Raises:
        ModelError: in any case.
    """
    first: dict[str, onnx.NodeProto] = {}
    for node in graph.node:
        for name in filter(None, node.output):
            if name in first:
                raise ModelError(
                    f"tensor {name!r} is produced twice, by {describe(first[name])} and by {describe(node)}"
                )
            first[name] = node
    raise AssertionError("not reached")


def needs(node: onnx.NodeProto) -> set[str]:
    """Names of the tensors that a node takes, those that its subgraphs take from outside included."""
    names = set(node.input)
    for body in bodies(node):
        inner = {i.name for i in body.input} | {t.name for t in body.initializer}
        inner |= {o for n in body.node for o in n.output}
        taken = {name for n in body.node for name in needs(n)} | {o.name for o in body.output}
        names |= taken - inner
    names.discard("")
    return names


def _sort(graph: onnx.GraphProto, wanted: Sequence[set[str]], ready: set[str], makers: dict[str, int]) -> None:
    before: list[set[int]] = []
    followers: dict[int, list[int]] = {}
    for position, names in enumerate(wanted):
        for name in sorted(names - ready):
            if name not in makers:
                raise ModelError(f"{describe(graph.node[position])} takes {name!r}, which nothing produces")
        before.append({makers[name] for name in names - ready})
        for maker in before[-1]:
            followers.setdefault(maker, []).append(position)
    waiting = [len(makers_of) for makers_of in before]
    free = [p for p, n in enumerate(waiting) if n == 0]  # a heap: of those that can run, the first in the file does
    order: list[int] = []
    while free:
        position = heapq.heappop(free)
        order.append(position)
        for follower in followers.get(position, ()):
            waiting[follower] -= 1
            if waiting[follower] == 0:
                heapq.heappush(free, follower)
    if len(order) < len(wanted):
        circle = _circle({p for p, n in enumerate(waiting) if n > 0}, before)
        steps = [describe(graph.node[p]) for p in (*circle[:6], circle[0])]
        if len(circle) > 6:
            steps.insert(6, f"{len(circle) - 6} more")
        raise ModelError(f"the graph has a cycle: {' -> '.join(steps)}")
    nodes = [onnx.NodeProto.FromString(graph.node[p].SerializeToString()) for p in order]
    del graph.node[:]
    graph.node.extend(nodes)


def _circle(stuck: set[int], before: list[set[int]]) -> list[int]:
    """Positions of operators that wait for one another in a circle, the first in the file first."""
    path: dict[int, None] = {}
    position = min(stuck)
    while position not in path:
        path[position] = None
        position = min(before[position] & stuck)
    walked = list(path)
    circle = walked[walked.index(position) :][::-1]
    first = circle.index(min(circle))
    return circle[first:] + circle[:first]
