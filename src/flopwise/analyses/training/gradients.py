"""The tensors that get a gradient, and the operators that run backward to make it.

A program says of each tensor whether it asks for a gradient, as autograd decided. In a file the trained weights ask,
and every floating-point result that depends on one; the model's inputs do not. From there the walk goes back from the
outputs: what reaches none of them gets no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from flopwise.graph import Graph, Node, Tensor
from flopwise.graph.dtypes import is_float
from flopwise.operators.own import with_rows_of_graph
from flopwise.operators.tables import row
from flopwise.profiles.count import trainable


@dataclass(frozen=True, slots=True, eq=False)
class Gradients:
    """The way of the gradients through a graph."""

    #: For each node the places of the inputs whose gradient it has to make; empty where it does not run backward.
    wrt: tuple[frozenset[int], ...]
    #: For each node the additions that join its gradients with those of later uses of the same tensors; None where a
    #: shape is missing.
    joins: tuple[int | None, ...]
    #: The weights that get a gradient, each once.
    trained: tuple[Tensor, ...]
    #: Whether an output of the model gets one at all.
    reached: bool


@with_rows_of_graph
def gradients(graph: Graph) -> Gradients:
    """The way of the gradients from the graph's outputs back to its trained weights."""
    asks: Callable[[Tensor], bool] = attrgetter("grad") if graph.program.recorded else _derived(graph)
    starts = [t for t in graph.outputs if asks(t)]
    owners = _owners(graph)
    arrived: set[str] = {t.name for t in starts}
    wrt: list[frozenset[int]] = [frozenset()] * len(graph.nodes)
    joins: list[int | None] = [0] * len(graph.nodes)
    trained: dict[str, Tensor] = {}
    for position in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[position]
        inside = any(t.name in arrived for owner in owners(node) for t in owner.known_outputs)
        asked = any(map(asks, node.known_outputs)) and any(t.name in arrived for t in node.known_outputs)
        if not inside and not asked:
            continue
        places = _places(node, asks)
        wrt[position] = places
        for place in sorted(places):
            tensor = node.input(place)
            if tensor.name in arrived:
                so_far = joins[position]
                joins[position] = None if so_far is None or not tensor.resolved else so_far + tensor.numel
            arrived.add(tensor.name)
            if tensor.kind == "weight":
                trained.setdefault(tensor.name, tensor)
    return Gradients(tuple(wrt), tuple(joins), tuple(reversed(trained.values())), bool(starts))


def _places(node: Node, asks: Callable[[Tensor], bool]) -> frozenset[int]:
    """The places of the inputs that get a gradient: the differentiable ones that ask for it."""
    operator = row(node.op)
    if "no gradient" in operator.effects:
        return frozenset()
    roles = operator.inputs.places(len(node.inputs))
    places = [place for place, one in roles if one.differentiable] if operator.inputs.first else range(len(node.inputs))
    return frozenset(place for place in places if (t := node.inputs[place]) is not None and asks(t))


def _owners(graph: Graph) -> Callable[[Node], list[Node]]:
    return lambda node: [graph.nodes[body.owner] for body in node.within]


def _derived(graph: Graph) -> Callable[[Tensor], bool]:
    """Of a file: whether a tensor is a trained weight or depends on one.

    What a body of control flow uses flows into the result of its operator, which stands before it: so the walk is
    repeated until nothing new is found.
    """
    names: set[str] = set()

    def asks(tensor: Tensor) -> bool:
        return trainable(tensor) or tensor.name in names

    owners = _owners(graph)
    again = True
    while again:
        before = len(names)
        for node in graph.nodes:
            if not _places(node, asks):
                continue
            for maker in (node, *owners(node)):
                names.update(t.name for t in maker.known_outputs if is_float(t.dtype) or t.items is not None)
        again = len(names) > before and any("bodies" in row(node.op).effects for node in graph.nodes)
    return asks
