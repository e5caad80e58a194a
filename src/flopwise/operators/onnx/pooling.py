"""Pooling: a reduction over each window. Padded cells are processed like any other, so a window is its kernel."""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import gradient
from flopwise.operators.counts import Counts
from flopwise.operators.extents import integers, product
from flopwise.operators.operator import Operator, by, each_input


def max_pool(node: Node) -> Counts:
    """numel(Y) × prod(kernel_shape) cmp.

    https://onnx.ai/onnx/operators/onnx__MaxPool.html
    """
    return Counts(cmp=_cells(node))


def average_pool(node: Node) -> Counts:
    """numel(Y) × prod(kernel_shape) add + numel(Y) div.

    https://onnx.ai/onnx/operators/onnx__AveragePool.html
    """
    return Counts(add=_cells(node), div=node.output().numel)


def lp_pool(node: Node) -> Counts:
    """numel(Y) × prod(kernel_shape) × (1 mul + 1 add) + numel(Y) sqrt for p = 2; × (1 bit + 1 add) for p = 1; else ×
    (1 bit + 1 pow + 1 add) + numel(Y) pow.

    https://onnx.ai/onnx/operators/onnx__LpPool.html
    """
    return _norm(node, _cells(node))


def global_lp_pool(node: Node) -> Counts:
    """numel(X) × (1 mul + 1 add) + numel(Y) sqrt for p = 2; × (1 bit + 1 add) for p = 1; else × (1 bit + 1 pow + 1
    add) + numel(Y) pow.

    https://onnx.ai/onnx/operators/onnx__GlobalLpPool.html
    """
    return _norm(node, node.input(0).numel)


def _cells(node: Node) -> int:
    """Window cells visited: one kernel for each output element."""
    return node.output().numel * product(integers(node, "kernel_shape"))


def _norm(node: Node, cells: int) -> Counts:
    """The p-norms of all windows together: |x|ᵖ summed, then the p-th root of each sum."""
    p, outputs = node.attrs.get("p", 2), node.output().numel
    if p == 1:
        return Counts(bit=cells, add=cells)
    if p == 2:
        return Counts(mul=cells, add=cells, sqrt=outputs)
    return Counts(bit=cells, pow=cells + outputs, add=cells)


OPERATORS: dict[str, Operator] = {
    "MaxPool": by(
        max_pool,
        gradient=gradient.each("G to the place of each maximum, which the forward pass kept", "pooling:places", add=1),
        shape="windows:pool",
        dtype=(0, "int64"),
    ),
    "AveragePool": by(average_pool, gradient=gradient.by("pooling:average_pool", gradient.x), shape="windows:pool"),
    "LpPool": by(lp_pool, gradient=gradient.by("pooling:lp_pool", gradient.both), shape="windows:pool"),
    "GlobalMaxPool": each_input(
        Counts(cmp=1),
        gradient=gradient.nothing("G goes to the place of each maximum, which the forward pass kept", "pooling:places"),
        shape="windows:global_pool",
    ),
    "GlobalAveragePool": each_input(
        Counts(add=1),
        Counts(div=1),
        gradient=gradient.each("the same G / n for all cells", gradient.none, div=1),
        shape="windows:global_pool",
    ),
    "GlobalLpPool": by(
        global_lp_pool, gradient=gradient.by("pooling:global_lp_pool", gradient.both), shape="windows:global_pool"
    ),
}
