"""Shapes of onnxruntime's operators that are standard ones with extras, by onnx's own rule for the standard one."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy
from onnx import TypeProto, helper

from flopwise.readers.onnx.shapes.onnxruntime.node import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    Place,
    Rule,
    UnresolvedError,
    ask,
    channels_first,
    channels_last,
    floats,
    make,
)


class _Twin(NamedTuple):
    """A standard operator that another one has the shape of."""

    op: str
    #: Places of its inputs among those of the other operator.
    places: tuple[int, ...] = (0,)
    #: Attributes of the other operator that it does not have.
    without: tuple[str, ...] = ()
    #: Which of these inputs steer and are no data.
    steers: tuple[int, ...] = ()
    #: Where the element type comes from: the place of an input.
    like: int = 0
    #: The element type where no input gives it.
    code: int | None = None


_ACTIVATION = ("activation", "activation_alpha", "activation_beta", "activation_gamma", "activation_params")

_TWINS: dict[str, _Twin] = {
    "FusedConv": _Twin("Conv", (0, 1), _ACTIVATION),
    "FusedGemm": _Twin("Gemm", (0, 1, 2), _ACTIVATION),
    "GatherND": _Twin("GatherND", (0, 1), steers=(1,)),
    "GemmFastGelu": _Twin("MatMul", (0, 1)),
    "GridSample": _Twin("GridSample", (0, 1), ("mode",)),
    "MatMulInteger16": _Twin("MatMul", (0, 1), code=INT32),
    "MatMulIntegerToFloat": _Twin("MatMul", (0, 1), like=2),
    "DynamicQuantizeMatMul": _Twin("MatMul", (0, 1)),
    "MaxpoolWithMask": _Twin("MaxPool"),
    "MulInteger": _Twin("Mul", (0, 2), code=INT32),
    "QLinearAdd": _Twin("Add", (0, 3)),
    "QLinearMul": _Twin("Mul", (0, 3)),
    "QLinearReduceMean": _Twin("ReduceMean"),
    "QLinearWhere": _Twin("Where", (0, 1, 4), steers=(0,), like=1),
    "ReduceSumInteger": _Twin("ReduceMean", code=INT32),
}


def _ask_twin(place: Place, twin: _Twin) -> list[TypeProto | None]:
    types = [_as_taken(place, i, i in twin.steers) for i in twin.places]
    (shape,) = ask(twin.op, types, place.attributes(*twin.without))
    code = place.code(twin.like) if twin.code is None else twin.code
    return [None if shape is None else make(code, shape)]


def _as_taken(place: Place, index: int, steers: bool) -> TypeProto | None:
    """The type of an input in the form that onnx's rules take."""
    if not place.name(index):
        return None
    shape = place.ranked(index)
    if not steers:
        return floats(shape)
    return make(BOOL if place.code(index) == BOOL else INT64, shape)


def _twin_rule(twin: _Twin) -> Rule:
    return lambda place: _ask_twin(place, twin)


def _windowed(op: str, weights: int | None = None, like: int = 0) -> Rule:
    """The rule of a convolution or pooling that keeps channels last; a QLinear one does where channels_last says so.

    Args:
        op: the standard operator.
        weights: place of the weights, None for a pooling.
        like: place of the input that has the element type of the result.
    """

    def rule(place: Place) -> list[TypeProto | None]:
        last = bool(place.attribute("channels_last", int(not place.node.op_type.startswith("QLinear"))))
        x = place.ranked(0)
        if len(x) < 3:
            raise UnresolvedError
        types = [floats(channels_first(x) if last else x)]
        if weights is not None:
            types.append(floats(place.ranked(weights, len(x))))
        (shape,) = ask(op, types, place.attributes("channels_last", *_ACTIVATION))
        if shape is None:
            return []
        return [make(place.code(like), channels_last(shape) if last else shape)]

    return rule


def _turned(place: Place, index: int, side: str) -> tuple[int, ...]:
    """The shape of a factor as MatMul takes it: a transposition of batches first, then one of the last two axes."""
    shape = place.ranked(index)
    if len(shape) > 1 and place.attribute(f"transBatch{side}", 0):
        shape = (*shape[1:-1], shape[0], shape[-1])
    if len(shape) > 1 and place.attribute(f"trans{side}", 0):
        shape = (*shape[:-2], shape[-1], shape[-2])
    return shape


def _fused_matmul(place: Place) -> list[TypeProto | None]:
    (shape,) = ask("MatMul", [floats(_turned(place, 0, "A")), floats(_turned(place, 1, "B"))])
    code = place.code(1 if place.node.op_type == "SparseToDenseMatMul" else 0)
    return [None if shape is None else make(code, shape)]


def _gemm(place: Place) -> list[TypeProto | None]:
    """Gemm of two matrices, quantised (QGemm) or of 8-bit floats (GemmFloat8)."""
    quantized = place.node.op_type == "QGemm"
    factors = [floats(place.ranked(i, 2)) for i in ((0, 3) if quantized else (0, 1))]
    attributes = [a for a in place.node.attribute if a.name in ("transA", "transB")]
    (shape,) = ask("Gemm", factors, attributes)
    code = (place.code(8) if place.name(8) else FLOAT) if quantized else place.attribute("dtype", FLOAT)
    return [None if shape is None else make(code, shape)]


