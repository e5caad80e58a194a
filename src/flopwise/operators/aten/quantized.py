"""Operators of PyTorch's quantized tensors, which always have a scale and a zero point."""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators.aten.pointwise import quantize_dynamic
from flopwise.operators.counts import Counts
from flopwise.operators.extents import integers, product
from flopwise.operators.onnx import pointwise
from flopwise.operators.operator import Operator, by

#: For each element: (x − zero point) × scale; and round(y / scale) + zero point, between two bounds.
_FROM, _TO = Counts(add=1, mul=1), Counts(div=1, cmp=3, add=1)

#: From a sum to the scale of the result.
_AGAIN = Counts(mul=1, add=1, cmp=3)


def quantized_layer(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac, numel(X) + numel(W) add (zero points), numel(Y) add when B is given; numel(Y) ×
    (1 mul + 1 add + 3 cmp) to requantise, and the ratio of the scales, 1 mul + 1 div. Dynamic: numel(X) × (1 div + 1
    add + 5 cmp) + 5 cmp + 2 div + 2 add to quantise X first; Y is only scaled, 1 mul (the product of the scales) +
    numel(Y) mul, and numel(Y) cmp for a ReLU, which is else a bound of the output's range.

    As QLinearConv, and DynamicQuantizeMatMul of com.microsoft: a quantised tensor of PyTorch always has a zero point,
    and the packed weight has one too. It does not tell how many scales it has: one is counted, also where each feature
    has its own.

    https://docs.pytorch.org/docs/stable/quantization.html
    """
    outputs = node.output().numel
    counts = half_layer(node) + Counts(add=node.input(0).numel + node.input(1).numel)
    if node.attrs.get("dynamic", 0):
        return counts + quantize_dynamic(node) + Counts(mul=1 + outputs)
    return counts + Counts(mul=1, add=1, cmp=3) * outputs + Counts(mul=1, div=1)


def cortex_layer(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac, numel(X) add (its zero point), numel(Y) add when B is given, numel(Y) × (1 mul
    + 1 add + 3 cmp) to requantise: times a multiplier, plus the zero point, between two bounds. W has no zero point.

    executorch, backends/cortex_m/ops, on CMSIS-NN
    """
    outputs = node.output().numel
    return half_layer(node) + Counts(add=node.input(0).numel) + _AGAIN * outputs


def cortex_pool(node: Node) -> Counts:
    """numel(Y) × (prod(kernel_shape) add + 1 div), numel(Y) × (1 mul + 1 add + 3 cmp) to requantise."""
    return (Counts(add=product(integers(node, "kernel_shape")), div=1) + _AGAIN) * node.output().numel


def half_layer(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac, numel(Y) add when B is given, numel(Y) cmp for a ReLU: the weight is kept in 16
    bits, a float that has no zero point.
    """
    once = Counts(mac=product(node.input(1).dims[1:]), add=int(node.has_input(2)), cmp=node.attrs.get("relu", 0))
    return once * node.output().numel


def _between(op: str) -> Operator:
    """A row for an operator of real numbers between quantized ones."""
    plain = pointwise.OPERATORS[op]

    def rule(node: Node) -> Counts:
        inner = Node(op, node.name, node.inputs, node.outputs, node.attrs)
        elements = sum([t.numel for t in node.known_inputs])
        return plain.rule(inner) + _FROM * elements + _TO * node.output().numel

    return Operator(
        rule,
        f"as {op}, with 1 add + 1 mul for each element of an operand and 1 div + 3 cmp + 1 add for each of the result: "
        "what is quantized becomes real and is quantized again; a ReLU is one of the bounds",
    )


def concat(node: Node) -> Counts:
    """numel(Y) × (2 add + 1 mul + 1 div + 3 cmp): each element becomes real and is quantized again.

    https://docs.pytorch.org/docs/stable/quantization-support.html
    """
    return (_FROM + _TO) * node.output().numel


OPERATORS: dict[str, Operator] = {
    **dict.fromkeys(("quantized::linear", "quantized::conv"), by(quantized_layer)),
    **dict.fromkeys(("cortex_m::linear", "cortex_m::conv"), by(cortex_layer)),
    "cortex_m::avg_pool": by(cortex_pool),
    "quantized::linear_fp16": by(half_layer),
    "quantized::add": _between("Add"),
    "quantized::mul": _between("Mul"),
    "quantized::hardswish": _between("HardSwish"),
    "quantized::leaky_relu": _between("LeakyRelu"),
    "quantized::cat": by(concat),
}
