"""Reductions, searches, losses and pooling of PyTorch's that ONNX has no operator for."""

from __future__ import annotations

from flopwise.counts import Counts
from flopwise.graph import Dim, Node
from flopwise.ops.extents import extent, product
from flopwise.ops.operator import Operator, by, words


def _reduces(per_element: Counts, per_result: Counts | None = None, note: str = "") -> Operator:
    """A row for so many operations for each element and each result."""
    after = per_result or Counts()

    def rule(node: Node) -> Counts:
        return per_element * node.input(0).numel + after * node.output().numel

    formula = f"numel(X) × {words(per_element)}"
    if per_result:
        formula += f" + numel(Y) × {words(per_result)}"
    return Operator(rule, f"{formula}: {note}" if note else formula)


def sorting(node: Node) -> Counts:
    """at most numel(X) × bits(numel(X)) cmp: each element finds its place among those before it by binary search."""
    x = node.input(0)
    return Counts(cmp=x.numel * _bits(x.numel))


def quantile(node: Node) -> Counts:
    """at most numel(X) × bits(numel(X)) cmp to sort, and numel(Y) × (1 mul + 2 add) between two neighbours."""
    return sorting(node) + Counts(mul=1, add=2) * node.output().numel


def searchsorted(node: Node) -> Counts:
    """at most numel(X) × bits(n) cmp, n the number of boundaries: a binary search for each element.

    https://docs.pytorch.org/docs/stable/generated/torch.searchsorted.html
    """
    bounds = extent(node, node.input(1), -1) if node.has_input(1) and node.input(1).dims else 1
    return Counts(cmp=node.input(0).numel * _bits(bounds))


def _bits(count: Dim) -> int:
    return count.bit_length() if isinstance(count, int) else count


def trace(node: Node) -> Counts:
    """min(n, m) add: the diagonal's sum."""
    x = node.input(0)
    return Counts(add=min(extent(node, x, 0), extent(node, x, 1)))


def dist(node: Node) -> Counts:
    """numel × (1 add + 1 mac) + 1 sqrt for p = 2; else numel × (2 add + 1 bit + 1 pow) + 1 pow.

    https://docs.pytorch.org/docs/stable/generated/torch.dist.html
    """
    cells = node.input(0).numel
    if node.attrs.get("p", 2.0) == 2:
        return Counts(add=cells, mac=cells, sqrt=1)
    return Counts(add=2 * cells, bit=cells, pow=cells + 1)


def embedding_bag(node: Node) -> Counts:
    """numel(indices) × D add: the rows of each bag are added up, D = W.shape[1].

    https://docs.pytorch.org/docs/stable/generated/torch.nn.EmbeddingBag.html
    """
    return Counts(add=node.input(1).numel * extent(node, node.input(0), 1))


def multinomial(node: Node) -> Counts:
    """at most numel(X) × (1 add + 1 div) for the running sums, and numel(Y) × bits(n) cmp for the draws."""
    x = node.input(0)
    return Counts(add=1, div=1) * x.numel + Counts(cmp=node.output().numel * _bits(extent(node, x, -1)))


def weight_norm(node: Node) -> Counts:
    """numel(v) × (2 mul + 1 add) + numel(g) × (1 sqrt + 1 div): g v / |v|.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parametrizations.weight_norm.html
    """
    return Counts(mul=2, add=1) * node.input(0).numel + Counts(sqrt=1, div=1) * node.input(1).numel


def renorm(node: Node) -> Counts:
    """numel(X) × (2 mul + 1 add) + rows × (1 sqrt + 1 cmp + 1 div): each slice is scaled down to a norm."""
    x = node.input(0)
    return Counts(mul=2, add=1) * x.numel + Counts(sqrt=1, cmp=1, div=1) * extent(node, x, 0)


def adaptive_avg_pool(node: Node) -> Counts:
    """the sum of all windows' sizes add, and numel(Y) div; window i of m along an axis of n elements begins at
    ⌊i n / m⌋ and ends before ⌈(i + 1) n / m⌉.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool2d.html
    """
    return Counts(add=_windows(node), div=node.output().numel)


def adaptive_max_pool(node: Node) -> Counts:
    """the sum of all windows' sizes cmp; window i of m along an axis of n elements begins at ⌊i n / m⌋ and ends before
    ⌈(i + 1) n / m⌉.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool2d.html
    """
    return Counts(cmp=_windows(node))


