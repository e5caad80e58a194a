"""Losses of PyTorch's that ONNX has no operator for: something for each element or sample, then a sum or mean."""

from __future__ import annotations

from flopwise.graph import Node
from flopwise.operators import gradient
from flopwise.operators.aten.linear import norm
from flopwise.operators.counts import SIGMOID, Counts, words
from flopwise.operators.extents import broadcast, extent, product
from flopwise.operators.gradient import Gradient, Wrt
from flopwise.operators.operator import Operator, by


def _back(note: str, per: Counts, target: Counts | None = None) -> Gradient:
    """The gradient of a loss of input and target: operations for each element, and 1 div for a mean."""
    own = target or Counts(bit=1)

    def rule(node: Node, wrt: Wrt) -> Counts:
        counts = per * node.input(0).numel
        if 1 in wrt:
            counts += own * node.input(0).numel
        return counts + Counts(div=int(node.attrs.get("reduction", "mean") == "mean"))

    formula = f"numel(X) × {words(per)}, {words(own)} more for the target, and 1 div for reduction = mean: {note}"
    return Gradient(rule, gradient.inputs, formula)


def _loss(formula: str, *, gradient: Gradient | None = None, **classes: int) -> Operator:
    """A row for a loss: the given operations for each element, then the reduction."""
    once = Counts(**classes)

    def rule(node: Node) -> Counts:
        return _of_elements(node, once)

    return Operator(
        rule,
        f"numel × {words(once)}: {formula}; a weight: numel mul; reduction mean: numel add + 1 div, sum: numel add",
        gradient=gradient,
    )


def _of_elements(node: Node, once: Counts) -> Counts:
    """The given operations for each element of input and target, a weight if there is one, and the reduction."""
    elements = product(broadcast(node.input(0).dims, node.input(1).dims))
    weighted = Counts(mul=1) if node.has_input(2) else Counts()
    return (once + weighted) * elements + _reduced(node, elements)


def _reduced(node: Node, elements: int) -> Counts:
    reduction = node.attrs.get("reduction", "mean")
    return Counts() if reduction == "none" else Counts(add=elements, div=int(reduction != "sum"))


def binary_cross_entropy_with_logits(node: Node) -> Counts:
    """numel × (3 add + 1 mul + 1 cmp + 1 exp + 1 log + 2 bit): max(x, 0) − x t + log(1 + exp(−|x|)); pos_weight: numel
    × (2 add + 2 mul + 1 bit) more and numel(pos_weight) add, (1 − t) x + (1 + (p − 1) t) (log(1 + exp(−|x|)) + max(−x,
    0)); a weight: numel mul; reduction mean: numel add + 1 div, sum: numel add.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html
    """
    once = Counts(add=3, mul=1, cmp=1, exp=1, log=1, bit=2)
    if not node.has_input(3):
        return _of_elements(node, once)
    return _of_elements(node, once + Counts(add=2, mul=2, bit=1)) + Counts(add=node.input(3).numel)


def kl_div(node: Node) -> Counts:
    """numel × (1 log + 1 add + 1 mul): t (log t − x); log_target: exp for log, exp(t) (t − x); reduction mean: numel
    add + 1 div, sum: numel add.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.KLDivLoss.html
    """
    target = Counts(exp=1) if node.attrs.get("log_target", 0) else Counts(log=1)
    return _of_elements(node, Counts(add=1, mul=1) + target)


def poisson_nll(node: Node) -> Counts:
    """numel × (1 exp + 1 mul + 1 add): exp(x) − t x; without log_input (1 log + 1 mul + 2 add): x − t log(x + ε); full:
    numel × (2 log + 3 mul + 3 add + 1 cmp) more, t log t − t + log(2πt) / 2 above 1; reduction mean: numel add + 1 div,
    sum: numel add.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.PoissonNLLLoss.html
    """
    once = Counts(exp=1, mul=1, add=1) if node.attrs.get("log_input", 1) else Counts(log=1, mul=1, add=2)
    if node.attrs.get("full", 0):
        once += Counts(log=2, mul=3, add=3, cmp=1)
    return _of_elements(node, once)


def margin_ranking(node: Node) -> Counts:
    """numel × (2 add + 1 mul + 1 cmp): max(0, margin − t (x₁ − x₂)); reduction mean: numel add + 1 div, sum: numel add.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.MarginRankingLoss.html
    """
    elements = product(broadcast(*(node.input(i).dims for i in range(3))))
    return Counts(add=2, mul=1, cmp=1) * elements + _reduced(node, elements)


def multi_margin(node: Node) -> Counts:
    """N × (C − 1) × (3 add + 1 cmp) + N div: the mean of max(0, margin − x_t + x) over the other classes; p = 2, a
    weight: N × (C − 1) mul each; reduction mean: N add + 1 div, sum: N add.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiMarginLoss.html
    """
    samples, classes = _samples(node)
    once = Counts(add=3, cmp=1, mul=int(node.attrs.get("p", 1) == 2) + int(node.has_input(2)))
    return once * (samples * (classes - 1)) + Counts(div=samples) + _reduced(node, samples)


