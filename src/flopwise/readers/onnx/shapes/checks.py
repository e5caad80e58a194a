"""Shapes that cannot be: operators whose inputs do not fit together, which onnx's inference lets pass.

Another input size often breaks a model at one of a few places: a Reshape or a fully connected layer behind it that was
made for one size, or a convolution for another number of channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx

from flopwise.readers.onnx.types import Shapes, describe, elements

#: The shapes of a node's inputs and its output, None for what is unknown; what does not fit, or "".
_Check = Callable[[onnx.NodeProto, list["tuple[int, ...] | None"], "tuple[int, ...] | None"], str]


def misfits(graph: onnx.GraphProto, shapes: Shapes) -> Iterator[str]:
    """What does not fit, one line for each node."""
    for node in graph.node:
        check = None if node.domain else _CHECKS.get(node.op_type)
        if check is None or not node.output:
            continue
        inputs = [shapes.shape(name) if name else None for name in node.input]
        if wrong := check(node, inputs, shapes.shape(node.output[0])):
            yield f"{describe(node)} {wrong}"


def _attribute(node: onnx.NodeProto, name: str) -> int:
    return next((int(a.i) for a in node.attribute if a.name == name), 0)


def _reshape(node: onnx.NodeProto, inputs: list[tuple[int, ...] | None], output: tuple[int, ...] | None) -> str:
    taken = inputs[0] if inputs else None
    if taken is None or output is None or elements(taken) == elements(output):
        return ""
    return f"makes {output} of {taken}, which has another number of elements"


def _gemm(node: onnx.NodeProto, inputs: list[tuple[int, ...] | None], output: tuple[int, ...] | None) -> str:
    a, b = (*inputs, None, None)[:2]
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return ""
    inner = a[0 if _attribute(node, "transA") else 1], b[1 if _attribute(node, "transB") else 0]
    return "" if inner[0] == inner[1] else f"multiplies {a} by {b}: {inner[0]} columns meet {inner[1]} rows"


def _conv(node: onnx.NodeProto, inputs: list[tuple[int, ...] | None], output: tuple[int, ...] | None) -> str:
    x, w = (*inputs, None, None)[:2]
    if x is None or w is None or len(x) < 3 or len(x) != len(w):
        return ""
    channels = w[1] * (_attribute(node, "group") or 1)
    return "" if x[1] == channels else f"takes {channels} channels, but {x} has {x[1]}"


_CHECKS: dict[str, _Check] = {"Conv": _conv, "Gemm": _gemm, "Reshape": _reshape}
