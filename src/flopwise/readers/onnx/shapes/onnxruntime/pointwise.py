"""Shapes of onnxruntime's pointwise and packed operators, of its normalisations, and of those that move data."""

from __future__ import annotations

import onnx
from onnx import TypeProto

from flopwise.readers.onnx.shapes.onnxruntime.node import (
    BOOL,
    FLOAT,
    INT8,
    INT32,
    INT64,
    UINT8,
    Place,
    Rule,
    UnresolvedError,
    make,
)

_Types = list["TypeProto | None"]

#: Results that are like the first input.
_ALIKE = """
    BiasAdd BiasGelu BiasSoftmax BranchwiseRMSNorm ComplexMul ComplexMulConj DecoderAttention FastGelu GatedAdd
    GatedRMSNorm Gelu GroupNorm HyperConnectionPostMix Inverse LongformerAttention MoE MRotaryEmbedding
    QLinearLeakyRelu QLinearSigmoid QLinearSoftmax QMoE QOrderedAttention QOrderedGelu QOrderedLayerNormalization
    QOrderedLongformerAttention QuickGelu RotaryEmbedding SampleOp ScaledSiLU SimplifiedLayerNormalization Trilu
"""


def alike(place: Place) -> _Types:
    return [place.type(0)]


def _both_alike(place: Place) -> _Types:
    return [place.type(0), place.type(0)]


def _typed(code: int) -> Rule:
    """The rule of a result of a given type that has the shape of the first input."""
    return lambda place: [make(code, place.ranked(0))]


def _quantized(place: Place) -> _Types:
    return [make(place.code(2) if place.name(2) else UINT8, place.ranked(0))]


def _dequantized(place: Place) -> _Types:
    return [make(place.code(1), place.ranked(0))]


def _typed_as(attribute: str) -> Rule:
    """The rule of a result that has the shape of the first input and the type of an attribute."""
    return lambda place: [make(place.attribute(attribute, FLOAT), place.ranked(0))]


def _with_flags(place: Place) -> _Types:
    return [place.type(0), make(BOOL, place.ranked(0))]


