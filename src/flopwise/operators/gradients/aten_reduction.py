"""Gradients of ATen's reductions, selections and pooling that have no name in ONNX."""

from __future__ import annotations

from collections.abc import Iterable

from flopwise.graph import Node, Tensor
from flopwise.operators.aten.reduction import of_differences, pooled
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, product
from flopwise.operators.gradient import Wrt


def adaptive_average(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) div + cells add: G / window to each cell; cells = the sizes of all windows: n + m − gcd(n, m) along an
    axis that goes from n to m.
    """
    return Counts(div=node.output().numel, add=pooled(node))


def bag(node: Node, wrt: Wrt) -> Counts:
    """K × D add, K the number of indices, D the width of a row."""
    return Counts(add=node.input(1).numel * product(node.input(0).dims[-1:]))


def differences(node: Node, wrt: Wrt) -> Counts:
    """n m + n (n − 3) / 2 add + n bit for each line, m its differences of order n: of each order, an element is in two
    neighbours, the first and the last in one.
    """
    order, left, lines = of_differences(node)
    if left == 0:
        return Counts()
    return Counts(add=order * left + order * (order - 3) // 2, bit=order) * lines


def matrix_norm(node: Node, wrt: Wrt) -> Counts:
    """S cmp for the sum that was picked, S the number of sums; numel(X) × (1 cmp + 1 mul): G × sign(x)."""
    return Counts(cmp=_sums(node)) + Counts(cmp=1, mul=1) * node.input(0).numel


def matrix_norm_keeps(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """X, the sums of absolute values and Y are kept."""
    x = node.input(0)
    return x, Tensor("", (_sums(node),), x.dtype).nbytes, node.output()


def _sums(node: Node) -> int:
    """One for each column or row."""
    x = node.input(0)
    return x.numel // extent(node, x, node.attrs.get("summed", -2))


def scatter_mean(node: Node, wrt: Wrt) -> Counts:
    """numel(index) add (how many came to each place); dX = G / how many: numel(Y) div; for the source numel(index) div;
    include_self = False: numel(Y) cmp.
    """
    return _means(node, wrt, node.input(1).numel)


def index_mean(node: Node, wrt: Wrt) -> Counts:
    """numel(source) add (how many came to each place); dX = G / how many: numel(Y) div; for the source numel(source)
    div; include_self = False: numel(Y) cmp.
    """
    return _means(node, wrt, node.input(2).numel)


def _means(node: Node, wrt: Wrt, updates: int) -> Counts:
    outputs = node.output().numel
    counts = Counts(add=updates, cmp=0 if node.attrs.get("include_self", 1) else outputs)
    return counts + Counts(div=(outputs if 0 in wrt else 0) + (updates if 2 in wrt else 0))


def index_add(node: Node, wrt: Wrt) -> Counts:
    """dX = G; for the source alpha × G: numel(source) mul."""
    return Counts(mul=node.input(2).numel if 2 in wrt else 0)


def index_add_keeps(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """For the gradient of the source, the indices and the source are kept."""
    return (node.input(1), node.input(2)) if 2 in wrt else ()


def number_of_each(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """X and, in 8 bytes, of how many elements each mean is, are kept."""
    return node.input(0), 8 * node.output().numel
