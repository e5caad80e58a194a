"""What onnx's inference lets pass or gets wrong: inputs that do not fit together, and windows of pools.

Another input size often breaks a model at one of a few places: a Reshape or a fully connected layer behind it that was
made for one size, or a convolution for another number of channels.

Of pools it counts windows that start behind the image when it rounds up, and one window over an extent of 0 when it
pads to the same size. The standard and onnxruntime count neither: https://onnx.ai/onnx/operators/onnx__MaxPool.html
Of a ConvTranspose whose output_shape is smaller than its input it leaves out the extents.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import onnx
from onnx import TypeProto

from flopwise.operators.extents import windows_rounded_up
from flopwise.readers.onnx.listing import Listed, listed
from flopwise.readers.onnx.types import CONTROL_FLOW, Shapes, bodies, describe, elements, tensor_type

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


_POOLS = frozenset({"AveragePool", "LpPool", "MaxPool"})
_OPERATORS = _POOLS | {"Conv", "ConvInteger", "ConvTranspose", "QLinearConv"}
_SAME = (b"SAME_UPPER", b"SAME_LOWER")

#: What stands in the attributes of nodes that it may miscount.
_MARKS = (b"ceil_mode", b"SAME_", b"output_shape")


def correct_windows(node: onnx.NodeProto, taken: TypeProto | None, made: Mapping[str, TypeProto]) -> None:
    """Put right what onnx infers of a pool or convolution.

    Args:
        node: any node.
        taken: the type of its first input.
        made: the types of its outputs by name; changed.
    """
    if node.domain or node.op_type not in _OPERATORS or taken is None or not _doubtful(node):
        return
    tensor = tensor_type(taken)
    if tensor is None or not tensor.HasField("shape"):
        return
    image = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim[2:]]
    for type_ in made.values():
        dims, windows = type_.tensor_type.shape.dim, _windows(node, image)
        while node.op_type == "ConvTranspose" and 2 <= len(dims) < 2 + len(windows):
            dims.add()
        if len(dims) == 2 + len(image):
            for dim, count in zip(dims[2:], windows, strict=False):
                if count is not None:
                    dim.dim_value = count


def windows_miscounted(nodes: Iterable[Listed], shapes: Shapes) -> bool:
    """Whether onnx's inference has miscounted windows, or may have in a body of control flow."""
    for node in nodes:
        if node.domain:
            continue
        if node.op in _OPERATORS:
            if not any(mark in a for a in node.attributes for mark in _MARKS) or not node.inputs:
                continue
            taken, made = shapes.shape(node.inputs[0]), shapes.shape(node.first_output)
            if taken is not None and made is not None and (len(taken) == len(made) or node.op == "ConvTranspose"):
                expected = _windows(node.proto, taken[2:]) if _doubtful(node.proto) else ()
                if any(e is not None and e != m for e, m in itertools.zip_longest(expected, made[2:])):
                    return True
        elif node.op in CONTROL_FLOW and any(map(_doubtful, _inside(node.proto))):
            return True
    return False


def _inside(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """The pools and convolutions in the bodies of a node."""
    for body in bodies(node):
        for inner in body.node:
            if inner.op_type in _OPERATORS and not inner.domain:
                yield inner
            yield from _inside(inner)


def _doubtful(node: onnx.NodeProto) -> bool:
    """Whether onnx may miscount the windows of a pool or convolution."""
    if node.op_type == "ConvTranspose":
        return any(a.name == "output_shape" for a in node.attribute)
    return any((a.name == "ceil_mode" and a.i == 1) or (a.name == "auto_pad" and a.s in _SAME) for a in node.attribute)


def _windows(node: onnx.NodeProto, image: Sequence[int | None]) -> list[int | None]:
    """The windows along each axis of a pool that rounds up or pads to the same size; none where it makes no sense."""
    rank = len(image)
    held = {a.name: a for a in node.attribute}

    def each(name: str, default: Sequence[int]) -> Sequence[int]:
        return (held[name].ints if name in held else ()) or default

    if node.op_type == "ConvTranspose":
        return list(each("output_shape", ())[-rank:])
    mode = held["auto_pad"].s if "auto_pad" in held else b""
    strides = each("strides", [1] * rank)
    if len(strides) != rank or min(strides, default=1) < 1:
        return []
    if mode in _SAME:
        return [n if n is None else -(-n // stride) for n, stride in zip(image, strides, strict=True)]
    kernel, dilations = each("kernel_shape", ()), each("dilations", [1] * rank)
    pads = each("pads", [0] * 2 * rank) if mode != b"VALID" else [0] * 2 * rank
    if node.op_type not in _POOLS or not len(kernel) == len(dilations) == len(pads) / 2 == rank:
        return []
    reaches = [dilation * (size - 1) + 1 for dilation, size in zip(dilations, kernel, strict=True)]
    sides = zip(image, reaches, strides, pads[:rank], pads[rank:], strict=True)
    return [n if n is None else windows_rounded_up(n, *window) for n, *window in sides]