def _transposed(place: Place) -> list[TypeProto | None]:
    """ConvTranspose, whose paddings are an input."""
    pads = place.value(2)
    if place.name(2) and pads is None:
        raise UnresolvedError
    attributes = place.attributes()
    if pads is not None:
        attributes.append(helper.make_attribute("pads", pads.ravel().tolist()))
    (shape,) = ask("ConvTranspose", [floats(place.ranked(0)), floats(place.ranked(1))], attributes)
    return [None if shape is None else make(place.code(0), shape)]


def _padded(place: Place) -> list[TypeProto | None]:
    """Pad, whose paddings may have two axes."""
    pads = place.value(1)
    if pads is None:
        raise UnresolvedError
    flat = pads.ravel().astype(numpy.int64)
    (shape,) = ask("Pad", [floats(place.ranked(0)), make(INT64, flat.shape)], place.attributes(), [None, flat])
    return [None if shape is None else make(place.code(0), shape)]


def _range(place: Place) -> list[TypeProto | None]:
    """Range, whose bounds may be vectors of one number, and whose step is 1 when it is left out."""
    numbers = [place.value(i) if place.name(i) else numpy.array(1) for i in range(3)]
    if any(v is None or v.size != 1 for v in numbers):
        raise UnresolvedError
    start, limit, step = (float(v.ravel()[0]) for v in numbers if v is not None)
    length = max(float(numpy.ceil((limit - start) / step)), 0.0)
    return [make(place.code(0), [int(length)])]


_CONV = _windowed("Conv", 1)

RULES: dict[str, Rule] = {
    **{op: _twin_rule(twin) for op, twin in _TWINS.items()},
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", "SparseToDenseMatMul"), _fused_matmul),
    **dict.fromkeys(("QGemm", "GemmFloat8"), _gemm),
    "ConvTransposeWithDynamicPads": _transposed,
    "NhwcConv": _CONV,
    "NhwcFusedConv": _CONV,
    "NhwcMaxPool": _windowed("MaxPool"),
    "QLinearConv": _windowed("Conv", 3, like=7),
    "QLinearAveragePool": _windowed("AveragePool"),
    "QLinearGlobalAveragePool": _windowed("GlobalAveragePool"),
    "Pad": _padded,
    "Range": _range,
}


def _blocked_conv(place: Place) -> list[TypeProto | None]:
    """W says how many channels there are, those included that fill a block up."""
    x = place.ranked(0)
    types = [floats((x[0], _channels(place), *x[2:])), floats(place.ranked(1))]
    (shape,) = ask("Conv", types, place.attributes(*_ACTIVATION))
    return [None if shape is None else make(place.code(0), shape)]


def _into_blocks(place: Place) -> list[TypeProto | None]:
    """How large a block is no operator says; the weights of the convolutions show it."""
    x = place.ranked(0, 4)
    first = channels_first(x) if place.attribute("channels_last", 0) else x
    convolutions = [n for n in place.graph.node if n.op_type == "Conv" and n.domain == place.node.domain]
    filled = [_channels(place.at(n)) for n in convolutions if n.input[0] == place.node.output[0]]
    if not filled:
        block = math.gcd(*(place.at(n).ranked(1)[0] for n in convolutions)) or 1
        filled = [-(-first[1] // min(block, _LARGEST_BLOCK)) * min(block, _LARGEST_BLOCK)]
    return [make(place.code(0), (first[0], filled[0], *first[2:]))]


#: Channels of a block: 8 or 16, by the processor that the model was optimised for.
_LARGEST_BLOCK = 16


def _channels(place: Place) -> int:
    """The channels that a convolution takes."""
    return int(place.ranked(1)[1] * place.attribute("group", 1))


def _out_of_blocks(place: Place) -> list[TypeProto | None]:
    x = place.ranked(0, 4)
    shape = (x[0], place.positive("channels"), *x[2:])
    return [make(place.code(0), channels_last(shape) if place.attribute("channels_last", 0) else shape)]


def _enlarged(place: Place) -> list[TypeProto | None]:
    x, scales = place.ranked(0), place.attribute("scales", [])
    if len(scales) != len(x):
        raise UnresolvedError
    return [make(place.code(0), (d * n for d, n in zip(x, scales, strict=True)))]


_POOLS = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool")

#: Standard operators with the channels in blocks (``com.microsoft.nchwc``).
BLOCKED: dict[str, Rule] = {
    "Conv": _blocked_conv,
    **{op: _twin_rule(_Twin(op)) for op in _POOLS},
    "ReorderInput": _into_blocks,
    "ReorderOutput": _out_of_blocks,
    "Upsample": _enlarged,
}

#: Standard operators with the channels last (``com.ms.internal.nhwc``).
LAST: dict[str, Rule] = {"Conv": _CONV, **{op: _windowed(op) for op in (*_POOLS, "GlobalLpPool", "LpPool")}}
