"""Operators that contract: convolutions, matrix products, determinants. Each term of a dot product is one mac."""

from __future__ import annotations

from flopwise.errors import ShapeError
from flopwise.graph import Node
from flopwise.operators import gradient
from flopwise.operators.complex import Complex
from flopwise.operators.counts import SILU, Counts
from flopwise.operators.einsum import einsum
from flopwise.operators.extents import extent, product
from flopwise.operators.inputs import FACTOR, WEIGHT, factor, inputs
from flopwise.operators.operator import Operator, Rule, by, each_input


def conv(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac, and numel(Y) add when B is given; padding is not subtracted.

    W is (M, C/group, *kernel), so groups and dilations are already in its shape.

    https://onnx.ai/onnx/operators/onnx__Conv.html
    """
    outputs = node.output().numel
    return Counts(mac=outputs * product(node.input(1).dims[1:]), add=outputs if node.has_input(2) else 0)


def conv_transpose(node: Node) -> Counts:
    """numel(X) × prod(W.shape[1:]) mac, and numel(Y) add when B is given; cropped positions are not subtracted.

    W is (C, M/group, *kernel): each input element is multiplied into that many outputs, whatever the stride.

    https://onnx.ai/onnx/operators/onnx__ConvTranspose.html
    """
    work = node.input(0).numel * product(node.input(1).dims[1:])
    return Counts(mac=work, add=node.output().numel if node.has_input(2) else 0)


def deform_conv(node: Node) -> Counts:
    """numel(Y) × prod(W.shape[1:]) mac, and numel(Y) add when B is given; S × C × 2ʳ × (1 mul + 1 add) to sample X, S ×
    C mul when a mask is given, S = numel(offset) / (r × offset_group) sampling positions, r spatial axes. Each offset
    takes 1 add and 1 cmp (the place and its cell) and 2 add (weights), each position with its own offsets 2ʳ × (r − 1)
    mul.

    A sampled element is the linear average of its 2ʳ neighbours, made once for all output channels; a neighbour beyond
    the edge is processed like any other.

    https://onnx.ai/onnx/operators/onnx__DeformConv.html
    """
    x, offset = node.input(0), node.input(2)
    axes = len(x.dims) - 2
    if axes < 1:
        raise ShapeError(f"{node.op} {node.name!r}: {x.name!r} of shape {x.dims} has no spatial axes")
    groups = node.attrs.get("offset_group", 1)
    kernel = product(node.input(1).dims[2:])
    own = extent(node, offset, 0) * groups * kernel * product(offset.dims[2:])
    sampled = extent(node, x, 0) * extent(node, x, 1) * kernel * product(offset.dims[2:])
    averages = sampled * 2**axes
    counts = Counts(add=averages, mul=averages + own * 2**axes * (axes - 1) + (sampled if node.has_input(4) else 0))
    outputs = node.output().numel
    work = Counts(mac=outputs * product(node.input(1).dims[1:]), add=outputs if node.has_input(3) else 0)
    return counts + Counts(add=3, cmp=1) * offset.numel + work


def causal_conv_with_state(node: Node) -> Counts:
    """numel(Y) × k mac, k = W.shape[-1], and numel(Y) add when bias is given; activation silu or swish: numel(Y) × (1
    bit + 1 exp + 1 add + 1 div + 1 mul).

    https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html
    """
    outputs = node.output().numel
    counts = Counts(mac=outputs * extent(node, node.input(1), -1), add=outputs if node.has_input(2) else 0)
    if node.attrs.get("activation", "none") != "none":
        counts += SILU * outputs
    return counts


def gemm(node: Node) -> Counts:
    """M × N × K mac; alpha ≠ 1: M × N mul; when C is given: M × N add, and beta ≠ 1: numel(C) mul.

    https://onnx.ai/onnx/operators/onnx__Gemm.html
    """
    outputs = node.output().numel
    inner = extent(node, node.input(0), -2 if node.attrs.get("transA", 0) else -1)
    counts = Counts(mac=outputs * inner)
    if node.attrs.get("alpha", 1.0) != 1.0:
        counts += Counts(mul=outputs)
    if node.has_input(2):
        counts += Counts(add=outputs)
        if node.attrs.get("beta", 1.0) != 1.0:
            counts += Counts(mul=node.input(2).numel)
    return counts


def matmul(node: Node) -> Counts:
    """numel(Y) × K mac, K the last extent of A; Y carries the broadcast batch.

    https://onnx.ai/onnx/operators/onnx__MatMul.html
    """
    return Counts(mac=node.output().numel * extent(node, node.input(0), -1))


def det(node: Node) -> Counts:
    """at most, for each M × M matrix, (M − 1) M (2M − 1) / 6 mac + M (M − 1) / 2 div (elimination), M (M + 1) / 2 × (1
    bit + 1 cmp) (the largest pivot of each column), M mul + M bit (the product of the pivots, a sign for each swap).

    Gaussian elimination with partial pivoting; which rows are swapped depends on the data.

    https://onnx.ai/onnx/operators/onnx__Det.html
    """
    x = node.input(0)
    size = extent(node, x, -1)
    pivots = size * (size + 1) // 2
    once = Counts(
        mac=(size - 1) * size * (2 * size - 1) // 6, div=size * (size - 1) // 2, bit=pivots + size, cmp=pivots, mul=size
    )
    return once * product(x.dims[:-2])


def _by_parts(rule: Rule) -> Complex:
    """A convolution of complex numbers as PyTorch computes it: three of real ones, of the real parts, of the imaginary
    parts and of their sums, from which both parts of the result are made (``aten/src/ATen/native/Convolution.cpp``).
    """

    def of_parts(node: Node) -> Counts:
        outputs, plain = node.output().numel, rule(node)
        biases = plain.add * 2 + (node.input(2).numel if plain.add else 0)
        return Counts(mac=3 * plain.mac, add=node.input(0).numel + node.input(1).numel + 3 * outputs + biases)

    def gradients(node: Node, wrt: frozenset[int]) -> Counts:
        outputs, factors = node.output().numel, wrt & {0, 1}
        joined = 2 * sum(node.input(place).numel for place in factors)
        biases = 2 * outputs + node.input(2).numel if 2 in wrt else 0
        return Counts(mac=3 * rule(node).mac * len(factors), add=2 * outputs + joined + biases)

    return Complex(of_parts, gradients)


OPERATORS: dict[str, Operator] = {
    "Conv": by(
        conv,
        complex=_by_parts(conv),
        inputs=inputs(FACTOR, factor("conv", role="weight"), WEIGHT),
        gradient=gradient.by("linear:conv", gradient.first_two),
        shape="windows:conv",
    ),
    "ConvTranspose": by(
        conv_transpose,
        complex=_by_parts(conv_transpose),
        inputs=inputs(FACTOR, factor("conv transpose", role="weight"), WEIGHT),
        gradient=gradient.by("linear:conv_transpose", gradient.first_two),
        shape="windows:conv_transpose",
    ),
    "DeformConv": by(
        deform_conv,
        inputs=inputs(FACTOR, factor("conv")),
        gradient=gradient.by("linear:deform_conv", gradient.inputs_at(0, 1, 2, 4)),
        shape="windows:conv",
    ),
    "CausalConvWithState": by(
        causal_conv_with_state,
        inputs=inputs(FACTOR, FACTOR),
        gradient=gradient.by("linear:causal_conv", gradient.factors),
        shape="algebra:causal_conv",
    ),
    "Col2Im": each_input(
        Counts(add=1),
        note="each element of a block is added to the image; positions in the padding are not subtracted",
        gradient=gradient.nothing("each element of a block takes its element of G"),
        shape="windows:col2im",
    ),
    "Gemm": by(
        gemm,
        inputs=inputs(factor("left", "transA"), factor("right", "transB", role="weight"), WEIGHT),
        gradient=gradient.by("linear:gemm", gradient.factors),
        shape="algebra:gemm",
    ),
    "MatMul": by(
        matmul,
        inputs=inputs(factor("left", role="weight"), factor("right", role="weight")),
        gradient=gradient.by("linear:matmul", gradient.factors),
        shape="algebra:matmul",
    ),
    "Einsum": by(
        einsum,
        inputs=inputs(repeated=(factor("equation"),)),
        gradient=gradient.by("linear:einsum", "linear:einsum_keeps"),
        shape="algebra:einsum",
    ),
    "Det": by(det, "bound", shape="algebra:determinant"),
}
