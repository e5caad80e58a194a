"""Gradients of ATen's contractions and distances that have no name in ONNX."""

from __future__ import annotations

from collections.abc import Iterable

from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.extents import product
from flopwise.operators.gradient import Wanted
from flopwise.operators.tables import OPERATORS


def contraction(node: Node, wanted: Wanted) -> Counts:
    """one product of the forward's mac for each of the two factors; the addend: numel(Y) add when it is broadcast."""
    products = Counts(mac=OPERATORS[node.op].rule(node).mac * len(wanted & {0, 1}))
    outputs = node.output().numel
    for place in wanted - {0, 1}:
        products += Counts(add=outputs if node.input(place).numel != outputs else 0)
    return products


def bilinear(node: Node, wanted: Wanted) -> Counts:
    """P mac + P mul for each of X1, X2 and W, P = numel(Y) × numel(W) / W.shape[0]; bias: numel(Y) add."""
    outputs = node.output().numel
    terms = outputs * product(node.input(2).dims[1:])
    return Counts(mac=1, mul=1) * (terms * len(wanted & {0, 1, 2})) + Counts(add=outputs if 3 in wanted else 0)


def three(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """The three factors are kept."""
    return node.known_inputs[:3]


def weight_norm(node: Node, wanted: Wanted) -> Counts:
    """n = numel(V), rows = numel(g): Σ G v: n × (1 mul + 1 add); dg: rows div; dv = (g / ‖v‖) × (G − v × Σ/‖v‖²): n ×
    (2 mul + 1 add) + rows × (2 div + 1 mul).
    """
    n, rows = node.input(0).numel, node.input(1).numel
    counts = Counts(mul=1, add=1) * n
    if 1 in wanted:
        counts += Counts(div=rows)
    if 0 in wanted:
        counts += Counts(mul=2, add=1) * n + Counts(div=2, mul=1) * rows
    return counts


def weight_norm_keeps(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """V, g and the norms are kept."""
    return node.input(0), node.input(1), node.input(1).nbytes


def cdist(node: Node, wanted: Wanted) -> Counts:
    """for each of the two: numel(Y) div + numel(Y) × K × (2 add + 1 mul): Σ (a − b) × G / y, K the width of a row.

    Raises:
        ShapeError: a norm other than 2.
    """
    if node.attrs.get("p", 2.0) != 2.0:
        raise ShapeError(f"{node.op} {node.name!r}: there is a rule for the gradient of p = 2 only")
    outputs, width = node.output().numel, product(node.input(0).dims[-1:])
    return (Counts(div=1) + Counts(add=2, mul=1) * width) * (outputs * len(wanted))
