"""Reductions, losses and pooling of PyTorch."""

from __future__ import annotations

from typing import cast

from flopwise.graph import Node
from flopwise.operators import gradient
from flopwise.operators.aten.linear import norm
from flopwise.operators.complex import MODULUS, of_sums
from flopwise.operators.counts import SIGMOID, Counts, words
from flopwise.operators.extents import broadcast, common_divisor, extent, product
from flopwise.operators.gradient import Gradient, Wrt
from flopwise.operators.onnx.movement import bits
from flopwise.operators.operator import Operator, by, each_input

# Losses of PyTorch's that ONNX has no operator for: something for each element or sample, then a sum or mean.


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


LOSSES: dict[str, Operator] = {
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


# Reductions, searches, losses and pooling of PyTorch's that ONNX has no operator for.


def _spread_back(root: bool, mean: bool) -> gradient.Gradient:
    """The gradient of var, std and their twins that give the mean as well."""

    def rule(node: Node, wrt: gradient.Wrt) -> Counts:
        n, m = node.input(0).numel, node.output().numel
        counts = Counts(add=2, mul=1) * n + Counts(div=1, mul=1) * m
        if root:
            counts += Counts(div=1, mul=1) * m
        return counts + (Counts(add=n, div=m) if mean else Counts())

    formula = "numel(X) × (2 add + 1 mul) + numel(Y) × (1 div + 1 mul): (x − mean) × 2G / (N − 1), the mean made again"
    formula += "; numel(Y) × (1 div + 1 mul) more: G / 2y" if root else ""
    formula += "; numel(X) add + numel(Y) div more: the gradient of the mean" if mean else ""
    return gradient.Gradient(rule, gradient.both if root else gradient.x, formula)


def sorting(node: Node) -> Counts:
    """at most numel(X) × bits(numel(X)) cmp: each element finds its place among those before it by binary search."""
    x = node.input(0)
    return Counts(cmp=x.numel * bits(x.numel))


def median(node: Node) -> Counts:
    """at most numel(X) × bits(numel(X)) cmp: each element finds its place among those before it by binary search; mode:
    numel(X) × (1 add + 2 cmp) more, for the longest run of equal ones.
    """
    runs = Counts(add=1, cmp=2) * node.input(0).numel if node.attrs.get("runs", 0) else Counts()
    return sorting(node) + runs


def unique(node: Node) -> Counts:
    """at most numel(X) × bits(numel(X)) cmp: each element finds its place among those before it by binary search; the
    number of each: numel(X) add.
    """
    return sorting(node) + Counts(add=node.input(0).numel if node.attrs.get("counts", 0) else 0)


def unique_consecutive(node: Node) -> Counts:
    """numel(X) cmp, and numel(X) add each for the place among the results and for the length of each run.

    https://docs.pytorch.org/docs/stable/generated/torch.unique_consecutive.html
    """
    extras = sum(int(node.attrs.get(name, 0)) for name in ("inverse", "counts"))
    return Counts(cmp=1, add=extras) * node.input(0).numel


def quantile(node: Node) -> Counts:
    """at most numel(X) × bits(numel(X)) cmp to sort, and numel(Y) × (1 mul + 2 add) between two neighbours; where q is
    a tensor, numel(q) × (1 mul + 1 add + 1 cmp) for their places.
    """
    places = node.input(1).numel if node.has_input(1) else 0
    return sorting(node) + Counts(mul=1, add=2) * node.output().numel + Counts(mul=1, add=1, cmp=1) * places


def searchsorted(node: Node) -> Counts:
    """at most numel(X) × bits(n) cmp, n the number of boundaries: a binary search for each element.

    https://docs.pytorch.org/docs/stable/generated/torch.searchsorted.html
    """
    bounds = extent(node, node.input(1), -1) if node.has_input(1) and node.input(1).dims else 1
    return Counts(cmp=node.input(0).numel * bits(bounds))


def trace(node: Node) -> Counts:
    """min(n, m) add: the diagonal's sum."""
    x = node.input(0)
    return Counts(add=min(extent(node, x, 0), extent(node, x, 1)))


def dist(node: Node) -> Counts:
    """numel × (2 add + 1 mul) + 1 sqrt for p = 2, × (2 add + 1 bit) for p = 1, × (1 add + 1 bit + 1 cmp) for p = ∞, ×
    (2 add + 1 cmp) for p = 0, else × (2 add + 1 bit + 1 pow) + 1 pow; numel of both broadcast.

    https://docs.pytorch.org/docs/stable/generated/torch.dist.html
    """
    element, result = norm(node.attrs.get("p", 2.0))
    return (Counts(add=1) + element) * product(broadcast(node.input(0).dims, node.input(1).dims)) + result


def matrix_norm(node: Node) -> Counts:
    """numel(X) × (1 add + 1 bit) for the sums of absolute values of each column or row, and 1 cmp for each sum.

    https://docs.pytorch.org/docs/stable/generated/torch.linalg.matrix_norm.html
    """
    x = node.input(0)
    return Counts(add=1, bit=1) * x.numel + Counts(cmp=x.numel // extent(node, x, node.attrs.get("summed", -2)))


def differences(node: Node) -> Counts:
    """n m + n (n − 1) / 2 add for each line, m its differences of order n: those of each order are made from those of
    the order below.

    https://docs.pytorch.org/docs/stable/generated/torch.diff.html
    """
    order, left, lines = of_differences(node)
    return Counts(add=lines * (order * left + order * (order - 1) // 2))


def of_differences(node: Node) -> tuple[int, int, int]:
    """The order of the differences, how many there are in a line, and the lines."""
    y, axis = node.output(), node.attrs.get("dim", -1)
    left = extent(node, y, axis)
    return node.attrs.get("n", 1), left, product(d for i, d in enumerate(y.dims) if i != axis % len(y.dims))


def scatter_mean(node: Node) -> Counts:
    """numel(index) × 2 add (the sums, and how many came to each place) + numel(Y) div; include_self = False: numel(Y)
    cmp for the places that nothing came to.

    https://docs.pytorch.org/docs/stable/generated/torch.Tensor.scatter_reduce_.html
    """
    return _means(node, node.input(1).numel)


def index_mean(node: Node) -> Counts:
    """numel(source) × 2 add (the sums, and how many came to each place) + numel(Y) div; include_self = False: numel(Y)
    cmp for the places that nothing came to.

    https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_reduce_.html
    """
    return _means(node, node.input(2).numel)


def _means(node: Node, updates: int) -> Counts:
    outside = 0 if node.attrs.get("include_self", 1) else 1
    return Counts(add=2 * updates) + Counts(div=1, cmp=outside) * node.output().numel


def index_add(node: Node) -> Counts:
    """numel(source) × (1 mul + 1 add): alpha × source is added to the rows that indices pick; alpha = 1 is
    ScatterElements.

    https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_add_.html
    """
    return Counts(mul=1, add=1) * node.input(2).numel


def histc(node: Node) -> Counts:
    """numel(X) × (2 add + 1 mul + 4 cmp): each element is held against both bounds, its place is rounded down, the
    last one for the upper bound, and one more there; without bounds numel(X) × 2 cmp + 1 add + 1 div to find them.

    https://docs.pytorch.org/docs/stable/generated/torch.histc.html
    """
    elements = node.input(0).numel
    counts = Counts(add=2, mul=1, cmp=4) * elements
    return counts if node.attrs.get("bounded", 0) else counts + Counts(cmp=2 * elements, add=1, div=1)


def embedding_bag(node: Node) -> Counts:
    """numel(indices) × D add: the rows of each bag are added up, D = W.shape[1]; mode mean: numel(Y) div more; mode
    max: cmp for add; a weight for each row: mac for add.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.EmbeddingBag.html
    """
    elements, mode = node.input(1).numel * extent(node, node.input(0), 1), node.attrs.get("mode", "sum")
    if mode == "max":
        return Counts(cmp=elements)
    if node.has_input(2):
        return Counts(mac=elements)
    return Counts(add=elements, div=node.output().numel if mode == "mean" else 0)


def multinomial(node: Node) -> Counts:
    """at most numel(X) × (1 add + 1 div) for the running sums, without replacement before each draw, and numel(Y) ×
    bits(n) cmp for the draws.

    https://docs.pytorch.org/docs/stable/generated/torch.multinomial.html
    """
    x, y = node.input(0), node.output()
    rounds = 1 if node.attrs.get("replacement", 0) else extent(node, y, -1)
    return Counts(add=1, div=1) * (x.numel * rounds) + Counts(cmp=y.numel * bits(extent(node, x, -1)))


def weight_norm(node: Node) -> Counts:
    """numel(v) × (2 mul + 1 add) + numel(g) × (1 sqrt + 1 div): g v / |v|.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parametrizations.weight_norm.html
    """
    return Counts(mul=2, add=1) * node.input(0).numel + Counts(sqrt=1, div=1) * node.input(1).numel


def renorm(node: Node) -> Counts:
    """numel(X) × (2 mul + 1 add) + slices × (1 sqrt + 1 cmp + 1 div): each slice is scaled down to a norm; p ≠ 2: the
    norm's own operations for 1 mul + 1 add and 1 sqrt.

    https://docs.pytorch.org/docs/stable/generated/torch.renorm.html
    """
    x = node.input(0)
    element, result = norm(node.attrs.get("p", 2.0))
    slices = extent(node, x, node.attrs.get("dim", 0))
    return (element + Counts(mul=1)) * x.numel + (result + Counts(cmp=1, div=1)) * slices


def adaptive_avg_pool(node: Node) -> Counts:
    """the sum of all windows' sizes add, and numel(Y) div; window i of m along an axis of n elements begins at
    ⌊i n / m⌋ and ends before ⌈(i + 1) n / m⌉.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool2d.html
    """
    return Counts(add=pooled(node), div=node.output().numel)


def adaptive_max_pool(node: Node) -> Counts:
    """the sum of all windows' sizes cmp; window i of m along an axis of n elements begins at ⌊i n / m⌋ and ends before
    ⌈(i + 1) n / m⌉.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool2d.html
    """
    return Counts(cmp=pooled(node))


def pooled(node: Node) -> int:
    """The sizes of all windows of an adaptive pooling: n + m − gcd(n, m) along an axis that goes from n to m.

    Windows reach from ⌊i n / m⌋ to ⌈(i + 1) n / m⌉: two neighbours share a cell unless their border falls between two.
    """
    rank = node.attrs.get("axes", 2)
    before, after = node.input(0).dims, node.output().dims
    cells = product(before[:-rank])
    for n, m in zip(before[-rank:], after[-rank:], strict=True):
        size, count = cast("int", n), cast("int", m)
        cells *= size + count - common_divisor(size, count)
    return cells


_SQUARES = Counts(add=3, mul=1)
_DISTANCES = "the mean, the squares of the distances from it, and theirs"

OPERATORS: dict[str, Operator] = {
    "aten::nansum": each_input(
        Counts(cmp=1, add=1),
        note="each element is added unless it is NaN",
        gradient=gradient.reduced("G where x is not NaN", gradient.x, Counts(cmp=1)),
    ),
    "aten::nanmean": each_input(
        Counts(cmp=1, add=2),
        Counts(div=1),
        "the sum and the number of what is not NaN",
        gradient=gradient.reduced(
            "G / k where x is not NaN, k how many are not",
            "reduction:number_of_each",
            Counts(cmp=1),
            Counts(div=1),
        ),
    ),
    **dict.fromkeys(("aten::all", "aten::any"), each_input(Counts(bit=1))),
    "aten::aminmax": each_input(Counts(cmp=2)),
    "aten::var": each_input(
        _SQUARES,
        Counts(div=2),
        _DISTANCES,
        gradient=_spread_back(False, False),
        complex=of_sums(_SQUARES * 2, Counts(div=4, add=1)),
    ),
    "aten::var_mean": each_input(_SQUARES, Counts(div=2), _DISTANCES, gradient=_spread_back(False, True)),
    "aten::std": each_input(
        _SQUARES,
        Counts(div=2, sqrt=1),
        gradient=_spread_back(True, False),
        complex=of_sums(_SQUARES * 2, Counts(div=4, add=1, sqrt=1)),
    ),
    "aten::std_mean": each_input(_SQUARES, Counts(div=2, sqrt=1), gradient=_spread_back(True, True)),
    "aten::norm_inf": each_input(
        Counts(bit=1, cmp=1),
        gradient=gradient.reduced("G × sign(x) where |x| = y", gradient.both, Counts(bit=1, cmp=2, mul=1)),
        complex=of_sums(MODULUS + Counts(cmp=1), Counts()),
    ),
    "aten::norm_p": each_input(
        Counts(bit=1, pow=1, add=1),
        Counts(pow=1),
        gradient=gradient.reduced(
            "sign(x) |x|^(p−1) × G y^(1−p)", gradient.both, Counts(bit=1, pow=1, cmp=1, mul=2), Counts(pow=1, mul=1)
        ),
        complex=of_sums(MODULUS + Counts(pow=1, add=1), Counts(pow=1)),
    ),
    "aten::logsumexp": each_input(
        Counts(exp=1, add=1),
        Counts(log=1),
        gradient=gradient.reduced("G × exp(x − y)", gradient.both, Counts(add=1, exp=1, mul=1)),
    ),
    "aten::logcumsumexp": each_input(Counts(exp=1, add=1, log=1)),
    "aten::cummax": each_input(Counts(cmp=1), gradient=gradient.by("movement:picked", gradient.picks)),
    "aten::count_nonzero": each_input(Counts(cmp=1, add=1)),
    "aten::bincount": each_input(Counts(add=1)),
    "aten::histc": by(histc),
    "aten::unique_consecutive": by(unique_consecutive),
    "aten::trace": by(trace, gradient=gradient.nothing("G is spread along the diagonal")),
    "aten::linalg_matrix_norm": by(
        matrix_norm, gradient=gradient.by("reduction:matrix_norm", "reduction:matrix_norm_keeps")
    ),
    "aten::diff": by(differences, gradient=gradient.by("reduction:differences", gradient.none)),
    "aten::scatter_reduce": by(scatter_mean, gradient=gradient.by("reduction:scatter_mean", gradient.all_of_it)),
    "aten::index_reduce": by(index_mean, gradient=gradient.by("reduction:index_mean", gradient.all_of_it)),
    "aten::index_add": by(index_add, gradient=gradient.by("reduction:index_add", "reduction:index_add_keeps")),
    "aten::dist": by(dist),
    "aten::median": by(
        median, "bound", gradient=gradient.nothing("G goes to the element that was picked", gradient.picks)
    ),
    "aten::unique": by(unique, "bound"),
    "aten::quantile": by(quantile, "bound"),
    "aten::searchsorted": by(searchsorted, "bound"),
    "aten::embedding_bag": by(embedding_bag, gradient=gradient.by("reduction:bag", gradient.indices)),
    "aten::multinomial": by(multinomial, "bound"),
    "aten::_weight_norm": by(weight_norm, gradient=gradient.by("linear:weight_norm", "linear:weight_norm_keeps")),
    "aten::renorm": by(renorm),
    "aten::adaptive_avg_pool": by(adaptive_avg_pool, gradient=gradient.by("reduction:adaptive_average", gradient.x)),
    "aten::adaptive_max_pool": by(adaptive_max_pool, gradient=gradient.by("movement:picked", "pooling:places")),
    **LOSSES,
}
