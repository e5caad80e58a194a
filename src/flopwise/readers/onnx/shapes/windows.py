"""How many windows a pool lays over its image, where onnx's inference miscounts them.

It counts windows that start behind the image when it rounds up, and one window over an extent of 0 when it pads to the
same size. The standard and onnxruntime count neither.
https://onnx.ai/onnx/operators/onnx__MaxPool.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx
from onnx import TypeProto

from flopwise.operators.extents import windows_rounded_up
from flopwise.readers.onnx.listing import Listed
from flopwise.readers.onnx.types import CONTROL_FLOW, Shapes, bodies, tensor_type

_POOLS = frozenset({"AveragePool", "LpPool", "MaxPool"})
_OPERATORS = _POOLS | {"Conv", "ConvInteger", "QLinearConv"}
_SAME = (b"SAME_UPPER", b"SAME_LOWER")


def correct(node: onnx.NodeProto, taken: TypeProto | None, made: Mapping[str, TypeProto]) -> None:
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
        dims = type_.tensor_type.shape.dim[2:]
        if len(dims) == len(image):
            for dim, windows in zip(dims, _windows(node, image), strict=False):
                if windows is not None:
                    dim.dim_value = windows


def miscounted(nodes: Iterable[Listed], shapes: Shapes) -> bool:
    """Whether onnx's inference has miscounted windows, or may have in a body of control flow."""
    for node in nodes:
        if node.domain:
            continue
        if node.op in _OPERATORS:
            if not any(b"ceil_mode" in a or b"SAME_" in a for a in node.attributes) or not node.inputs:
                continue
            taken, made = shapes.shape(node.inputs[0]), shapes.shape(node.first_output)
            if taken is not None and made is not None and len(taken) == len(made):
                expected = _windows(node.proto, taken[2:]) if _doubtful(node.proto) else ()
                if any(e is not None and e != m for e, m in zip(expected, made[2:], strict=False)):
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
    return any((a.name == "ceil_mode" and a.i == 1) or (a.name == "auto_pad" and a.s in _SAME) for a in node.attribute)


def _windows(node: onnx.NodeProto, image: Sequence[int | None]) -> list[int | None]:
    """The windows along each axis of a pool that rounds up or pads to the same size; none where it makes no sense."""
    rank = len(image)
    held = {a.name: a for a in node.attribute}

    def each(name: str, default: Sequence[int]) -> Sequence[int]:
        return (held[name].ints if name in held else ()) or default

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
    return [n if n is None else windows_rounded_up(n, *rest) for n, *rest in sides]
