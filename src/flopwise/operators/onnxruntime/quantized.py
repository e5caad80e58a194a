"""Quantised operators of ``com.microsoft``: integers in, the operator's own work on them, integers or floats out.

A pointwise operator or a pooling costs what it costs between DequantizeLinear and QuantizeLinear. A product is one of
integers, as in ONNX's quantised products; its results are then scaled.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.graph.dtypes import TYPES
from flopwise.operators import shape
from flopwise.operators.counts import Counts, total
from flopwise.operators.extents import extent, integer
from flopwise.operators.inputs import (
    DATA,
    FACTOR,
    QLINEAR_CONV,
    SCALE,
    WIDE_BIAS,
    ZERO_POINT,
    Input,
    Inputs,
    factor,
    inputs,
    operand,
    scale,
    zero_point,
)
from flopwise.operators.onnx import linear, pointwise, quantized, reduction, spatial
from flopwise.operators.operator import Operator, by, counted_as, nothing, row_of
from flopwise.operators.packed import FITTING, Packed, elements

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from flopwise.operators.operator import Facts

#: From one scale of 8-bit integers to another, both without zero point: times a scale, rounded, saturated.
RESCALE = Counts(mul=1, cmp=3)

#: From the sum of a product to the output's type, as in QLinearMatMul.
_REQUANTIZE = Counts(mul=1, add=1, cmp=3)


def _dequantized(node: Node, places: Mapping[int, int]) -> Counts:
    """DequantizeLinear of some inputs: place of an input -> place of its zero point."""
    return total(Counts(mul=1, add=int(node.has_input(zero))) * node.input(x).numel for x, zero in places.items())


def _quantized(node: Node, zero: int) -> Counts:
    """QuantizeLinear of the output, whose zero point is at this place."""
    return Counts(div=1, add=int(node.has_input(zero)), cmp=3) * node.output().numel


def _between(op: str, family: Mapping[str, Operator], operands: Inputs, **facts: Unpack[Facts]) -> Operator:
    """A row for an operator between DequantizeLinear of its operands and QuantizeLinear of its result.

    Args:
        op: the plain operator.
        family: where its row is.
        operands: each operand with its scale and zero point; the scale and zero point of the result follow.
        facts: the rule for its results.
    """
    plain: Operator = family[op]
    zero = len(operands.first) + 1
    places = {place: place + 2 for place in range(0, len(operands.first), 3)}

    def rule(node: Node) -> Counts:
        inner = Node(op, node.name, tuple(map(node.input, places)), node.outputs, node.attrs)
        return _dequantized(node, places) + plain.rule(inner) + _quantized(node, zero)

    facts["inputs"] = operands._replace(first=(*operands.first, SCALE, ZERO_POINT))
    return row_of(
        rule,
        f"as {op} on what DequantizeLinear makes of each operand, 1 mul (and 1 add with a zero point) for each of its "
        "elements; and QuantizeLinear of the result, numel(Y) × (1 div + 3 cmp) (and 1 add with a zero point)",
        **facts,
    )


def concat(node: Node) -> Counts:
    """numel(Y) × (1 mul + 1 add) (DequantizeLinear of each input), numel(Y) × (1 div + 1 add + 3 cmp) (QuantizeLinear).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearConcat
    """
    return Counts(mul=1, add=2, div=1, cmp=3) * node.output().numel


def where(node: Node) -> Counts:
    """(numel(X) + numel(Y)) × (1 mul + 1 add) (DequantizeLinear of both) + numel(Z) × (1 div + 1 add + 3 cmp)
    (QuantizeLinear).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearWhere
    """
    return _dequantized(node, {1: 3, 4: 6}) + _quantized(node, 8)


def matmul_integer_to_float(node: Node) -> Counts:
    """numel(Y) × K mac; numel(A) add and numel(B) add where their zero points are given; numel(b_scale) mul (the
    product of the scales) + numel(Y) mul, and numel(Y) add when bias is given.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulIntegerToFloat
    """
    return _to_float(node, scales=3, zeros={0: 4, 1: 5}, bias=6)


def dynamic_quantize_matmul(node: Node) -> Counts:
    """numel(A) × (5 cmp + 1 div + 1 add) + 5 cmp + 2 div + 2 add (DynamicQuantizeLinear of A); then as
    MatMulIntegerToFloat, A with a zero point.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DynamicQuantizeMatMul
    """
    a = node.input(0)
    return _found_scale(a) + Counts(add=a.numel) + _to_float(node, scales=2, zeros={1: 3}, bias=4)


def _found_scale(tensor: Tensor) -> Counts:
    """DynamicQuantizeLinear of a tensor."""
    return quantized.dynamic_quantize(Node("DynamicQuantizeLinear", "", (tensor,), ()))


def _to_float(node: Node, scales: int, zeros: Mapping[int, int], bias: int) -> Counts:
    outputs = node.output().numel
    shifts = sum(node.input(x).numel for x, zero in zeros.items() if node.has_input(zero))
    scaled = outputs + node.input(scales).numel
    biased = outputs if node.has_input(bias) else 0
    return Counts(mac=outputs * extent(node, node.input(0), -1), add=shifts + biased, mul=scaled)


def gemm(node: Node) -> Counts:
    """numel(Y) × K mac; numel(A) add and numel(B) add (zero points); numel(Y) add when C is given; numel(b_scale) mul
    (the product of the scales, and as many more when alpha ≠ 1); y_scale: numel(Y) × (1 mul + 1 add + 3 cmp) and
    numel(b_scale) div, else numel(Y) mul.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QGemm
    """
    a, outputs, scales = node.input(0), node.output().numel, node.input(4).numel
    inner = extent(node, a, -2 if node.attrs.get("transA", 0) else -1)
    shifts = sum(node.input(x).numel for x, zero in ((0, 2), (3, 5)) if node.has_input(zero))
    factors = scales * (2 if node.attrs.get("alpha", 1.0) != 1.0 else 1)
    work = Counts(mac=outputs * inner, add=shifts + (outputs if node.has_input(6) else 0), mul=factors)
    return work + (_REQUANTIZE * outputs + Counts(div=scales) if node.has_input(7) else Counts(mul=outputs))


def ordered_matmul(node: Node) -> Counts:
    """numel(Y) × K mac, numel(Y) add when bias is given, numel(C) mul and numel(Y) add when C is given; numel(Y) × (1
    mul + 3 cmp) to rescale.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QOrderedMatMul
    """
    outputs = node.output().numel
    work = Counts(mac=outputs * extent(node, node.input(0), -1), add=outputs if node.has_input(5) else 0)
    if node.has_input(6):
        work += Counts(mul=node.input(6).numel, add=outputs)
    return work + RESCALE * outputs


def ordered_gelu(node: Node) -> Counts:
    """numel(Y) × (1 mul (scale) + 1 div + 1 erf + 1 add + 2 mul (Gelu) + 1 div + 3 cmp (to int8)).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QOrderedGelu
    """
    return pointwise.gelu(Node("Gelu", node.name, node.inputs[:1], node.outputs)) + _REAL * node.output().numel


#: From int8 to a real number and back, without zero points.
_REAL = Counts(mul=1, div=1, cmp=3)


def ordered_layer_normalization(node: Node) -> Counts:
    """numel(X) × 1 mul (scale); as LayerNormalization over the last axis; numel(Y) × (1 div + 3 cmp) (to int8).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QOrderedLayerNormalization
    """
    inputs = (node.input(0), node.input(2), node.input(3) if node.has_input(3) else None)
    inner = Node("LayerNormalization", node.name, inputs, node.outputs[:1], node.attrs)
    return reduction.layer_normalization(inner) + _REAL * node.output().numel


def multiply(node: Node) -> Counts:
    """numel(C) mul; numel(A) add and numel(B) add where their zero points are given.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MulInteger
    """
    places = ((0, 1), (2, 3))
    return Counts(mul=node.output().numel, add=sum(node.input(x).numel for x, zero in places if node.has_input(zero)))


def lstm(node: Node) -> Counts:
    """as LSTM; and for each direction DynamicQuantizeLinear of X once, numel(X) × (5 cmp + 1 div + 1 add), and of the
    state at every step, T × B × H × (5 cmp + 1 div + 1 add), each 5 cmp + 2 div + 2 add more; 1 add (zero point) for
    each of these elements; numel(W) + numel(R) add (zero points); 2 mul for each of the T × B × 4H sums of either
    product (both scales).

    W is (directions, I, 4H), R is (directions, H, 4H): turned round, beside those of LSTM. The state is quantised for
    the whole batch at once.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DynamicQuantizeLSTM
    """
    x, w, r = node.input(0), node.input(1), node.input(2)
    steps, batch = extent(node, x, 0), extent(node, x, 1)
    directions, hidden = extent(node, r, 0), extent(node, r, 1)
    turned = [Tensor(t.name, (*t.dims[:1], *t.dims[:0:-1]), t.dtype) for t in (w, r)]
    plain = linear.lstm(Node("LSTM", node.name, (x, *turned, *node.inputs[3:8]), node.outputs, node.attrs))
    state = Tensor("", (batch, hidden), x.dtype)
    once = _found_scale(x) + Counts(add=x.numel) + (_found_scale(state) + Counts(add=state.numel)) * steps
    scaled = Counts(mul=2 * 2 * 4 * steps * batch * hidden, add=(w.numel + r.numel) // directions)
    return plain + (once + scaled) * directions


def gather_blocks(node: Node) -> Counts:
    """numel(Y) × 1 mul, and 1 add when zero_points is given or data is bytes, whose middle stands for zero: the
    elements that are gathered are dequantised.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatherBlockQuantized
    """
    shifted = node.has_input(3) or node.input(0).dtype == "uint8"
    return Counts(mul=1, add=int(shifted)) * node.output().numel


def gather_packed(node: Node) -> Counts:
    """numel(Y) × 1 mul (the scale of its block) for each gathered element; 1 add more in types with an offset or a
    minimum, 1 bit more (a sign) in iq2 and iq3; types of whole floats only convert.

    packed_type is the number of a type of ggml. Scales of several blocks that share one more scale are unpacked with
    them, which is free as in products.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatherPacked

    Raises:
        ShapeError: packed_type is no type of ggml.
    """
    code = integer(node, "packed_type")
    if code not in TYPES:
        raise ShapeError(f"{node.op} {node.name!r}: unknown packed_type {code}")
    name = TYPES[code].name
    if not TYPES[code].nbytes:
        return Counts()
    signs, plain = name.startswith(("iq2", "iq3")), name.startswith(("iq2", "iq3", "iq4", "q8", "mxfp4", "nvfp4"))
    return Counts(mul=1, add=int(not plain), bit=int(signs)) * node.output().numel


_ONE = inputs(DATA, scale(0), zero_point(0))
_TWO = inputs(*operand(0), *operand(3))
_BFP = "a type whose elements share their exponent"

OPERATORS: dict[str, Operator] = {
    "com.microsoft::QuantizeLinear": by(
        quantized.quantize,
        inputs=inputs(DATA, SCALE, ZERO_POINT),
        effects=frozenset({"quantizes"}),
        types="products:quantized",
    ),
    "com.microsoft::DequantizeLinear": by(
        quantized.dequantize,
        inputs=inputs(WIDE_BIAS, scale(0), zero_point(0)),
        effects=frozenset({"dequantizes"}),
        types="products:dequantized",
    ),
    "com.microsoft::QLinearConv": by(quantized.qlinear_conv, inputs=QLINEAR_CONV, types="movement:qlinear_conv"),
    "com.microsoft::QLinearAdd": _between("Add", pointwise.OPERATORS, _TWO, shape=shape.twin("Add", (0, 3))),
    "com.microsoft::QLinearMul": _between("Mul", pointwise.OPERATORS, _TWO, shape=shape.twin("Mul", (0, 3))),
    "com.microsoft::QLinearWhere": by(
        where,
        inputs=inputs(DATA, FACTOR, SCALE, ZERO_POINT, FACTOR, SCALE, ZERO_POINT, SCALE, ZERO_POINT),
        shape=shape.twin("Where", (0, 1, 4), like=1),
    ),
    "com.microsoft::QLinearConcat": by(
        concat,
        inputs=inputs(SCALE, ZERO_POINT, FACTOR, SCALE, ZERO_POINT, repeated=(DATA, SCALE, ZERO_POINT)),
        types="movement:concatenated",
    ),
    "com.microsoft::QLinearLeakyRelu": _between("LeakyRelu", pointwise.OPERATORS, _ONE, shape=shape.alike),
    "com.microsoft::QLinearSigmoid": _between("Sigmoid", pointwise.OPERATORS, _ONE, shape=shape.alike),
    "com.microsoft::QLinearSoftmax": _between("Softmax", reduction.NORMALIZATION, _ONE, shape=shape.alike),
    "com.microsoft::QLinearAveragePool": _between("AveragePool", spatial.POOLING, _ONE, types="movement:average_pool"),
    "com.microsoft::QLinearGlobalAveragePool": _between(
        "GlobalAveragePool", spatial.POOLING, _ONE, types="movement:global_average_pool"
    ),
    "com.microsoft::QLinearReduceMean": _between(
        "ReduceMean", reduction.OPERATORS, _ONE, shape=shape.twin("ReduceMean")
    ),
    "com.microsoft::QGemm": by(
        gemm,
        inputs=inputs(*operand(0, "left", "transA"), *operand(3, "right", "transB"), WIDE_BIAS, SCALE, ZERO_POINT),
        types="products:gemm",
    ),
    "com.microsoft::MatMulIntegerToFloat": by(
        matmul_integer_to_float,
        inputs=inputs(
            factor("left"), factor("right"), scale(0), scale(1), zero_point(0, axis=-2), zero_point(1, axis=-1)
        ),
        shape=shape.twin("MatMul", (0, 1), like=2),
    ),
    "com.microsoft::DynamicQuantizeMatMul": by(
        dynamic_quantize_matmul,
        inputs=inputs(Input(factor=True, inside="uint8"), factor("right"), scale(1), zero_point(1, axis=-1)),
        shape=shape.twin("MatMul", (0, 1)),
    ),
    "com.microsoft::MatMulInteger16": by(
        linear.matmul, inputs=inputs(FACTOR, FACTOR), shape=shape.twin("MatMul", (0, 1), dtype="int32")
    ),
    "com.microsoft::MulInteger": by(
        multiply, inputs=inputs(FACTOR, ZERO_POINT, FACTOR, ZERO_POINT), shape=shape.twin("Mul", (0, 2), dtype="int32")
    ),
    "com.microsoft::ReduceSumInteger": counted_as(
        reduction.OPERATORS["ReduceSum"], shape=shape.twin("ReduceMean", dtype="int32")
    ),
    "com.microsoft::DynamicQuantizeLSTM": by(
        lstm,
        inputs=inputs(
            Input(factor=True, inside="uint8"), FACTOR, FACTOR, *(DATA,) * 5, SCALE, ZERO_POINT, SCALE, ZERO_POINT
        ),
        types="language:lstm",
    ),
    "com.microsoft::GatherBlockQuantized": by(
        gather_blocks,
        inputs=inputs(Input(packed=FITTING), DATA, scale(0), Input("zero point", packed=FITTING, of=0)),
        effects=frozenset({"picks", "picks quantized"}),
        types="movement:gathered",
    ),
    "com.microsoft::GatherPacked": by(
        gather_packed,
        inputs=inputs(Input(packed=Packed(elements((0, 0), "K"), format="packed_type")), DATA),
        effects=frozenset({"picks", "picks quantized"}),
        types="movement:gathered_packed",
    ),
    "com.microsoft::QOrderedMatMul": by(
        ordered_matmul,
        inputs=inputs(FACTOR, SCALE, FACTOR, SCALE, SCALE, DATA, DATA, SCALE),
        types="products:ordered_matmul",
    ),
    "com.microsoft::QOrderedGelu": by(ordered_gelu, inputs=inputs(DATA, SCALE, SCALE), shape=shape.alike),
    "com.microsoft::QOrderedLayerNormalization": by(
        ordered_layer_normalization, inputs=inputs(DATA, SCALE, DATA, DATA, SCALE), shape=shape.alike
    ),
    "com.microsoft::QuantizeWithOrder": by(quantized.quantize, inputs=inputs(DATA, SCALE), types="products:to_int8"),
    "com.microsoft::DequantizeWithOrder": by(
        quantized.dequantize, inputs=inputs(DATA, SCALE), types="products:typed_by_attribute"
    ),
    "com.microsoft::QuantizeBFP": nothing("converts to " + _BFP, types="products:blocks"),
    "com.microsoft::DequantizeBFP": nothing("converts from " + _BFP, types="products:from_blocks"),
}
