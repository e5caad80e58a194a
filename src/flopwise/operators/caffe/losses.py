"""Caffe's losses and measures in the forward pass: one number from scores and labels.

Which class a label names is addressing. Both sides of a selection are computed, as everywhere. The definitions are
those of BVLC Caffe, src/caffe/layers/*_loss_layer.cpp; losses are normalised by one division.
"""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import gradient
from flopwise.operators.counts import SIGMOID, SOFTMAX, Counts
from flopwise.operators.extents import extent, product
from flopwise.operators.gradient import Gradient, Wrt
from flopwise.operators.inputs import DATA, LABEL, inputs
from flopwise.operators.operator import Operator, by

#: The logarithm of a probability that is kept from zero.
_LOG = Counts(cmp=1, log=1)


def _back(note: str, per: Counts, single: Counts | None = None, labels: Counts | None = None) -> Gradient:
    """The gradient of a loss: operations for each element of X, for the loss itself, and for each sample."""

    def rule(node: Node, wrt: Wrt) -> Counts:
        source = node.input(0)
        counts = per * (source.numel * len(wrt & {0, 1}))
        return counts + (single or Counts(div=1)) + (labels or Counts()) * extent(node, source, 0)

    return Gradient(rule, gradient.first_two, note)


def softmax_loss(node: Node) -> Counts:
    """numel(X) × (1 cmp + 2 add + 1 exp + 1 div) + labels × (1 cmp + 1 log + 1 add) + 1 div: softmax, and the sum of
    the logarithms of the labels' probabilities. labels = numel(X) / X.shape[axis].

    https://caffe.berkeleyvision.org/tutorial/layers/softmaxwithloss.html
    """
    return SOFTMAX * node.input(0).numel + (_LOG + Counts(add=1)) * _labels(node) + Counts(div=1)


def logistic_loss(node: Node) -> Counts:
    """N × (1 cmp + 1 log + 1 add) + 1 div: the logarithms of the labels' probabilities.

    https://caffe.berkeleyvision.org/tutorial/layers/multinomiallogisticloss.html
    """
    return (_LOG + Counts(add=1)) * extent(node, node.input(0), 0) + Counts(div=1)


def infogain_loss(node: Node) -> Counts:
    """numel(X) × (2 cmp + 3 add + 1 exp + 1 div + 1 log + 1 mul) + 1 div: softmax, and the sum of all logarithms
    weighed by the label's row of the gain matrix.

    https://caffe.berkeleyvision.org/tutorial/layers/infogainloss.html
    """
    return (SOFTMAX + _LOG + Counts(mul=1, add=1)) * node.input(0).numel + Counts(div=1)


def sigmoid_loss(node: Node) -> Counts:
    """numel(X) × (1 cmp + 4 add + 1 mul + 2 bit + 1 exp + 1 log) + 1 div: the sum of max(x, 0) − x t + log(1 +
    exp(−|x|)).

    https://caffe.berkeleyvision.org/tutorial/layers/sigmoidcrossentropyloss.html
    """
    return Counts(cmp=1, add=4, mul=1, bit=2, exp=1, log=1) * node.input(0).numel + Counts(div=1)


def euclidean_loss(node: Node) -> Counts:
    """numel(X) × (2 add + 1 mul) + 1 div: the sum of the squared differences, over 2N.

    https://caffe.berkeleyvision.org/tutorial/layers/euclideanloss.html
    """
    return Counts(add=2, mul=1) * node.input(0).numel + Counts(div=1)


def hinge_loss(node: Node) -> Counts:
    """numel(X) × (2 add + 1 cmp) + N bit + 1 div: the sum of max(0, 1 + x), x negated for the label; norm L2: 1 mul
    for each element more.

    https://caffe.berkeleyvision.org/tutorial/layers/hingeloss.html
    """
    x = node.input(0)
    squared = int(node.attrs.get("norm", "L1") == "L2")
    return Counts(add=2, cmp=1, mul=squared) * x.numel + Counts(bit=extent(node, x, 0), div=1)


def contrastive_loss(node: Node) -> Counts:
    """numel(X) × (2 add + 1 mul) + N × (1 sqrt + 2 add + 1 cmp + 1 mul) + 1 div: squared distances of pairs d², or
    max(margin − d, 0)² where they differ, summed, over 2N; legacy_version: max(margin − d², 0), so no sqrt and mul.

    https://caffe.berkeleyvision.org/tutorial/layers/contrastiveloss.html
    """
    x = node.input(0)
    root = int(not node.attrs.get("legacy_version", 0))
    pair = Counts(sqrt=root, add=2, cmp=1, mul=root)
    return Counts(add=2, mul=1) * x.numel + pair * extent(node, x, 0) + Counts(div=1)


def smooth_l1_loss(node: Node) -> Counts:
    """numel(X) × (1 bit + 1 cmp + 2 mul + 3 add) + 1 div: d = x − t, the sum of σ² d² / 2 or |d| − 1 / (2σ²); 1 mul
    more for each of the inside and outside weights.

    https://github.com/rbgirshick/caffe-fast-rcnn
    """
    weights = max(0, len(node.known_inputs) - 2)
    return Counts(bit=1, cmp=1, mul=2 + weights, add=3) * node.input(0).numel + Counts(div=1)


def accuracy(node: Node) -> Counts:
    """at most numel(X) × 1 cmp + labels × 1 add + 1 div: each score against the label's, and the hits; with one number
    per class 1 add for each label and 1 div for each class more. labels = numel(X) / X.shape[axis].

    Comparing stops as soon as top_k scores are higher.

    https://caffe.berkeleyvision.org/tutorial/layers/accuracy.html
    """
    x = node.input(0)
    counts = Counts(cmp=x.numel, add=_labels(node), div=1)
    if len(node.known_outputs) > 1:
        counts += Counts(add=_labels(node), div=node.output(1).numel)
    return counts


def _labels(node: Node) -> int:
    """Labels: the product of all extents of X except the one of the classes."""
    x, axis = node.input(0), node.attrs.get("axis", 1)
    extent(node, x, axis)
    return product(dim for i, dim in enumerate(x.dims) if i != axis % len(x.dims))


OPERATORS: dict[str, Operator] = {
    "caffe::SoftmaxWithLoss": by(
        softmax_loss,
        inputs=inputs(DATA, LABEL),
        gradient=_back("(p − 1 for the label) × G / N", Counts(mul=1), labels=Counts(add=1)),
    ),
    "caffe::MultinomialLogisticLoss": by(logistic_loss, inputs=inputs(DATA, LABEL)),
    "caffe::InfogainLoss": by(infogain_loss),
    "caffe::SigmoidCrossEntropyLoss": by(
        sigmoid_loss, gradient=_back("(sigmoid(x) − t) × G / N", SIGMOID + Counts(add=1, mul=1))
    ),
    "caffe::EuclideanLoss": by(euclidean_loss, gradient=_back("± G / N × (a − b), the difference kept", Counts(mul=1))),
    "caffe::HingeLoss": by(
        hinge_loss, gradient=_back("G / N × sign, negated for the label", Counts(cmp=1, mul=1), labels=Counts(bit=1))
    ),
    "caffe::ContrastiveLoss": by(contrastive_loss),
    "caffe::SmoothL1Loss": by(
        smooth_l1_loss, gradient=_back("σ² d or its sign, by the difference d, × G / N", Counts(cmp=2, mul=2))
    ),
    "caffe::Accuracy": by(accuracy, "bound", effects=frozenset({"no gradient"})),
}
