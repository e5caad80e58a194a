"""The kind of each stored tensor of a subgraph, by the rules that hold for ONNX: a file says nothing of training."""

from __future__ import annotations

import math
from collections.abc import Iterable

from flopwise.formats.onnx.file.model import Node as Taker
from flopwise.formats.onnx.file.model import Operation
from flopwise.formats.onnx.file.roles import kind_of, row_of, uses
from flopwise.graph import Kind
from flopwise.readers.subgraphs.program import Graph, Node


def roles(graph: Graph) -> dict[str, Kind]:
    """Kinds of the stored tensors of a subgraph by their names in the program."""
    takers, carried = _takers(graph)
    taken = uses(takers, graph.initializers, [taker.operation for taker in takers])
    products = _weights_of_products(takers)
    found: dict[str, Kind] = {}
    for name, stored in graph.initializers.items():
        floating = stored.dtype.startswith(("float", "bfloat", "complex"))
        if not floating and graph.tensors[name].quantization is None:
            found[name] = "constant"
        elif name not in products and (name in carried or math.prod(stored.dims) <= 1):
            found[name] = "constant"  # where a loop starts, or a factor or an epsilon
        else:
            found[name] = kind_of(stored.dtype if floating else "float32", len(stored.dims) or 1, taken.get(name, ()))
    return found


def _weights_of_products(takers: Iterable[Taker]) -> set[str]:
    """The names of what products take as their weights and biases."""
    names: set[str] = set()
    for taker in takers:
        roles_of = row_of(taker.domain, taker.op).inputs
        if roles_of.has_factors:
            names.update(name for place, name in enumerate(taker.inputs) if roles_of.input(place).role == "weight")
    return names


def _takers(graph: Graph) -> tuple[list[Taker], set[str]]:
    """The operators of a subgraph, bodies in place of what runs them, and the names of what loops change.

    Their inputs are in the order of the house's signatures.
    """
    takers: list[Taker] = []
    carried: set[str] = set()
    for node in graph.nodes:
        bodies = [body for body in node.attributes.values.values() if isinstance(body, Graph)]
        if not bodies:
            domain, _, op = node.lowered.op.rpartition("::")
            takers.append(Taker(Operation(op, domain), node.name, _inputs(node), node.outputs))
        for body in bodies:
            given = node.inputs[1:] if node.op == "If" else node.inputs
            outside = {start.name: name for start, name in zip(body.inputs, given, strict=False)}
            inner, changed = _takers(body)
            if node.op == "Loop":
                changed |= _changed(node.attributes.values["body"])
            carried.update(outside.get(name, name) for name in changed)
            for taker in inner:
                names = tuple([outside.get(name, name) for name in taker.inputs])
                takers.append(taker._replace(inputs=names))
    return takers, carried


def _changed(body: object) -> set[str]:
    """The inputs of a loop's body that the next iteration gets from this one; the others it gets as they were."""
    if not isinstance(body, Graph):
        return set()
    origin: dict[str, str] = {}
    for node in body.nodes:
        if node.op == "Identity" and node.inputs and node.outputs:
            origin[node.outputs[0]] = origin.get(node.inputs[0], node.inputs[0])
    ends = zip(body.inputs, body.outputs, strict=False)
    return {start.name for start, end in ends if origin.get(end.name, end.name) != start.name}


def _inputs(node: Node) -> tuple[str, ...]:
    places = node.lowered.inputs
    if places is None or not node.lowered.as_in_file:
        return node.inputs
    return tuple([node.given[place] if 0 <= place < len(node.given) else "" for place in places])
