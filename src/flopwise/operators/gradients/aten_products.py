"""Gradients of ATen's contractions, reductions, pooling and selections that have no name in ONNX."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.operators.aten.reduction import of_differences
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, product
from flopwise.operators.gradients.attention import attention, keeps
from flopwise.operators.gradients.pooling import places
from flopwise.operators.gradients.reduction import back
from flopwise.operators.gradients.rule import Backward, Wanted, both, by, factors, none, nothing, x
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


def variance(root: bool, mean: bool) -> Backward:
    """A row for var, std and their twins that give the mean as well."""

    def rule(node: Node, wanted: Wanted) -> Counts:
        n, m = node.input(0).numel, node.output().numel
        counts = Counts(add=2, mul=1) * n + Counts(div=1, mul=1) * m
        if root:
            counts += Counts(div=1, mul=1) * m
        return counts + (Counts(add=n, div=m) if mean else Counts())

    formula = "numel(X) × (2 add + 1 mul) + numel(Y) × (1 div + 1 mul): (x − mean) × 2G / (N − 1), the mean made again"
    formula += "; numel(Y) × (1 div + 1 mul) more: G / 2y" if root else ""
    formula += "; numel(X) add + numel(Y) div more: the gradient of the mean" if mean else ""
    return Backward(rule, formula, both if root else x)


def adaptive_average(node: Node, wanted: Wanted) -> Counts:
    """numel(Y) div + cells add: G / window to each cell; cells = the sizes of all windows: n + m − gcd(n, m) along an
    axis that goes from n to m.

    Windows reach from ⌊i n / m⌋ to ⌈(i + 1) n / m⌉: two neighbours share a cell unless their border falls between two.
    """
    axes = node.attrs["axes"]
    before, after = node.input(0).dims, node.output().dims
    cells = product(after[: len(after) - axes])
    for n, m in zip(before[-axes:], after[-axes:], strict=True):
        cells *= n + m - math.gcd(n, m)
    return Counts(div=node.output().numel, add=cells)


def scattered(node: Node, wanted: Wanted) -> Counts:
    """numel(Y) add: results may come from the same element."""
    return Counts(add=node.output().numel)


def bag(node: Node, wanted: Wanted) -> Counts:
    """K × D add, K the number of indices, D the width of a row."""
    return Counts(add=node.input(1).numel * product(node.input(0).dims[-1:]))


def differences(node: Node, wanted: Wanted) -> Counts:
    """n m + n (n − 3) / 2 add + n bit for each line, m its differences of order n: of each order, an element is in two
    neighbours, the first and the last in one.
    """
    order, left, lines = of_differences(node)
    if left == 0:
        return Counts()
    return Counts(add=order * left + order * (order - 3) // 2, bit=order) * lines


def matrix_norm(node: Node, wanted: Wanted) -> Counts:
    """S cmp for the sum that was picked, S the number of sums; numel(X) × (1 cmp + 1 mul): G × sign(x)."""
    return Counts(cmp=_sums(node)) + Counts(cmp=1, mul=1) * node.input(0).numel


def matrix_norm_keeps(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """X, the sums of absolute values and Y are kept."""
    x = node.input(0)
    return x, Tensor("", (_sums(node),), x.dtype).nbytes, node.output()


def _sums(node: Node) -> int:
    """One for each column or row."""
    x = node.input(0)
    return x.numel // extent(node, x, node.attrs.get("summed", -2))


def scatter_mean(node: Node, wanted: Wanted) -> Counts:
    """numel(index) add (how many came to each place); dX = G / how many: numel(Y) div; for the source numel(index) div;
    include_self = False: numel(Y) cmp.
    """
    return _means(node, wanted, node.input(1).numel)


def index_mean(node: Node, wanted: Wanted) -> Counts:
    """numel(source) add (how many came to each place); dX = G / how many: numel(Y) div; for the source numel(source)
    div; include_self = False: numel(Y) cmp.
    """
    return _means(node, wanted, node.input(2).numel)


def _means(node: Node, wanted: Wanted, updates: int) -> Counts:
    outputs = node.output().numel
    counts = Counts(add=updates, cmp=0 if node.attrs.get("include_self", 1) else outputs)
    return counts + Counts(div=(outputs if 0 in wanted else 0) + (updates if 2 in wanted else 0))


def all_of_it(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """The inputs and Y are kept."""
    return (*node.known_inputs, node.output())


def index_add(node: Node, wanted: Wanted) -> Counts:
    """dX = G; for the source alpha × G: numel(source) mul."""
    return Counts(mul=node.input(2).numel if 2 in wanted else 0)


def index_add_keeps(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """For the gradient of the source, the indices and the source are kept."""
    return (node.input(1), node.input(2)) if 2 in wanted else ()


def number_of_each(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """X and, in 8 bytes, of how many elements each mean is, are kept."""
    return node.input(0), 8 * node.output().numel


def second_output(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """The places that were picked."""
    return [t for t in node.outputs[1:2] if t is not None]


BACKWARD: Mapping[str, Backward] = {
    **{
        name: by(contraction, factors)
        for name in ("aten::tensordot", "aten::_grouped_mm", "aten::addbmm", "aten::linalg_vecdot", "aten::addr")
    },
    "aten::conv_tbc": by(contraction, factors),
    "aten::bilinear": by(bilinear, three),
    "aten::flex_attention": by(attention, keeps),
    "aten::_weight_norm": by(weight_norm, weight_norm_keeps),
    "aten::cdist": by(cdist, all_of_it),
    "aten::nansum": back("G where x is not NaN", x, Counts(cmp=1)),
    "aten::nanmean": back("G / k where x is not NaN, k how many are not", number_of_each, Counts(cmp=1), Counts(div=1)),
    "aten::diff": by(differences, none),
    "aten::linalg_matrix_norm": by(matrix_norm, matrix_norm_keeps),
    "aten::scatter_reduce": by(scatter_mean, all_of_it),
    "aten::index_reduce": by(index_mean, all_of_it),
    "aten::index_add": by(index_add, index_add_keeps),
    "aten::var": variance(False, False),
    "aten::std": variance(True, False),
    "aten::var_mean": variance(False, True),
    "aten::std_mean": variance(True, True),
    "aten::logsumexp": back("G × exp(x − y)", both, Counts(add=1, exp=1, mul=1)),
    "aten::norm_inf": back("G × sign(x) where |x| = y", both, Counts(bit=1, cmp=2, mul=1)),
    "aten::norm_p": back(
        *("sign(x) |x|^(p−1) × G y^(1−p)", both, Counts(bit=1, pow=1, cmp=1, mul=2), Counts(pow=1, mul=1))
    ),
    "aten::adaptive_avg_pool": by(adaptive_average, x),
    "aten::adaptive_max_pool": by(scattered, places),
    "aten::im2col": by(scattered, none),
    "aten::cummax": by(scattered, second_output),
    "aten::median": nothing("G goes to the element that was picked", second_output),
    "aten::trace": nothing("G is spread along the diagonal"),
    "aten::resolve_conj": nothing("G passes"),
    "aten::embedding_bag": by(bag, lambda node, wanted: (node.input(1),)),
}
