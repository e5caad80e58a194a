"""Gradients of ATen's pointwise operators that have no name in ONNX, as PyTorch's own formulas write them."""

from __future__ import annotations

from collections.abc import Iterable

from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.gradient import Wanted, summed

_SIGMOID = Counts(bit=1, exp=1, add=1, div=1)


def _scaled(node: Node) -> int:
    return int(bool(node.attrs.get("scaled", 0)))


def addcmul(node: Node, wanted: Wanted) -> Counts:
    """dX = G; dA = G × (B × value), dB = G × (A × value): numel(Y) × 1 mul each, 2 mul when value ≠ 1; a broadcast
    input numel(Y) add.
    """
    products = len(wanted & {1, 2}) * (1 + _scaled(node))
    return Counts(mul=products * node.output().numel) + summed(node, wanted)


def addcdiv(node: Node, wanted: Wanted) -> Counts:
    """dX = G; dA = G × (value / B): numel(Y) × (1 mul + 1 div), without a value 1 div; dB = −G × (value × A / (B × B)):
    numel(Y) × (2 mul + 1 div + 1 bit), and 1 mul for a value; a broadcast input numel(Y) add.
    """
    scaled = _scaled(node)
    once = Counts(div=1, mul=scaled) * int(1 in wanted) + Counts(mul=2 + scaled, div=1, bit=1) * int(2 in wanted)
    return once * node.output().numel + summed(node, wanted)


def glu(node: Node, wanted: Wanted) -> Counts:
    """numel(Y) × (1 sigmoid + 4 mul + 1 add): da = G × s, db = G × a × s × (1 − s), s = sigmoid(b)."""
    return (_SIGMOID + Counts(mul=4, add=1)) * node.output().numel


def mask(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """The scaled mask is kept."""
    return (node.output().nbytes,)


def dense_cross_entropy(node: Node, wanted: Wanted) -> Counts:
    """numel(X) × (1 mul + 1 bit) + 1 div (the loss), numel(X) × (2 add + 1 exp + 1 mul) (log-softmax)."""
    return Counts(mul=2, bit=1, add=2, exp=1) * node.input(0).numel + Counts(div=1)
