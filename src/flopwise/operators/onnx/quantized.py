"""Quantised operators: the same products as their floating-point twins, and what quantisation adds to them.

What a plain kernel does besides the products, once for each element and not once for each product:

- it subtracts a zero point from every element of the operand that has one. Whether the zero point is 0 is in its value,
  which no rule sees, and whether an operand is a constant is no matter of the operator: so both operands count;
- it turns a sum into the output's type: one multiplication by the ratio of the scales, one rounding (1 cmp, as Round),
  one addition of the zero point, and saturation between the two bounds of the type (2 cmp, as Clip).
"""

from __future__ import annotations

from flopwise.graph import Node, Shape
from flopwise.operators import shape
from flopwise.operators.counts import Counts
from flopwise.operators.extents import broadcast, extent, product
from flopwise.operators.inputs import (
    DATA,
    FACTOR,
    QLINEAR_CONV,
    SCALE,
    WIDE_BIAS,
    ZERO_POINT,
    factor,
    inputs,
    operand,
    scale,
    zero_point,
)
from flopwise.operators.operator import Operator, by

#: Rounding to one of the two neighbouring integers, and saturation between the bounds of the type.
_ROUND = Counts(cmp=1)
_SATURATE = Counts(cmp=2)

#: From a sum to the output's type: times the ratio of the scales, rounded, plus the zero point, saturated.
_REQUANTIZE = Counts(mul=1, add=1) + _ROUND + _SATURATE

#: Types whose zero point is 0 by their definition; where it is given, it only names the type.
_NO_ZERO_POINT = ("float8", "float6", "float4")


def _narrow_float(dtype: str | None) -> bool:
    return dtype is not None and dtype.startswith(_NO_ZERO_POINT)


def quantize(node: Node) -> Counts:
    """numel(X) × (1 div + 3 cmp), and 1 add when y_zero_point is given: round(x / scale) + zero point, saturated; to a
    narrow float numel(X) × (1 div + 2 cmp), saturate = 0: 1 div.

    The same per tensor, per axis and per block: each element has one scale. Rounding to a narrow float is part of
    converting the type, which computes nothing; its zero point is always 0.

    https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html
    """
    once = Counts(div=1)
    dtype = node.output().dtype
    if not _narrow_float(dtype):
        once += _ROUND + _SATURATE + Counts(add=1 if node.has_input(2) else 0)
    elif node.attrs.get("saturate", 1) or not (dtype or "").startswith("float8"):
        once += _SATURATE
    return once * node.input(0).numel


def dequantize(node: Node) -> Counts:
    """numel(X) × 1 mul, and 1 add when x_zero_point is given: (x − zero point) × scale; no add from a narrow float.

    The same per tensor, per axis and per block: each element has one scale. The zero point of a narrow float is always
    0. On constants alone the operator is folded and costs nothing.

    https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html
    """
    x = node.input(0)
    shifted = node.has_input(2) and not _narrow_float(x.dtype)
    return Counts(mul=1, add=int(shifted)) * x.numel


def dynamic_quantize(node: Node) -> Counts:
    """numel(X) × (5 cmp + 1 div + 1 add) + 5 cmp + 2 div + 2 add: minimum and maximum of X and 0, scale and zero point
    from them, then QuantizeLinear.

    https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html
    """
    extremes = Counts(cmp=2)
    each = extremes + Counts(div=1, add=1) + _ROUND + _SATURATE
    return each * node.input(0).numel + Counts(cmp=2, add=2, div=2) + _ROUND + _SATURATE


def _shifts(node: Node, operands: dict[int, int]) -> Counts:
    """One subtraction for each element of the operands whose zero point is given.

    Args:
        node: the node.
        operands: place of an operand among the inputs -> place of its zero point.
    """
    return Counts(add=sum(node.input(x).numel for x, zero in operands.items() if node.has_input(zero)))


