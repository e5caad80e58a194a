"""Branches that do not run, and the shapes that must not be written because of them.

A condition such as "is this extent 1?" decides whether a Squeeze runs. With the shapes known, the branch with it may be
impossible, and onnxruntime, which does not know the condition when it checks shapes, refuses the whole model. What the
branch takes, and all that this follows from, then stays as the file has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flopwise.readers.onnx.file.literal import elements
from flopwise.readers.onnx.file.model import Graph, Model, Node
from flopwise.readers.onnx.normalize.sorting import needs
from flopwise.sizes.control import run
from flopwise.sizes.loops import FLOWS
from flopwise.sizes.program import captured
from flopwise.sizes.run import Pass
from flopwise.sizes.scope import Scope


def forbidden(model: Model, shapes: Scope) -> set[str]:
    """Names of tensors whose shape must not be written."""
    names_of_tensors: set[str] = set()
    for node, around in _forks(model.graph, shapes):
        for body in node.bodies():
            names = set(captured(body))
            if _refused(model, body, names, around, sized=True) and not _refused(
                model, body, names, around, sized=False
            ):
                names_of_tensors |= names
    return _sources(model.graph, names_of_tensors) if names_of_tensors else names_of_tensors


def _forks(graph: Graph, shapes: Scope) -> Iterator[tuple[Node, Scope]]:
    """Each If, with the shapes of the graph that it is in."""
    for node in graph.nodes:
        if node.op == "If" and not node.domain:
            yield node, shapes
        for inner in shapes.inner.get(node.first_output, ()):
            body: Any = inner.graph
            yield from _forks(body, inner.scope)


def _refused(model: Model, body: Graph, names: set[str], shapes: Scope, sized: bool) -> bool:
    """True where a body contradicts what is known about the tensors that it takes, or their types alone."""
    one, scope = Pass(model.opsets, elements, flows=FLOWS), Scope()
    for name in names:
        fact = shapes.of(name)
        scope.tensors[name] = fact if sized or fact.kind != "tensor" else one.facts.tensor(fact.dtype, None)
    return bool(run(one, body, [], scope).scope.faults)


def _sources(graph: Graph, names: set[str]) -> set[str]:
    """The names, and those of all tensors that they follow from, in all graphs."""
    makers: dict[str, set[str]] = {}
    _link(graph, makers)
    sources, waiting = set(names), list(names)
    while waiting:
        new = makers.get(waiting.pop(), set()) - sources
        sources |= new
        waiting.extend(new)
    return sources


def _link(graph: Graph, makers: dict[str, set[str]]) -> None:
    """Enter what each tensor follows from; what flows into a body follows from all that its operator takes."""
    for node in graph.nodes:
        inputs = needs(node)
        for output in node.outputs:
            makers.setdefault(output, set()).update(inputs)
        for body in node.bodies():
            _link(body, makers)
            for value in body.inputs:
                makers.setdefault(value.name, set()).update(inputs)
            for output in node.outputs:
                makers[output].update(value.name for value in body.outputs)