def _with_bits(place: Place) -> _Types:
    """The flags of 32 elements share an integer."""
    elements = 1
    for dim in place.ranked(0):
        elements *= dim
    return [place.type(0), make(onnx.TensorProto.UINT32, [-(-elements // 32)])]


def _skip_norm(place: Place) -> _Types:
    shape = place.ranked(0)
    means = make(FLOAT, (*shape[:-1], 1))
    return [place.type(0), means, means, place.type(0)]


def _embedded(place: Place) -> _Types:
    ids, words = place.ranked(0, 2), place.ranked(2, 2)
    code = place.code(8 if place.node.op_type == "QEmbedLayerNormalization" else 2)
    whole = make(code, (*ids, words[1]))
    return [whole, make(INT32, ids[:1]), whole]


def _halved(place: Place) -> _Types:
    shape = place.ranked(0)
    return [make(place.code(0), (*shape[:-1], shape[-1] // 2))]


def _columns(place: Place) -> _Types:
    """The product with packed weights of N columns, or of K when it is transposed; what was added before follows."""
    columns = place.positive("N" if place.attribute("transB", 1) else "K")
    return [make(place.code(0), (*place.ranked(0)[:-1], columns)), place.type(0)]


def _block_columns(place: Place) -> _Types:
    return [make(place.code(0), (*place.ranked(0)[:-1], place.ranked(1, 2)[0]))]


def _told_columns(place: Place) -> _Types:
    shape = place.value(2)
    if shape is None or shape.size != 2:
        raise UnresolvedError
    return [make(place.code(0), (*place.ranked(0)[:-1], int(shape.ravel()[1])))]


def _three_products(place: Place) -> _Types:
    shape, code = place.ranked(0), place.code(0)
    columns = [place.positive(name) for name in ("Nq", "Nkv", "Nkv")]
    return [*(make(code, (*shape[:-1], n)) for n in columns), place.type(0)]


def _ordered_matmul(place: Place) -> _Types:
    """Whether B is stored by columns or not, its shape is that of the product's factor."""
    a, b = place.ranked(0, 2, 3), place.ranked(2, 2)
    return [make(INT8, (*a[:-1], b[1]))]


def _concatenated(place: Place) -> _Types:
    shapes = [place.ranked(i) for i in range(2, len(place.node.input), 3)]
    axis = place.attribute("axis", 0)
    if not shapes or len({len(s) for s in shapes}) > 1 or not -len(shapes[0]) <= axis < len(shapes[0]):
        raise UnresolvedError
    dims = list(shapes[0])
    dims[axis] = sum(s[axis] for s in shapes)
    return [make(place.code(2), dims)]


def _expanded(place: Place) -> _Types:
    dims, axis = list(place.ranked(0)), place.number(1)
    if axis is None or not -len(dims) - 1 <= axis <= len(dims):
        raise UnresolvedError
    dims.insert(axis if axis >= 0 else axis + len(dims) + 1, 1)
    return [make(place.code(0), dims)]


def _pairs(place: Place) -> _Types:
    return [make(place.code(0), (place.ranked(0, 2)[0], place.ranked(1, 2)[0]))]


def _spectrum(place: Place) -> _Types:
    shape = place.ranked(0)
    bins = shape[-1] // 2 + 1 if place.attribute("onesided", 1) else shape[-1]
    return [make(place.code(0), (*shape[:-1], bins, 2))]


def _signal(place: Place) -> _Types:
    shape = place.ranked(0)
    length = 2 * (shape[-2] - 1) if place.attribute("onesided", 1) else shape[-2]
    return [make(place.code(0), (*shape[:-2], length))]


def _looked_up(place: Place) -> _Types:
    return [make(place.code(0), (*place.ranked(1), *place.ranked(0)[1:]))]


def _gathered(place: Place) -> _Types:
    """Several elements share a byte of the table, along its last axis."""
    data, indices = place.ranked(0), place.ranked(1)
    axis, packed = place.attribute("gather_axis", 0), 8 // place.attribute("bits", 4) if place.code(0) == UINT8 else 1
    dims = [*data[:-1], data[-1] * packed]
    if not -len(dims) <= axis < len(dims):
        raise UnresolvedError
    axis %= len(dims)
    return [make(place.code(2), (*dims[:axis], *indices, *dims[axis + 1 :]))]


def _unfolded(place: Place) -> _Types:
    dims, axis = list(place.ranked(0)), place.attribute("dim", -1)
    size, step = place.positive("size"), place.attribute("step", 1)
    if not -len(dims) <= axis < len(dims) or step < 1 or dims[axis] < size:
        raise UnresolvedError
    dims[axis] = (dims[axis] - size) // step + 1
    return [make(place.code(0), (*dims, size))]


def _cropped(place: Place) -> _Types:
    size = place.value(3)
    if size is None or size.size != 2:
        raise UnresolvedError
    return [make(place.code(0), (place.ranked(1, 2)[0], place.ranked(0, 4)[1], *map(int, size.ravel())))]


def _position_bias(place: Place) -> _Types:
    query, key = place.number(1), place.number(2)
    if query is None or key is None:
        raise UnresolvedError
    return [make(place.code(0), (1, place.ranked(0, 2)[1], query, key))]


def _gated_bias(place: Place) -> _Types:
    relative, offset = place.ranked(2, 4), place.shape(6)
    batch = offset[0] if offset else place.ranked(0, 3)[0]
    return [make(place.code(0), (batch, *relative[1:]))]


def _rotated(place: Place) -> _Types:
    return [place.type(1), place.type(3)]


def _without_padding(place: Place) -> _Types:
    """How many tokens are no padding is data."""
    x = place.ranked(0, 3)
    return [None, make(INT32, x[:2]), make(INT32, (x[0] + 1,)), make(INT32, (1,))]


def _restored(place: Place) -> _Types:
    return [make(place.code(0), (*place.ranked(1, 2), place.ranked(0)[-1]))]


def _scalar(place: Place) -> _Types:
    return [make(BOOL, ())]


def _blocks(place: Place) -> _Types:
    """How many bytes there are is the type's own; its shape and strides have a number for each axis."""
    rank = len(place.ranked(0))
    return [None, make(INT64, (rank,)), make(INT64, (rank,))]


def _from_blocks(place: Place) -> _Types:
    shape = place.value(1)
    if shape is None:
        raise UnresolvedError
    return [make(place.attribute("dtype", FLOAT), map(int, shape.ravel()))]


RULES: dict[str, Rule] = {
    **dict.fromkeys(_ALIKE.split(), alike),
    "SkipGroupNorm": _both_alike,
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _skip_norm),
    **dict.fromkeys(("EmbedLayerNormalization", "QEmbedLayerNormalization"), _embedded),
    "BiasDropout": _with_flags,
    **dict.fromkeys(("BitmaskDropout", "BitmaskBiasDropout"), _with_bits),
    "BiasSplitGelu": _halved,
    "IsAllFinite": _scalar,
    "QuantizeLinear": _quantized,
    "DequantizeLinear": _dequantized,
    "QuantizeWithOrder": _typed(INT8),
    "DequantizeWithOrder": _typed_as("to"),
    "QuantizeBFP": _blocks,
    "DequantizeBFP": _from_blocks,
    **dict.fromkeys(("MatMulNBits", "MatMulBnb4", "MatMulNBitsMlp"), _columns),
    **dict.fromkeys(("MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight"), _block_columns),
    "MatMulFpQ4": _told_columns,
    "MatMulNBitsQkv": _three_products,
    "QOrderedMatMul": _ordered_matmul,
    "QLinearConcat": _concatenated,
    "ExpandDims": _expanded,
    "CDist": _pairs,
    "Rfft": _spectrum,
    "Irfft": _signal,
    "TorchEmbedding": _looked_up,
    "GatherBlockQuantized": _gathered,
    "UnfoldTensor": _unfolded,
    "CropAndResize": _cropped,
    "RelativePositionBias": _position_bias,
    "GatedRelativePositionBias": _gated_bias,
    "GemmaRotaryEmbedding": _rotated,
    "RemovePadding": _without_padding,
    "RestorePadding": _restored,
}