def _windows(node: Node) -> int:
    rank = node.attrs.get("axes", 2)
    before, after = node.input(0).dims, node.output().dims
    cells = product(before[:-rank])
    for n, m in zip(before[-rank:], after[-rank:], strict=True):
        cells *= sum(-(-(i + 1) * int(n) // int(m)) - i * int(n) // int(m) for i in range(int(m)))
    return cells


def _loss(formula: str, **classes: int) -> Operator:
    """A row for a loss: so much for each element, then the reduction."""
    once = Counts(**classes)

    def rule(node: Node) -> Counts:
        elements = max(node.input(0).numel, node.input(1).numel)
        weighted = Counts(mul=elements) if node.has_input(2) else Counts()
        return once * elements + weighted + _reduced(node, elements)

    return Operator(
        rule,
        f"numel × {words(once)}: {formula}; a weight: numel mul; reduction mean: numel add + 1 div, sum: numel add",
    )


def _reduced(node: Node, elements: int) -> Counts:
    reduction = node.attrs.get("reduction", "mean")
    return Counts() if reduction == "none" else Counts(add=elements, div=int(reduction != "sum"))


def cross_entropy_dense(node: Node) -> Counts:
    """numel(X) × (1 cmp + 3 add + 1 exp + 1 mul + 1 add) + M log + M bit: log-softmax times the probabilities of the
    classes, M samples; label smoothing: numel(X) × (1 mul + 1 add) more; then the reduction over M.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
    """
    x = node.input(0)
    axis = 1 if len(x.dims) > 1 else 0
    samples = product(x.dims[:axis]) * product(x.dims[axis:][1:])
    counts = Counts(cmp=1, add=4, exp=1, mul=1) * x.numel + Counts(log=1, bit=1) * samples
    if node.attrs.get("smoothed", 0):
        counts += Counts(mul=1, add=1) * x.numel
    return counts + _reduced(node, samples)


def cosine_embedding(node: Node) -> Counts:
    """numel(X) × 3 mac + N × (1 mul + 1 sqrt + 1 div + 2 add + 1 cmp): the cosine of each pair, then a margin.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.CosineEmbeddingLoss.html
    """
    x = node.input(0)
    pairs = extent(node, x, 0) if len(x.dims) > 1 else 1
    return Counts(mac=3 * x.numel) + Counts(mul=1, sqrt=1, div=1, add=2, cmp=1) * pairs


def triplet_margin(node: Node) -> Counts:
    """numel(X) × 2 (1 add + 1 mac) + N × (2 sqrt + 3 add + 1 cmp): two distances, then a margin.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.TripletMarginLoss.html
    """
    x = node.input(0)
    samples = extent(node, x, 0) if len(x.dims) > 1 else 1
    return Counts(add=2, mac=2) * x.numel + Counts(sqrt=2, add=3, cmp=1) * samples


_SQUARES = Counts(add=3, mul=1)

OPERATORS: dict[str, Operator] = {
    "aten::all": _reduces(Counts(bit=1)),
    "aten::any": _reduces(Counts(bit=1)),
    "aten::aminmax": _reduces(Counts(cmp=2)),
    "aten::var": _reduces(_SQUARES, Counts(div=2), "the mean, the squares of the distances from it, and theirs"),
    "aten::var_mean": _reduces(_SQUARES, Counts(div=2), "the mean, the squares of the distances from it, and theirs"),
    "aten::std": _reduces(_SQUARES, Counts(div=2, sqrt=1)),
    "aten::std_mean": _reduces(_SQUARES, Counts(div=2, sqrt=1)),
    "aten::norm_inf": _reduces(Counts(bit=1, cmp=1)),
    "aten::norm_p": _reduces(Counts(bit=1, pow=1, add=1), Counts(pow=1)),
    "aten::logsumexp": _reduces(Counts(exp=1, add=1), Counts(log=1)),
    "aten::logcumsumexp": _reduces(Counts(exp=1, add=1, log=1)),
    "aten::cummax": _reduces(Counts(cmp=1)),
    "aten::count_nonzero": _reduces(Counts(cmp=1, add=1)),
    "aten::bincount": _reduces(Counts(add=1)),
    "aten::histc": _reduces(Counts(add=2, mul=1, cmp=2), None, "the place of each element, and one more there"),
    "aten::unique_consecutive": _reduces(Counts(cmp=1)),
    "aten::trace": by(trace),
    "aten::dist": by(dist),
    "aten::median": by(sorting, "bound"),
    "aten::unique": by(sorting, "bound"),
    "aten::quantile": by(quantile, "bound"),
    "aten::searchsorted": by(searchsorted, "bound"),
    "aten::embedding_bag": by(embedding_bag),
    "aten::multinomial": by(multinomial, "bound"),
    "aten::_weight_norm": by(weight_norm),
    "aten::renorm": by(renorm),
    "aten::adaptive_avg_pool": by(adaptive_avg_pool),
    "aten::adaptive_max_pool": by(adaptive_max_pool),
    "aten::mse_loss": _loss("(x − t)²", add=1, mul=1),
    "aten::l1_loss": _loss("|x − t|", add=1, bit=1),
    "aten::smooth_l1_loss": _loss("d² / 2β or d − β/2, d = |x − t|", add=2, bit=1, cmp=1, mul=2),
    "aten::huber_loss": _loss("d² / 2 or δ (d − δ/2), d = |x − t|", add=2, bit=1, cmp=1, mul=3),
    "aten::binary_cross_entropy": _loss("−(t log x + (1 − t) log(1 − x))", log=2, mul=2, add=3, bit=1),
    "aten::binary_cross_entropy_with_logits": _loss(
        "max(x, 0) − x t + log(1 + exp(−|x|))", cmp=1, mul=1, add=3, bit=2, exp=1, log=1
    ),
    "aten::kl_div": _loss("t (log t − x)", log=1, add=1, mul=1),
    "aten::soft_margin_loss": _loss("log(1 + exp(−t x))", mul=1, bit=1, exp=1, add=1, log=1),
    "aten::poisson_nll_loss": _loss("exp(x) − t x", exp=1, mul=1, add=1),
    "aten::hinge_embedding_loss": _loss("x, or max(0, margin − x)", add=1, cmp=2),
    "aten::margin_ranking_loss": _loss("max(0, margin − t (x₁ − x₂))", add=2, mul=1, cmp=1),
    "aten::multi_margin_loss": _loss("max(0, margin − x_t + x)", add=2, cmp=1),
    "aten::multilabel_margin_loss": _loss("max(0, 1 − x_t + x)", add=2, cmp=1),
    "aten::cross_entropy_dense": by(cross_entropy_dense),
    "aten::cosine_embedding_loss": by(cosine_embedding),
    "aten::triplet_margin_loss": by(triplet_margin),
}
