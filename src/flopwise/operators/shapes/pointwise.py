"""Shapes of pointwise operators with extras, normalisations, and what converts types."""

from __future__ import annotations

from flopwise.operators.shape import Call, ShapeRule, Types


def _typed(dtype: str) -> ShapeRule:
    """The rule of a result of a given type that has the shape of the first input."""
    return lambda call: [call.tensor(dtype, call.ranked(0))]


def quantized(call: Call) -> Types:
    return [call.tensor(call.dtype(2) if call.has(2) else "uint8", call.ranked(0))]


def dequantized(call: Call) -> Types:
    return [call.tensor(call.dtype(1), call.ranked(0))]


def _typed_as(attribute: str) -> ShapeRule:
    """The rule of a result that has the shape of the first input and the type of an attribute."""
    return lambda call: [call.tensor(call.type_attribute(attribute, "float32"), call.ranked(0))]


def with_flags(call: Call) -> Types:
    return [call.type(0), call.tensor("bool", call.ranked(0))]


def with_bits(call: Call) -> Types:
    """The flags of 32 elements share an integer."""
    elements = 1
    for dim in call.ranked(0):
        elements *= dim
    return [call.type(0), call.tensor("uint32", [-(-elements // 32)])]


def skip_norm(call: Call) -> Types:
    shape = call.ranked(0)
    means = call.tensor("float32", (*shape[:-1], 1))
    return [call.type(0), means, means, call.type(0)]


def embedded(call: Call) -> Types:
    ids, words = call.ranked(0, 2), call.ranked(2, 2)
    dtype = call.dtype(8 if call.op == "QEmbedLayerNormalization" else 2)
    whole = call.tensor(dtype, (*ids, words[1]))
    return [whole, call.tensor("int32", ids[:1]), whole]


def halved(call: Call) -> Types:
    shape = call.ranked(0)
    return [call.tensor(call.dtype(0), (*shape[:-1], shape[-1] // 2))]


def gated(call: Call) -> Types:
    """As one half of the projection, which the first input holds whole where there is no second one."""
    return [call.type(0)] if call.has(1) else halved(call)


def norm_rotary(call: Call) -> Types:
    """The heads side by side; the norm by itself has them apart."""
    batch, length, heads, stride = call.ranked(0, 4)
    width = call.attribute("input_width", 0) or stride
    tokens = (1, batch * length) if call.attribute("flatten_batch", 0) else (batch, length)
    dtype = "float16" if call.attribute("output_fp16", 0) else "bfloat16"
    return [call.tensor(dtype, (*tokens, heads * width)), call.tensor("float32", (batch, length, heads, width))]


def scalar(call: Call) -> Types:
    return [call.tensor("bool", ())]


def blocks(call: Call) -> Types:
    """A type's own number of bytes; shapes and strides with a number for each axis."""
    rank = len(call.ranked(0))
    return [None, call.tensor("int64", (rank,)), call.tensor("int64", (rank,))]


def from_blocks(call: Call) -> Types:
    return [call.tensor(call.type_attribute("dtype", "float32"), call.wholes(1))]


to_int8 = _typed("int8")
typed_by_attribute = _typed_as("to")
