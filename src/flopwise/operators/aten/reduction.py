"""Reductions, searches, losses and pooling of PyTorch's that ONNX has no operator for."""

from __future__ import annotations

from typing import cast

from flopwise.graph import Node
from flopwise.operators import gradient
from flopwise.operators.aten.linear import norm
from flopwise.operators.aten.losses import OPERATORS as LOSSES
from flopwise.operators.complex import MODULUS, of_sums
from flopwise.operators.counts import Counts
from flopwise.operators.extents import broadcast, common_divisor, extent, product
from flopwise.operators.onnx.movement import bits
from flopwise.operators.operator import Operator, by, each_input


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
            "aten_reduction:number_of_each",
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
        matrix_norm, gradient=gradient.by("aten_reduction:matrix_norm", "aten_reduction:matrix_norm_keeps")
    ),
    "aten::diff": by(differences, gradient=gradient.by("aten_reduction:differences", gradient.none)),
    "aten::scatter_reduce": by(scatter_mean, gradient=gradient.by("aten_reduction:scatter_mean", gradient.all_of_it)),
    "aten::index_reduce": by(index_mean, gradient=gradient.by("aten_reduction:index_mean", gradient.all_of_it)),
    "aten::index_add": by(
        index_add, gradient=gradient.by("aten_reduction:index_add", "aten_reduction:index_add_keeps")
    ),
    "aten::dist": by(dist),
    "aten::median": by(
        median, "bound", gradient=gradient.nothing("G goes to the element that was picked", gradient.picks)
    ),
    "aten::unique": by(unique, "bound"),
    "aten::quantile": by(quantile, "bound"),
    "aten::searchsorted": by(searchsorted, "bound"),
    "aten::embedding_bag": by(embedding_bag, gradient=gradient.by("aten_reduction:bag", gradient.indices)),
    "aten::multinomial": by(multinomial, "bound"),
    "aten::_weight_norm": by(weight_norm, gradient=gradient.by("linear:weight_norm", "linear:weight_norm_keeps")),
    "aten::renorm": by(renorm),
    "aten::adaptive_avg_pool": by(
        adaptive_avg_pool, gradient=gradient.by("aten_reduction:adaptive_average", gradient.x)
    ),
    "aten::adaptive_max_pool": by(adaptive_max_pool, gradient=gradient.by("movement:picked", "pooling:places")),
    **LOSSES,
}
