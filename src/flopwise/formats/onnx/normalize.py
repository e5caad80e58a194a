"""ONNX models in one spelling: nodes in execution order, operators as the newest operator set spells them."""

from __future__ import annotations

import heapq
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from flopwise.errors import ModelError
from flopwise.formats.kit.program import Graph, Model, Node
from flopwise.sizes.program import captured


def in_execution_order(graph: Graph, outside: Container[str] = frozenset()) -> Graph:
    """The graph with its nodes in an order in which each runs after those it depends on, the file's order if it does.

    The bodies of control flow are put in that order as well.

    Args:
        graph: the graph.
        outside: names of tensors that a body may take from the graphs around it.

    Raises:
        ModelError: two nodes make one tensor, a tensor comes from nowhere, or nodes wait for each other.
    """
    nodes = _order(graph, outside)
    if any(operation.may_have_bodies for operation in graph.operations):
        seen = _Seen(graph, outside)
        nodes = [node.with_bodies(lambda body: in_execution_order(body, seen)) for node in nodes]
    return graph if nodes is graph.nodes else replace(graph, nodes=nodes)


class _Seen(Container[str]):
    """The names of a graph, and those of the graphs around it, which are not copied for each body."""

    def __init__(self, graph: Graph, outside: Container[str]) -> None:
        self._names = {name for node in graph.nodes for name in node.outputs}
        self._names.update((value.name for value in graph.inputs), graph.initializers)
        self._outside = outside

    def __contains__(self, name: object) -> bool:
        return name in self._names or name in self._outside


def _order(graph: Graph, outside: Container[str]) -> list[Node]:
    nodes = graph.nodes
    ready = {value.name for value in graph.inputs}.union(graph.initializers)
    ready.add("")
    tensors = set(ready)
    bodied = {operation for operation in graph.operations if operation.may_have_bodies}
    before = len(tensors)
    for node in nodes:
        operation, _, inputs, outputs, _ = node
        names = needs(node) if bodied and operation in bodied else inputs
        if not (tensors.issuperset(names) or all(name in tensors or name in outside for name in names)):
            break
        tensors.update(outputs)
    else:
        made = list(chain.from_iterable([node.outputs for node in nodes]))
        once = len(tensors) - before == len(made) - made.count("")
        if once and all(output.name in tensors or output.name in outside for output in graph.outputs):
            return nodes
    return _mended(graph, outside, ready)


def _mended(graph: Graph, outside: Container[str], ready: set[str]) -> list[Node]:
    """The nodes of a graph that is in no order, in one.

    Raises:
        ModelError: there is none.
    """
    nodes = graph.nodes
    makers = {name: position for position, node in enumerate(nodes) for name in node.outputs}
    makers.pop("", None)
    if len(makers) < sum(len(node.outputs) - node.outputs.count("") for node in nodes):
        _refuse_second(nodes)
    both = ready.intersection(makers)
    if both:
        name = next(name for node in nodes for name in node.outputs if name in both)
        raise ModelError(f"tensor {name!r} is produced twice, as a stored tensor or input and by {nodes[makers[name]]}")
    for output in graph.outputs:
        if output.name not in makers and output.name not in ready and output.name not in outside:
            raise ModelError(f"nothing produces the output {output.name!r} of the model")
    requirements = [{name for name in needs(node) if name not in outside} for node in nodes]
    return _sorted(nodes, requirements, ready, makers)


def _refuse_second(nodes: Sequence[Node]) -> None:
    """Say which tensor two nodes make.

    Raises:
        ModelError: in any case.
    """
    first: dict[str, Node] = {}
    for node in nodes:
        for name in filter(None, node.outputs):
            if name in first:
                raise ModelError(f"tensor {name!r} is produced twice, by {first[name]} and by {node}")
            first[name] = node
    raise AssertionError("not reached")


def needs(node: Node) -> set[str]:
    """Names of the tensors that a node takes, those that its bodies take from outside included."""
    names = set(node.inputs)
    for body in node.bodies():
        names |= captured(body)
    names.discard("")
    return names


def _sorted(nodes: Sequence[Node], wanted: Sequence[set[str]], ready: set[str], makers: dict[str, int]) -> list[Node]:
    before: list[set[int]] = []
    followers: dict[int, list[int]] = {}
    for position, names in enumerate(wanted):
        for name in sorted(names - ready):
            if name not in makers:
                raise ModelError(f"{nodes[position]} takes {name!r}, which nothing produces")
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
        steps = [str(nodes[p]) for p in (*circle[:6], circle[0])]
        if len(circle) > 6:
            steps.insert(6, f"{len(circle) - 6} more")
        raise ModelError(f"the graph has a cycle: {' -> '.join(steps)}")
    return [nodes[position] for position in order]


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


# Operator sets within those that are known, and what no model may lack.

#: The newest version of the standard operators whose rules have been checked.
NEWEST = 28

#: First IR version whose models name their operator sets.
NAMES_OPERATOR_SETS = 3


def settled(model: Model) -> tuple[Model, list[str]]:
    """The model with versions of all operator sets that its nodes are from, and what to warn of.

    Raises:
        ModelError: the model is damaged, or not whole.
    """
    graph = model.graph
    if not graph.nodes and not graph.inputs and not graph.outputs:
        raise ModelError("the graph is empty")
    domains = _domains(graph)
    opsets = model.opsets
    if not opsets:
        if model.ir_version >= NAMES_OPERATOR_SETS or not model.ir_version:
            raise ModelError("names no operator set version; the file is truncated or not an ONNX model")
        opsets = {"": 1}
    warnings: dict[str, None] = {}
    known = {"": NEWEST, **_known(opsets, warnings)}
    functions = {
        key: replace(function, opsets=_known(function.opsets, warnings)) for key, function in model.functions.items()
    }
    missing = dict.fromkeys(sorted(domains - known.keys()), 1)
    return replace(model, opsets={**known, **missing}, functions=functions), list(warnings)


def _known(opsets: Mapping[str, int], warnings: dict[str, None]) -> dict[str, int]:
    """The versions of operator sets, the standard one not newer than what is known."""
    version = opsets.get("", NEWEST)
    if version < 1:
        raise ModelError(f"operator set version {version} does not exist")
    if version <= NEWEST:
        return dict(opsets)
    warnings[f"operator set {version} is newer than flopwise knows; read as {NEWEST}"] = None
    return {**opsets, "": NEWEST}


def _domains(graph: Graph) -> set[str]:
    """The domains of the nodes of a graph, and of those in its bodies.

    Raises:
        ModelError: a node has no operator.
    """
    operations = graph.operations
    domains = {operation.domain for operation in operations}
    if not all(operation.op for operation in operations):
        nameless = next(node for node in graph.nodes if not node.op)
        raise ModelError(f"node {nameless.name!r} names no operator; the file is damaged")
    if any(operation.may_have_bodies for operation in operations):
        domains.update(*[_domains(body) for node in graph.nodes for body in node.bodies()])
    return domains
