"""Branches that contradict the shapes, and the shapes that must not be written because of them.

A condition such as "is this extent 1?" decides whether a Squeeze runs. With the shapes known, the branch with it may be
impossible, and onnxruntime, which does not know the condition when it checks shapes, refuses the whole model. What the
branch takes, and all that this follows from, then stays as the file has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy
import onnx
from onnx import TypeProto, numpy_helper

from flopwise.readers.onnx.native.inference import Inference
from flopwise.readers.onnx.native.suspects import hidden
from flopwise.readers.onnx.normalize.order import needs
from flopwise.readers.onnx.types import Shapes, bodies, first_output, tensor_type


def forbidden(model: onnx.ModelProto, shapes: Shapes) -> set[str]:
    """Names of tensors whose shape must not be written."""
    taken: set[str] = set()
    for node, fixed in _forks(model.graph, shapes):
        for body in bodies(node):
            names = _captured(body)
            if _refused(model, body, names, fixed, sized=True) and not _refused(model, body, names, fixed, sized=False):
                taken |= names
    return _sources(model.graph, taken) if taken else taken


def _forks(graph: onnx.GraphProto, shapes: Shapes) -> Iterator[tuple[onnx.NodeProto, Shapes]]:
    """Each If, with the shapes of the graph that it is in."""
    for node in graph.node:
        if node.op_type == "If" and not node.domain:
            yield node, shapes
        for inner in shapes.inner.get(first_output(node), ()):
            yield from _forks(inner.graph, inner.shapes)


def _captured(body: onnx.GraphProto) -> set[str]:
    """Names that a body takes from the graphs around it."""
    return needs(onnx.NodeProto(op_type="If", attribute=[onnx.AttributeProto(name="body", g=body)]))


def _refused(model: onnx.ModelProto, body: onnx.GraphProto, names: Iterable[str], shapes: Shapes, sized: bool) -> bool:
    """Whether a body is impossible with what is known about the tensors that it takes, or with their types alone."""
    graph = onnx.GraphProto(name="branch", node=body.node, initializer=body.initializer)
    graph.output.extend(onnx.ValueInfoProto(name=o.name) for o in body.output)
    for name in names:
        value = shapes.values.get(name)
        if sized and isinstance(value, numpy.ndarray):  # no input as well: onnx would not take it for constant
            graph.initializer.append(numpy_helper.from_array(value, name))
            continue
        entry = graph.input.add(name=name, type=shapes.type(name) or TypeProto())
        if not sized and (tensor := tensor_type(entry.type)) is not None:
            tensor.ClearField("shape")
    alone = onnx.ModelProto(graph=graph, opset_import=model.opset_import, ir_version=model.ir_version)
    with hidden(alone):
        try:
            Inference().model(alone, strict=True)
        except Exception:  # onnx raises several kinds
            return True
    return False


def _sources(graph: onnx.GraphProto, names: set[str]) -> set[str]:
    """The names, and those of all tensors that they follow from, in all graphs."""
    makers: dict[str, set[str]] = {}
    _link(graph, makers)
    sources, waiting = set(names), list(names)
    while waiting:
        new = makers.get(waiting.pop(), set()) - sources
        sources |= new
        waiting.extend(new)
    return sources


def _link(graph: onnx.GraphProto, makers: dict[str, set[str]]) -> None:
    """Enter what each tensor follows from; what flows into a body follows from all that its operator takes."""
    for node in graph.node:
        wanted = needs(node)
        for output in node.output:
            makers.setdefault(output, set()).update(wanted)
        for body in bodies(node):
            _link(body, makers)
            for value in body.input:
                makers.setdefault(value.name, set()).update(wanted)
            for output in node.output:
                makers[output].update(o.name for o in body.output)
