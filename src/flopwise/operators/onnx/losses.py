"""Losses, as the function bodies in the ONNX schema define them."""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import gradient
from flopwise.operators.counts import Counts
from flopwise.operators.operator import Operator, by


def negative_log_likelihood_loss(node: Node) -> Counts:
    """M × 1 bit, M = numel(target): the sign of each picked element; weight or ignore_index: M × 1 mul; ignore_index
    also M × (1 cmp + 1 add). reduction = sum: M add; mean: M add + 1 div, and M add more (the sum of the weights) with
    weight or ignore_index.

    Picking an element by its class is a selection. The add that ignore_index brings is the body's way to a zero of the
    target's type.

    https://onnx.ai/onnx/operators/onnx__NegativeLogLikelihoodLoss.html
    """
    samples = node.input(1).numel
    ignores = "ignore_index" in node.attrs
    weighted = node.has_input(2) or ignores
    once = Counts(bit=1, mul=int(weighted), cmp=int(ignores), add=int(ignores))
    reduction = node.attrs.get("reduction", "mean")
    if reduction == "none":
        return once * samples
    if reduction == "sum":
        return (once + Counts(add=1)) * samples
    return (once + Counts(add=2 if weighted else 1)) * samples + Counts(div=1)


def softmax_cross_entropy_loss(node: Node) -> Counts:
    """numel(scores) × (1 cmp + 3 add + 1 exp) + M log, M = numel(labels): log-softmax; then the
    NegativeLogLikelihoodLoss of M labels.

    https://onnx.ai/onnx/operators/onnx__SoftmaxCrossEntropyLoss.html
    """
    log_softmax = Counts(cmp=1, add=3, exp=1) * node.input(0).numel + Counts(log=node.input(1).numel)
    return log_softmax + negative_log_likelihood_loss(node)


OPERATORS: dict[str, Operator] = {
    "NegativeLogLikelihoodLoss": by(
        negative_log_likelihood_loss,
        gradient=gradient.by("losses:negative_log_likelihood", gradient.inputs_at(1, 2)),
        shape="making:loss",
    ),
    "SoftmaxCrossEntropyLoss": by(
        softmax_cross_entropy_loss,
        gradient=gradient.by("losses:softmax_cross_entropy", "losses:probabilities"),
        shape="making:loss",
    ),
}
