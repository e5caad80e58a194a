"""Branches that do not run, and the shapes that must not be written because of them.

A condition such as "is this extent 1?" decides whether a Squeeze runs. With the shapes known, the branch with it may be
impossible, and onnxruntime, which does not know the condition when it checks shapes, refuses the whole model. What the
branch takes, and all that this follows from, then stays as the file has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flopwise.formats.onnx.file.literal import elements
from flopwise.formats.onnx.file.model import Graph, Model, Node
from flopwise.formats.onnx.normalize.sorting import needs
from flopwise.sizes.control import run
from flopwise.sizes.loops import FLOWS
from flopwise.sizes.program import captured
from flopwise.sizes.run import Pass
from flopwise.sizes.scope import Scope


def names_without_shape(model: Model, shapes: Scope) -> set[str]:
    """Names of tensors whose shape must be left out of the file: onnxruntime would refuse a branch that never runs."""
    branch_inputs: set[str] = set()
    for node, around in _ifs(model.graph, shapes):
        for body in node.bodies():
            names = set(captured(body))
            if _contradicts(model, body, names, around, sized=True) and not _contradicts(
                model, body, names, around, sized=False
            ):
                branch_inputs |= names
    return _with_ancestors(model.graph, branch_inputs) if branch_inputs else branch_inputs


def _ifs(graph: Graph, shapes: Scope) -> Iterator[tuple[Node, Scope]]:
    """Each If in a graph and its bodies, with the shapes of the graph that it is in."""
    for node in graph.nodes:
        if node.op == "If" and not node.domain:
            yield node, shapes
        for inner in shapes.inner.get(node.first_output, ()):
            body: Any = inner.graph
            yield from _ifs(body, inner.scope)


def _contradicts(model: Model, body: Graph, names: set[str], shapes: Scope, sized: bool) -> bool:
    """True if a branch contradicts the shapes of the outer tensors that it takes; without ``sized``, their types."""
    one, scope = Pass(model.opsets, elements, flows=FLOWS), Scope()
    for name in names:
        fact = shapes.of(name)
        scope.tensors[name] = fact if sized or fact.kind != "tensor" else one.facts.tensor(fact.dtype, None)
    return bool(run(one, body, [], scope).scope.faults)


def _with_ancestors(graph: Graph, names: set[str]) -> set[str]:
    """The names, and those of all tensors that they are computed from, across all graphs and bodies."""
    inputs_of: dict[str, set[str]] = {}
    _add_inputs(graph, inputs_of)
    sources, waiting = set(names), list(names)
    while waiting:
        new = inputs_of.get(waiting.pop(), set()) - sources
        sources |= new
        waiting.extend(new)
    return sources


def _add_inputs(graph: Graph, inputs_of: dict[str, set[str]]) -> None:
    """Add each tensor -> the tensors that it is computed from to ``inputs_of``, bodies included.

    An input of a body is taken to depend on all inputs of its operator, and its results on all results of the body.
    """
    for node in graph.nodes:
        inputs = needs(node)
        for output in node.outputs:
            inputs_of.setdefault(output, set()).update(inputs)
        for body in node.bodies():
            _add_inputs(body, inputs_of)
            for value in body.inputs:
                inputs_of.setdefault(value.name, set()).update(inputs)
            for output in node.outputs:
                inputs_of[output].update(value.name for value in body.outputs)
