"""Quantised operators of ``com.microsoft``: integers in, the operator's own work on them, integers or floats out.

What surrounds the work is counted as for ONNX's quantised operators: one subtraction for each element whose zero
point is given, one multiplication by a scale, and 1 add + 3 cmp to round, shift and saturate a result.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Callable

from flopwise.counts import Counts
from flopwise.graph import Node
from flopwise.ops import linear, pooling, quantized, recurrent
from flopwise.ops.extents import extent, product
from flopwise.ops.operator import Operator, by, nothing

#: From a quantised element to a real one, and back.
TO_REAL = Counts(mul=1, add=1)
TO_QUANTIZED = Counts(div=1, add=1, cmp=3)

#: From the sum of a product to the output's type.
REQUANTIZE = Counts(mul=1, add=1, cmp=3)


def between(once: Counts, words: str) -> Operator:
    """A row for a pointwise operator on one quantised tensor."""

    def rule(node: Node) -> Counts:
        return (TO_REAL + once + TO_QUANTIZED) * node.output().numel

    return Operator(rule, f"numel(Y) × (dequantise 1 mul + 1 add; {words}; quantise 1 div + 1 add + 3 cmp)")


def _two(once: Counts, words: str) -> Operator:
    """A row for a pointwise operator on two quantised tensors."""

    def rule(node: Node) -> Counts:
        operands = node.input(0).numel + node.input(3).numel
        return TO_REAL * operands + (once + TO_QUANTIZED) * node.output().numel

    return Operator(rule, f"(numel(A) + numel(B)) × (1 mul + 1 add) + numel(C) × ({words} + 1 div + 1 add + 3 cmp)")


def average_pool(node: Node) -> Counts:
    """numel(X) × (1 mul + 1 add), as AveragePool, and numel(Y) × (1 div + 1 add + 3 cmp).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearAveragePool
    """
    return _around(node, pooling.average_pool)


def global_average_pool(node: Node) -> Counts:
    """numel(X) × (1 mul + 1 add), as GlobalAveragePool, and numel(Y) × (1 div + 1 add + 3 cmp).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearGlobalAveragePool
    """
    return _around(node, pooling.global_average_pool)


def reduce_mean(node: Node) -> Counts:
    """numel(X) × (1 mul + 2 add) + numel(Y) div, and numel(Y) × (1 div + 1 add + 3 cmp).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearReduceMean
    """
    return _around(node, pooling.global_average_pool)


def _around(node: Node, rule: Callable[[Node], Counts]) -> Counts:
    return TO_REAL * node.input(0).numel + rule(node) + TO_QUANTIZED * node.output().numel


def softmax(node: Node) -> Counts:
    """numel(X) × (1 mul + 1 add + 1 cmp + 2 add + 1 exp + 1 div), and numel(Y) × (1 div + 1 add + 3 cmp).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearSoftmax
    """
    return (TO_REAL + Counts(cmp=1, add=2, exp=1, div=1) + TO_QUANTIZED) * node.output().numel


def concat(node: Node) -> Counts:
    """numel(Y) × (1 mul + 1 add + 1 div + 1 add + 3 cmp): each element from its input's scale to the output's.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearConcat
    """
    return (TO_REAL + TO_QUANTIZED) * node.output().numel


def matmul_integer_to_float(node: Node) -> Counts:
    """numel(Y) × K mac; numel(A) add and numel(B) add where their zero points are given; numel(b_scale) mul (the
    product of the scales) + numel(Y) mul, and numel(Y) add when bias is given.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulIntegerToFloat
    """
    return _to_float(node, scales=3, zeros={0: 4, 1: 5}, bias=6)


def dynamic_quantize_matmul(node: Node) -> Counts:
    """DynamicQuantizeLinear of A: numel(A) × (5 cmp + 1 div + 1 add) + 8 cmp + 2 div + 2 add; then as
    MatMulIntegerToFloat, A with a zero point.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DynamicQuantizeMatMul
    """
    work = quantized.dynamic_quantize(Node("DynamicQuantizeLinear", node.name, (node.input(0),), ()))
    return work + Counts(add=node.input(0).numel) + _to_float(node, scales=2, zeros={1: 3}, bias=4)


def _to_float(node: Node, scales: int, zeros: dict[int, int], bias: int) -> Counts:
    outputs = node.output().numel
    shifts = sum(node.input(x).numel for x, zero in zeros.items() if node.has_input(zero))
    scaled = outputs + (node.input(scales).numel if node.has_input(scales) else 1)
    biased = outputs if node.has_input(bias) else 0
    return Counts(mac=outputs * extent(node, node.input(0), -1), add=shifts + biased, mul=scaled)


def gemm(node: Node) -> Counts:
    """numel(Y) × K mac; numel(A) add and numel(B) add (zero points); numel(Y) add when C is given; the product of the
    scales, numel(b_scale) mul; y_scale: numel(Y) × (1 mul + 1 add + 3 cmp) and numel(b_scale) div, else numel(Y) mul.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QGemm
    """
    a, outputs, scales = node.input(0), node.output().numel, node.input(4).numel
    inner = extent(node, a, -2 if node.attrs.get("transA", 0) else -1)
    shifts = sum(node.input(x).numel for x, zero in ((0, 2), (3, 5)) if node.has_input(zero))
    work = Counts(mac=outputs * inner, add=shifts + (outputs if node.has_input(6) else 0), mul=scales)
    return work + (REQUANTIZE * outputs + Counts(div=scales) if node.has_input(7) else Counts(mul=outputs))


def ordered_matmul(node: Node) -> Counts:
    """numel(Y) × K mac, numel(Y) add when bias is given, numel(C) mul and numel(Y) add when C is given, and numel(Y)
    × (1 mul + 1 add + 3 cmp) to requantise.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QOrderedMatMul
    """
    outputs = node.output().numel
    work = Counts(mac=outputs * extent(node, node.input(0), -1), add=outputs if node.has_input(5) else 0)
    if node.has_input(6):
        work += Counts(mul=node.input(6).numel, add=outputs)
    return work + REQUANTIZE * outputs


def integer_product(node: Node) -> Counts:
    """numel(Y) × K mac: a product of 16-bit integers.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulInteger16
    """
    return linear.matmul(node)


def multiply(node: Node) -> Counts:
    """numel(C) mul; numel(A) add and numel(B) add where their zero points are given.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MulInteger
    """
    places = ((0, 1), (2, 3))
    return Counts(mul=node.output().numel, add=sum(node.input(x).numel for x, zero in places if node.has_input(zero)))


def lstm(node: Node) -> Counts:
    """as LSTM, and what quantises the inputs and states: numel(X) × (5 cmp + 1 div + 1 add), at every step H × the
    same, and 1 mul for each of the 4 H sums of both products.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DynamicQuantizeLSTM
    """
    x, recurrent_weights = node.input(0), node.input(2)
    steps, batch = extent(node, x, 0), extent(node, x, 1)
    directions, hidden = extent(node, recurrent_weights, 0), extent(node, recurrent_weights, 1)
    states = steps * batch * directions * hidden
    once = Counts(cmp=5, div=1, add=1)
    return recurrent.lstm(node) + once * (x.numel + states) + Counts(mul=8 * states)


def gather_blocks(node: Node) -> Counts:
    """numel(Y) × 1 mul, and 1 add when zero_points is given: the rows that are gathered are dequantised.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatherBlockQuantized
    """
    return Counts(mul=1, add=int(node.has_input(3))) * node.output().numel


def layer_normalization(node: Node) -> Counts:
    """numel(X) × (1 mul + 3 add + 2 mul + 1 div + 1 add + 1 mul + 3 cmp) + rows × (2 div + 1 mul + 2 add + 1 sqrt): as
    LayerNormalization, with scales before and after.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QOrderedLayerNormalization
    """
    x = node.input(0)
    rows = product(x.dims[: node.attrs.get("axis", -1)])
    once = Counts(mul=4, add=3 + int(node.has_input(3)), div=1, cmp=3)
    return once * x.numel + Counts(div=2, mul=1, add=2, sqrt=1) * rows


_SIGMOID = Counts(bit=1, exp=1, add=1, div=1)

OPERATORS: dict[str, Operator] = {
    "com.microsoft::QuantizeLinear": by(quantized.quantize),
    "com.microsoft::DequantizeLinear": by(quantized.dequantize),
    "com.microsoft::QLinearConv": by(quantized.qlinear_conv),
    "com.microsoft::QLinearAdd": _two(Counts(add=1), "1 add"),
    "com.microsoft::QLinearMul": _two(Counts(mul=1), "1 mul"),
    "com.microsoft::QLinearWhere": by(concat),
    "com.microsoft::QLinearConcat": by(concat),
    "com.microsoft::QLinearLeakyRelu": between(Counts(cmp=1, mul=1), "1 cmp + 1 mul"),
    "com.microsoft::QLinearSigmoid": between(_SIGMOID, "1 bit + 1 exp + 1 add + 1 div"),
    "com.microsoft::QLinearSoftmax": by(softmax),
    "com.microsoft::QLinearAveragePool": by(average_pool),
    "com.microsoft::QLinearGlobalAveragePool": by(global_average_pool),
    "com.microsoft::QLinearReduceMean": by(reduce_mean),
    "com.microsoft::QGemm": by(gemm),
    "com.microsoft::MatMulIntegerToFloat": by(matmul_integer_to_float),
    "com.microsoft::DynamicQuantizeMatMul": by(dynamic_quantize_matmul),
    "com.microsoft::MatMulInteger16": by(integer_product),
    "com.microsoft::MulInteger": by(multiply),
    "com.microsoft::DynamicQuantizeLSTM": by(lstm),
    "com.microsoft::GatherBlockQuantized": by(gather_blocks),
    "com.microsoft::QOrderedMatMul": by(ordered_matmul),
    "com.microsoft::QOrderedGelu": between(Counts(div=1, erf=1, add=1, mul=2), "1 div + 1 erf + 1 add + 2 mul"),
    "com.microsoft::QOrderedLayerNormalization": by(layer_normalization),
    "com.microsoft::QuantizeWithOrder": by(quantized.quantize),
    "com.microsoft::DequantizeWithOrder": by(quantized.dequantize),
    "com.microsoft::QuantizeBFP": nothing("converts to a type whose elements share their exponent"),
    "com.microsoft::DequantizeBFP": nothing("converts from a type whose elements share their exponent"),
}
