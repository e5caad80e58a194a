"""Optimizers of ``ai.onnx.preview.training``: one step for all tensors, as the pseudo code of the specification has it.

The coefficients that are attributes always count, zero or not; differences of attributes (1 − alpha) are constants.
"""

from __future__ import annotations

from flopwise.errors import ShapeError
from flopwise.graph import Node
from flopwise.operators.counts import Counts
from flopwise.operators.operator import Operator, by, unknown


def adagrad(node: Node) -> Counts:
    """n × (3 mul + 4 add + 1 sqrt + 1 div) + 1 mul + 1 add + 1 div, n the elements of all optimized tensors: G' =
    norm_coefficient × X + G, H' = H + G'², X' = X − r G' / (√H' + epsilon), r = R / (1 + T × decay_factor).

    https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adagrad.html
    """
    return Counts(mul=3, add=4, sqrt=1, div=1) * _optimized(node, 3) + Counts(mul=1, add=1, div=1)


def adam(node: Node) -> Counts:
    """n × (8 mul + 5 add + 1 sqrt + 1 div) + 2 pow + 2 add + 1 sqrt + 1 mul + 1 div + 1 cmp, n the elements of all
    optimized tensors: G' = norm_coefficient × X + G, V' = alpha V + (1 − alpha) G', H' = beta H + (1 − beta) G'²,
    X' = (1 − norm_coefficient_post) × (X − r V' / (√H' + epsilon)), r = R √(1 − betaᵀ) / (1 − alphaᵀ) or R, by T > 0.

    https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adam.html
    """
    rate = Counts(pow=2, add=2, sqrt=1, mul=1, div=1, cmp=1)
    return Counts(mul=8, add=5, sqrt=1, div=1) * _optimized(node, 4) + rate


def momentum(node: Node) -> Counts:
    """n × (4 mul + 3 add) + 1 cmp, n the elements of all optimized tensors: G' = norm_coefficient × X + G, V' = alpha
    V + b G', X' = X − R V', b = beta or 1, by T > 0; mode = nesterov: n × (5 mul + 4 add) + 1 cmp, X' = X − R (G' +
    alpha V').

    https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Momentum.html
    """
    nesterov = node.attrs.get("mode", "standard") == "nesterov"
    once = Counts(mul=5, add=4) if nesterov else Counts(mul=4, add=3)
    return once * _optimized(node, 3) + Counts(cmp=1)


def _optimized(node: Node, each: int) -> int:
    """Elements of the optimized tensors: R and T, then ``each`` tensors for every one of them, they themselves first.

    Raises:
        ShapeError: the number of inputs does not fit.
    """
    tensors, left_over = divmod(len(node.inputs) - 2, each)
    if tensors < 1 or left_over:
        raise ShapeError(f"{node.op} {node.name!r} takes R, T and {each} tensors for each optimized one")
    return sum(node.input(2 + i).numel for i in range(tensors))


OPERATORS: dict[str, Operator] = {
    "ai.onnx.preview.training::Adagrad": by(adagrad, shape="standard:updated", dtype=2),
    "ai.onnx.preview.training::Adam": by(adam, shape="standard:updated", dtype=2),
    "ai.onnx.preview.training::Momentum": by(momentum, shape="standard:updated", dtype=2),
    "ai.onnx.preview.training::Gradient": unknown(
        "runs the backward pass of the part of the model between the tensors that it names", types="standard:gradients"
    ),
}
