"""Operators that contract: convolutions, matrix products, determinants. Each term of a dot product is one mac."""

from __future__ import annotations

from collections.abc import Sequence

from flopwise.errors import ShapeError
from flopwise.graph import Dim, Node, Tensor
from flopwise.operators import gradient
from flopwise.operators.counts import SILU, Counts
from flopwise.operators.extents import extent, product, required, wider
from flopwise.operators.inputs import FACTOR, WEIGHT, factor, inputs
from flopwise.operators.operator import Operator, by, each_input


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
        mac=(size - 1) * size * (2 * size - 1) // 6,
        div=size * (size - 1) // 2,
        bit=pivots + size,
        cmp=pivots,
        mul=size,
    )
    return once * product(x.dims[:-2])


def einsum(node: Node) -> Counts:
    """P mac + P × (k − 2) mul for k ≥ 2 operands, P the product of all distinct index extents; one operand: P add
    when an index is summed, else nothing.

    The terms are multiplied from left to right and the last product is accumulated.

    https://onnx.ai/onnx/operators/onnx__Einsum.html
    """
    left, arrow, right = required(node, "equation").replace(" ", "").partition("->")
    terms = left.split(",")
    operands = node.known_inputs
    if len(terms) != len(operands):
        raise ShapeError(f"Einsum {node.name!r}: {left!r} has {len(terms)} terms for {len(operands)} operands")
    extents: dict[str, Dim] = {}
    for term, tensor in zip(terms, operands, strict=True):
        for label, dim in zip(_labels(node, term, tensor), tensor.dims, strict=True):
            extents[label] = wider(extents.get(label, 1), dim)
    terms_of_sum = product(extents.values())
    if len(terms) > 1:
        return Counts(mac=terms_of_sum, mul=terms_of_sum * (len(terms) - 2))
    kept = right if arrow else "".join(c for c in left if left.count(c) == 1) + "..."
    summed = any(label not in kept if len(label) == 1 else "..." not in kept for label in extents)
    return Counts(add=terms_of_sum if summed else 0)


def _labels(node: Node, term: str, tensor: Tensor) -> Sequence[str]:
    """One label per axis; those that ``...`` stands for are numbered from the right, as they broadcast."""
    before, dots, after = term.partition("...")
    hidden = len(tensor.dims) - len(before) - len(after)
    if hidden < 0 or (hidden > 0 and not dots):
        raise ShapeError(f"Einsum {node.name!r}: {term!r} does not fit {tensor.name!r} of shape {tensor.dims}")
    return [*before, *(f"...{i}" for i in range(hidden, 0, -1)), *after]


OPERATORS: dict[str, Operator] = {
    "Conv": by(
        conv,
        inputs=inputs(FACTOR, factor("conv", role="weight"), WEIGHT),
        gradient=gradient.by("linear:conv", gradient.first_two),
    ),
    "ConvTranspose": by(
        conv_transpose,
        inputs=inputs(FACTOR, factor("conv transpose", role="weight"), WEIGHT),
        gradient=gradient.by("linear:conv_transpose", gradient.first_two),
    ),
    "DeformConv": by(
        deform_conv, inputs=inputs(FACTOR, FACTOR), gradient=gradient.by("linear:deform_conv", gradient.at(0, 1, 2, 4))
    ),
    "CausalConvWithState": by(
        causal_conv_with_state,
        inputs=inputs(FACTOR, FACTOR),
        gradient=gradient.by("linear:causal_conv", gradient.factors),
    ),
    "Col2Im": each_input(
        Counts(add=1),
        note="each element of a block is added to the image; positions in the padding are not subtracted",
        gradient=gradient.nothing("each element of a block takes its element of G"),
    ),
    "Gemm": by(
        gemm,
        inputs=inputs(factor("left", "transA"), factor("right", "transB", role="weight"), WEIGHT),
        gradient=gradient.by("linear:gemm", gradient.factors),
    ),
    "MatMul": by(
        matmul,
        inputs=inputs(factor("left", role="weight"), factor("right", role="weight")),
        gradient=gradient.by("linear:matmul", gradient.factors),
    ),
    "Einsum": by(
        einsum,
        inputs=inputs(repeated=(factor("equation"),)),
        gradient=gradient.by("linear:einsum", "linear:einsum_keeps"),
    ),
    "Det": by(det, "bound"),
}
