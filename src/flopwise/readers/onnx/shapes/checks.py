"""Shapes that cannot be: operators whose inputs do not fit together, which onnx's inference lets pass.

Another input size often breaks a model at one of a few places: a Reshape or a fully connected layer behind it that was
made for one size, or a convolution for another number of channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import onnx

from flopwise.readers.onnx.listing import Listed, listed
from flopwise.readers.onnx.types import Shapes, describe, elements

#: The shapes of a node's inputs and its output, None for what is unknown; what does not fit, or "".
_Inputs: TypeAlias = tuple["tuple[int, ...] | None", ...]
_Check = Callable[[onnx.NodeProto, _Inputs, "tuple[int, ...] | None"], str]


def note_faults(nodes: Iterable[Listed], shapes: Shapes) -> Iterator[str]:
    """What does not fit, one line for each node, those in bodies included; written down in ``shapes`` as well."""
    faults: dict[object, str] = {}  # models repeat themselves
    for node in nodes:
        check = None if node.domain else _CHECKS.get(node.op)
        if check is not None and node.outputs:
            inputs, output = (
                tuple([shapes.shape(name) if name else None for name in node.inputs]),
                shapes.shape(node.outputs[0]),
            )
            case = (node.op, node.attributes, inputs, output)
            fault = faults.get(case)
            if fault is None:
                fault = faults[case] = check(node.proto, inputs, output)
            if fault:
                shapes.faults[node.first_output] = fault
        if shapes.faults and (fault := shapes.faults.get(node.first_output, "")):
            yield f"{describe(node.proto)} {fault}"
        for inner in shapes.inner.get(node.first_output, ()) if shapes.inner else ():
            yield from note_faults(listed(inner.graph), inner.shapes)


def _attribute(node: onnx.NodeProto, name: str, default: int = 0) -> int:
    for attribute in node.attribute:
        if attribute.name == name:
            return int(attribute.i)
    return default


def _reshape(node: onnx.NodeProto, inputs: _Inputs, output: tuple[int, ...] | None) -> str:
    taken = inputs[0] if inputs else None
    if taken is None or output is None or elements(taken) == elements(output):
        return ""
    return f"makes {output} of {taken}, which has another number of elements"


def _gemm(node: onnx.NodeProto, inputs: _Inputs, output: tuple[int, ...] | None) -> str:
    a, b = (*inputs, None, None)[:2]
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return ""
    inner = a[0 if _attribute(node, "transA") else 1], b[1 if _attribute(node, "transB") else 0]
    return "" if inner[0] == inner[1] else f"multiplies {a} by {b}: {inner[0]} columns meet {inner[1]} rows"


def _conv(node: onnx.NodeProto, inputs: _Inputs, output: tuple[int, ...] | None) -> str:
    place = _WEIGHTS.get(node.op_type, 1)
    x, w = (*inputs, None)[0], (*inputs, *(None,) * 4)[place]
    group = _attribute(node, "group", 1)
    if group < 1:
        return f"has group {group}"
    if x is None or w is None or len(x) < 3 or len(x) != len(w):
        return ""
    if node.op_type == "ConvTranspose":
        channels, split = w[0], w[0]
    else:
        channels, split = w[1] * group, w[0]
    if x[1] != channels:
        return f"takes {channels} channels, but {x} has {x[1]}"
    return f"divides {split} channels into {group} groups" if split % group else ""


def _recurrent(node: onnx.NodeProto, inputs: _Inputs, output: tuple[int, ...] | None) -> str:
    x, w, r = (*inputs, None, None, None)[:3]
    gates = {"LSTM": 4, "GRU": 3}.get(node.op_type, 1)
    if x is None or w is None or r is None or not len(x) == len(w) == len(r) == 3:
        return ""
    if x[2] != w[2]:
        return f"takes inputs of {w[2]}, but {x} has {x[2]}"
    if r[1] != gates * r[2] or w[1] != r[1]:
        return f"has weights {w} and {r}, which are not of {gates} gates"
    hidden = _attribute(node, "hidden_size", r[2])
    return "" if hidden == r[2] else f"has hidden_size {hidden}, but weights {r}"


def _per_channel(node: onnx.NodeProto, inputs: _Inputs, output: tuple[int, ...] | None) -> str:
    x, *parameters = inputs or (None,)
    if x is None or len(x) < 2:
        return ""
    for shape in parameters:
        if shape is not None and len(shape) == 1 and shape[0] != x[1]:
            return f"has parameters for {shape[0]} channels, but {x} has {x[1]}"
    return ""


#: Where other convolutions than Conv take their weights.
_WEIGHTS: dict[str, int] = {"QLinearConv": 3}

_CHECKS: dict[str, _Check] = {
    **dict.fromkeys(("Conv", "ConvInteger", "ConvTranspose", "DeformConv", "QLinearConv"), _conv),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _per_channel),
    "Gemm": _gemm,
    "Reshape": _reshape,
}