def conv_integer(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac, numel(X) add when x_zero_point is given, numel(W) add when w_zero_point is.

    Padding is made after the subtraction, of zeros, and its products count.

    https://onnx.ai/onnx/operators/onnx__ConvInteger.html
    """
    work = Counts(mac=node.output().numel * product(node.input(1).dims[1:]))
    return work + _shifts(node, {0: 2, 1: 3})


def qlinear_conv(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac, numel(X) + numel(W) add (zero points), numel(Y) add when B is given; numel(Y) ×
    (1 mul + 1 add + 3 cmp) to requantise, and the ratios of the scales, numel(w_scale) × (1 mul + 1 div).

    https://onnx.ai/onnx/operators/onnx__QLinearConv.html
    """
    outputs = node.output().numel
    work = Counts(mac=outputs * product(node.input(3).dims[1:]), add=outputs if node.has_input(8) else 0)
    ratios = Counts(mul=1, div=1) * node.input(4).numel
    return work + _shifts(node, {0: 2, 3: 5}) + _REQUANTIZE * outputs + ratios


def matmul_integer(node: Node) -> Counts:
    """numel(Y) × K mac, K the last extent of A; numel(A) add when a_zero_point is given, numel(B) add when
    b_zero_point is.

    https://onnx.ai/onnx/operators/onnx__MatMulInteger.html
    """
    work = Counts(mac=node.output().numel * extent(node, node.input(0), -1))
    return work + _shifts(node, {0: 2, 1: 3})


def qlinear_matmul(node: Node) -> Counts:
    """numel(Y) × K mac, K the last extent of A; numel(A) + numel(B) add (zero points); numel(Y) × (1 mul + 1 add + 3
    cmp) to requantise, and 1 mul + 1 div for each ratio of the scales.

    There is one ratio, or one for each row of A, for each column of B, or for both.

    https://onnx.ai/onnx/operators/onnx__QLinearMatMul.html
    """
    outputs = node.output().numel
    work = Counts(mac=outputs * extent(node, node.input(0), -1))
    ratios = product(broadcast(_of_rows(node.input(1).dims), node.input(4).dims, _of_rows(node.input(6).dims)))
    return work + _shifts(node, {0: 2, 3: 5}) + _REQUANTIZE * outputs + Counts(mul=1, div=1) * ratios


def _of_rows(scales: Shape) -> Shape:
    """The shape of the scales of rows, beside those of columns: a vector has one scale for each row."""
    return (*scales, 1) if len(scales) == 1 else scales


OPERATORS: dict[str, Operator] = {
    "QuantizeLinear": by(
        quantize,
        inputs=inputs(DATA, SCALE, ZERO_POINT),
        effects=frozenset({"quantizes"}),
        shape=shape.alike,
        dtype=shape.dtypes("making:quantized_type"),
    ),
    "DequantizeLinear": by(
        dequantize,
        inputs=inputs(WIDE_BIAS, scale(0), zero_point(0)),
        effects=frozenset({"dequantizes"}),
        shape=shape.alike,
        dtype=shape.dtype_of("output_dtype", 1),
    ),
    "DynamicQuantizeLinear": by(
        dynamic_quantize, shape="making:dynamically_quantized", dtype=("uint8", "float32", "uint8")
    ),
    "ConvInteger": by(
        conv_integer,
        inputs=inputs(FACTOR, factor("conv"), zero_point(0), zero_point(1)),
        shape="windows:conv",
        dtype="int32",
    ),
    "MatMulInteger": by(
        matmul_integer,
        inputs=inputs(factor("left"), factor("right"), zero_point(0, axis=-2), zero_point(1, axis=-1)),
        shape="algebra:matmul",
        dtype="int32",
    ),
    "QLinearConv": by(qlinear_conv, inputs=QLINEAR_CONV, shape="windows:conv", dtype=7),
    "QLinearMatMul": by(
        qlinear_matmul,
        inputs=inputs(*operand(0, "left", axis=-2), *operand(3, "right", axis=-1), SCALE, ZERO_POINT),
        shape="algebra:matmul",
        dtype=7,
    ),
}