def multilabel_margin(node: Node) -> Counts:
    """at most N × (⌊C² / 4⌋ × (3 add + 1 cmp) + C cmp) + N div: max(0, 1 − x_t + x) for each label and each class that
    is none, most of them when half of the classes are labels, which end at the first negative one; reduction mean: N
    add + 1 div, sum: N add.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiLabelMarginLoss.html
    """
    samples, classes = _samples(node)
    once = Counts(add=3, cmp=1) * (classes * classes // 4) + Counts(cmp=classes, div=1)
    return once * samples + _reduced(node, samples)


def _samples(node: Node) -> tuple[int, int]:
    """Samples and classes of (N, C) or (C)."""
    x = node.input(0)
    return product(x.dims[:-1]), extent(node, x, -1)


def cross_entropy_dense(node: Node) -> Counts:
    """numel(X) × (1 cmp + 3 add + 1 exp + 1 mul + 1 add) + M log + M bit: log-softmax times the probabilities of the
    classes, M samples; label smoothing: numel(X) × (1 mul + 1 add) more; a weight: numel(X) mul; then the reduction
    over M: mean M add + 1 div, sum M add; the mean of weighted labels M add more.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
    """
    x, weighted = node.input(0), node.has_input(2)
    axis = 1 if len(x.dims) > 1 else 0
    samples = product(x.dims[:axis]) * product(x.dims[axis:][1:])
    counts = Counts(cmp=1, add=4, exp=1, mul=1 + int(weighted)) * x.numel + Counts(log=1, bit=1) * samples
    if node.attrs.get("smoothed", 0):
        counts += Counts(mul=1, add=1) * x.numel
    if weighted and node.attrs.get("labels", 0) and node.attrs.get("reduction", "mean") == "mean":
        counts += Counts(add=samples)
    return counts + _reduced(node, samples)


def cosine_embedding(node: Node) -> Counts:
    """numel(X) × (1 mac + 2 mul + 2 add) + N × (1 mul + 1 sqrt + 1 div + 2 add + 2 cmp): the cosine c of each pair,
    then 1 − c or max(0, c − margin); reduction mean: N add + 1 div, sum: N add.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.CosineEmbeddingLoss.html
    """
    dims = broadcast(node.input(0).dims, node.input(1).dims)
    pairs = product(dims[:-1])
    counts = Counts(mac=1, mul=2, add=2) * product(dims) + Counts(mul=1, sqrt=1, div=1, add=2, cmp=2) * pairs
    return counts + _reduced(node, pairs)


def triplet_margin(node: Node) -> Counts:
    """D (numel(X) × (3 add + 1 mul) + N sqrt) + N × (2 add + 1 cmp): D = 2 distances |x − y + ε|, then a margin; p ≠ 2:
    the norm's own operations for 1 mul, 1 add and 1 sqrt; swap: D = 3, N cmp more; reduction mean: N add + 1 div, sum:
    N add.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.TripletMarginLoss.html
    """
    dims = broadcast(*(node.input(i).dims for i in range(3)))
    samples, swap = product(dims[:-1]), int(node.attrs.get("swap", 0))
    element, result = norm(node.attrs.get("p", 2.0))
    distance = (Counts(add=2) + element) * product(dims) + result * samples
    return distance * (2 + swap) + Counts(add=2, cmp=1 + swap) * samples + _reduced(node, samples)


OPERATORS: dict[str, Operator] = {
    "aten::mse_loss": _loss("(x − t)²", add=1, mul=1, gradient=_back("(x − t) × 2G / N", Counts(add=1, mul=2))),
    "aten::l1_loss": _loss("|x − t|", add=1, bit=1, gradient=_back("sign(x − t) × G / N", Counts(add=1, cmp=1, mul=1))),
    "aten::smooth_l1_loss": _loss(
        "d² / 2β or d − β/2, d = |x − t|",
        add=2,
        bit=1,
        cmp=1,
        mul=2,
        gradient=_back("by x − t against ±β", Counts(add=1, cmp=2, mul=1, div=1)),
    ),
    "aten::huber_loss": _loss(
        "d² / 2 or δ (d − δ/2), d = |x − t|",
        add=2,
        bit=1,
        cmp=1,
        mul=3,
        gradient=_back("by x − t against ±δ", Counts(add=1, cmp=2, mul=2)),
    ),
    "aten::binary_cross_entropy": _loss(
        "−(t log x + (1 − t) log(1 − x)), logarithms of −100 at least",
        log=2,
        mul=2,
        add=3,
        bit=1,
        cmp=2,
        gradient=_back("G (x − t) / max((1 − x) x, ε)", Counts(add=2, mul=2, cmp=1, div=1)),
    ),
    "aten::binary_cross_entropy_with_logits": by(
        binary_cross_entropy_with_logits, gradient=_back("G (sigmoid(x) − t)", SIGMOID + Counts(add=1, mul=1))
    ),
    "aten::kl_div": by(kl_div, gradient=_back("−G t", Counts(mul=1, bit=1), Counts(mul=2, log=1, add=2))),
    "aten::soft_margin_loss": _loss(
        "log(1 + exp(−t x))",
        mul=1,
        bit=1,
        exp=1,
        add=1,
        log=1,
        gradient=_back("−t G z / (z + 1), z = exp(−t x)", Counts(mul=3, bit=2, exp=1, add=1, div=1)),
    ),
    "aten::poisson_nll_loss": by(poisson_nll),
    "aten::hinge_embedding_loss": _loss("x, or max(0, margin − x)", add=1, cmp=2),
    "aten::margin_ranking_loss": by(margin_ranking),
    "aten::multi_margin_loss": by(multi_margin),
    "aten::multilabel_margin_loss": by(multilabel_margin, "bound"),
    "aten::cross_entropy_dense": by(
        cross_entropy_dense, gradient=gradient.by("pointwise:dense_cross_entropy", gradient.inputs)
    ),
    "aten::cosine_embedding_loss": by(cosine_embedding),
    "aten::triplet_margin_loss": by(triplet_margin),
}
