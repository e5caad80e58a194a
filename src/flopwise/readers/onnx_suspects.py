"""Nodes that onnx's C++ shape inference must not see: it does not check them, and ends the process or takes all memory.

Found by giving every operator random inputs and attributes (onnx 1.23.2). Such nodes are told, and stay without shape.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import onnx
from onnx import defs

from flopwise.readers.onnx_types import bodies, describe

#: A domain that onnx does not know; it leaves such operators alone.
_UNKNOWN = "flopwise.suspect"

#: No tensor has a higher rank, so an axis beyond it is a mistake.
_RANK = 1 << 10


def _attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((a.i for a in node.attribute if a.name == name), default)


def _axis(node: onnx.NodeProto) -> str:
    axis = _attribute(node, "axis", -1)
    return "" if abs(axis) < _RANK else f"axis {axis}"


def _batch_dims(node: onnx.NodeProto) -> str:
    dims = _attribute(node, "batch_dims", 0)
    return "" if 0 <= dims < _RANK else f"batch_dims {dims}"


def _num_outputs(node: onnx.NodeProto) -> str:
    number = _attribute(node, "num_outputs", len(node.output))
    return "" if number == len(node.output) else f"num_outputs {number}, but {len(node.output)} outputs"


#: What is wrong with the attributes of a node, by operator; "" if nothing is.
_CHECKS: dict[str, Callable[[onnx.NodeProto], str]] = {
    "GatherND": _batch_dims,
    "LayerNormalization": _axis,
    "RMSNormalization": _axis,
    "Split": _num_outputs,
}


@contextlib.contextmanager
def hidden(model: onnx.ModelProto) -> Iterator[list[str]]:
    """Hide suspect nodes from onnx while the context lasts; what is wrong with each, for warnings."""
    version = next((o.version for o in model.opset_import if o.domain == ""), 1)
    required: dict[str, int] = {}
    long = _long_vectors(model.graph)
    found: list[onnx.NodeProto] = []
    told: list[str] = []
    for node in _all(model):
        op = node.op_type
        if op not in required:
            required[op] = _required(op, version)
        fewest = required[op]
        wrong = "" if fewest <= len(node.input) and "" not in node.input[:fewest] else f"{fewest} inputs are required"
        if op in _CHECKS:
            wrong = wrong or _CHECKS[op](node)
        elif op == "Expand" and not wrong and node.input[1] in long:
            wrong = f"a shape with more than {_RANK} dimensions"
        if wrong:
            told.append(f"{describe(node)} cannot be right ({wrong}), so it has no shape")
            found.append(node)
    for node in found:
        node.domain = _UNKNOWN
    try:
        yield told
    finally:
        for node in found:
            node.domain = ""


def _long_vectors(graph: onnx.GraphProto) -> set[str]:
    """Inputs and initialisers that are too long to be a shape."""
    inputs = {v.name for v in graph.input if _RANK < sum(d.dim_value for d in v.type.tensor_type.shape.dim)}
    return inputs | {t.name for t in graph.initializer if _RANK < sum(t.dims)}


def _all(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """The nodes of standard operators, those in functions and in bodies included."""
    waiting = [model.graph.node, *(f.node for f in model.functions)]
    while waiting:
        for node in waiting.pop():
            if not node.domain:
                yield node
            waiting.extend(b.node for b in bodies(node))


def _required(op: str, version: int) -> int:
    """How many inputs an operator needs; those after them may be left out."""
    try:
        return int(defs.get_schema(op, version).min_input)
    except Exception:  # onnx raises its own SchemaError: no standard operator
        return 0
