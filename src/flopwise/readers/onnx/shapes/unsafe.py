"""Nodes that onnx's C++ shape inference must not see: it does not check them, and ends the process or takes all memory.

Found by giving every operator random inputs and attributes (onnx 1.23.2). Such nodes are told, and stay without shape.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import onnx

from flopwise.readers.onnx.types import CONTROL_FLOW, bodies, describe

#: A domain that onnx does not know; it leaves such operators alone.
_UNKNOWN = "flopwise.suspect"

#: No tensor has a higher rank, so an axis beyond it is a mistake, and so is a shape with more dimensions.
_RANK = 1 << 10


def _attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((a.i for a in node.attribute if a.name == name), default)


def _axis(node: onnx.NodeProto, long: set[str]) -> str:
    axis = _attribute(node, "axis", -1)
    return "" if abs(axis) < _RANK else f"axis {axis}"


def _batch_dims(node: onnx.NodeProto, long: set[str]) -> str:
    dims = _attribute(node, "batch_dims", 0)
    return "" if 0 <= dims < _RANK else f"batch_dims {dims}"


def _num_outputs(node: onnx.NodeProto, long: set[str]) -> str:
    number = _attribute(node, "num_outputs", len(node.output))
    return "" if number == len(node.output) else f"num_outputs {number}, but {len(node.output)} outputs"


def _input(node: onnx.NodeProto, long: set[str]) -> str:
    return "" if node.input and node.input[0] else "no input"


def _shape(node: onnx.NodeProto, long: set[str]) -> str:
    return f"a shape with more than {_RANK} dimensions" if long.intersection(node.input[1:2]) else ""


#: What is wrong with a node, by operator; "" if nothing is. ``long`` are the tensors that are too long to be a shape.
_CHECKS: dict[str, Callable[[onnx.NodeProto, set[str]], str]] = {
    "Expand": _shape,
    "EyeLike": _input,
    "GatherND": _batch_dims,
    "LayerNormalization": _axis,
    "RMSNormalization": _axis,
    "RegexFullMatch": _input,
    "Split": _num_outputs,
}

_LOOKED_AT = _CHECKS.keys() | CONTROL_FLOW


@contextlib.contextmanager
def hidden(model: onnx.ModelProto) -> Iterator[list[str]]:
    """Hide suspect nodes from onnx while the context lasts; what is wrong with each, for warnings."""
    told: list[str] = []
    found: list[onnx.NodeProto] = []
    nodes = [n for n in _all(model) if not n.domain]
    long = _long(model.graph) if any(n.op_type == "Expand" for n in nodes) else set()
    for node in nodes:
        if wrong := _CHECKS[node.op_type](node, long):
            told.append(f"{describe(node)} is invalid ({wrong}), so its output has no shape")
            found.append(node)
    holders = (model, *model.functions) if found else ()
    for node in found:
        node.domain = _UNKNOWN
    for holder in holders:
        holder.opset_import.add(domain=_UNKNOWN, version=1)
    try:
        yield told
    finally:
        for node in found:
            node.domain = ""
        for holder in holders:
            holder.opset_import.pop()


def _all(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """The nodes that there is a check for, those in functions and in bodies included."""
    waiting = [model.graph.node, *(f.node for f in model.functions)]
    while waiting:
        for node in [n for n in waiting.pop() if n.domain or n.op_type in _LOOKED_AT]:
            if node.op_type in _CHECKS:
                yield node
            waiting.extend(b.node for b in bodies(node))


def _long(graph: onnx.GraphProto) -> set[str]:
    """Inputs and initialisers that are too long to be a shape."""
    inputs = {v.name for v in graph.input if sum(d.dim_value for d in v.type.tensor_type.shape.dim) > _RANK}
    return inputs | {t.name for t in graph.initializer if sum(t.dims) > _RANK}
