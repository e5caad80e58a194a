"""Gradients of reductions, normalisations and losses."""

from __future__ import annotations

from collections.abc import Iterable

from flopwise.graph import Node, Tensor
from flopwise.operators.aten.reduction import of_differences, pooled
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, product, required
from flopwise.operators.gradient import Wrt, inputs_at
from flopwise.operators.onnx.reduction import rows_of

# Gradients of ATen's reductions, selections and pooling that have no name in ONNX.


def adaptive_average(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) div + cells add: G / window to each cell; cells = the sizes of all windows: n + m − gcd(n, m) along an
    axis that goes from n to m.
    """
    return Counts(div=node.output().numel, add=pooled(node))


def bag(node: Node, wrt: Wrt) -> Counts:
    """K × D add, K the number of indices, D the width of a row."""
    return Counts(add=node.input(1).numel * product(node.input(0).dims[-1:]))


def differences(node: Node, wrt: Wrt) -> Counts:
    """n m + n (n − 3) / 2 add + n bit for each line, m its differences of order n: of each order, an element is in two
    neighbours, the first and the last in one.
    """
    order, left, lines = of_differences(node)
    if left == 0:
        return Counts()
    return Counts(add=order * left + order * (order - 3) // 2, bit=order) * lines


def matrix_norm(node: Node, wrt: Wrt) -> Counts:
    """S cmp for the sum that was picked, S the number of sums; numel(X) × (1 cmp + 1 mul): G × sign(x)."""
    return Counts(cmp=_sums(node)) + Counts(cmp=1, mul=1) * node.input(0).numel


def matrix_norm_keeps(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """X, the sums of absolute values and Y are kept."""
    x = node.input(0)
    return x, Tensor("", (_sums(node),), x.dtype).nbytes, node.output()


def _sums(node: Node) -> int:
    """One for each column or row."""
    x = node.input(0)
    return x.numel // extent(node, x, node.attrs.get("summed", -2))


def scatter_mean(node: Node, wrt: Wrt) -> Counts:
    """numel(index) add (how many came to each place); dX = G / how many: numel(Y) div; for the source numel(index) div;
    include_self = False: numel(Y) cmp.
    """
    return _means(node, wrt, node.input(1).numel)


def index_mean(node: Node, wrt: Wrt) -> Counts:
    """numel(source) add (how many came to each place); dX = G / how many: numel(Y) div; for the source numel(source)
    div; include_self = False: numel(Y) cmp.
    """
    return _means(node, wrt, node.input(2).numel)


def _means(node: Node, wrt: Wrt, updates: int) -> Counts:
    outputs = node.output().numel
    counts = Counts(add=updates, cmp=0 if node.attrs.get("include_self", 1) else outputs)
    return counts + Counts(div=(outputs if 0 in wrt else 0) + (updates if 2 in wrt else 0))


def index_add(node: Node, wrt: Wrt) -> Counts:
    """dX = G; for the source alpha × G: numel(source) mul."""
    return Counts(mul=node.input(2).numel if 2 in wrt else 0)


def index_add_keeps(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """For the gradient of the source, the indices and the source are kept."""
    return (node.input(1), node.input(2)) if 2 in wrt else ()


def number_of_each(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """X and, in 8 bytes, of how many elements each mean is, are kept."""
    return node.input(0), 8 * node.output().numel


# Gradients of normalisations and softmax, in the form that takes the fewest passes over the data.
#
# Means and inverse deviations of the forward pass are kept; x̂ is computed anew from them.

#: Bytes of a kept mean or inverse deviation.
STATISTIC = 4


def in_training(node: Node) -> bool:
    """True where a BatchNormalization takes its statistics from the batch."""
    return bool(node.attrs.get("training_mode", 0)) or len(node.known_outputs) > 1


def batch_normalization(node: Node, wrt: Wrt) -> Counts:
    """C channels. training mode: d = x − mean, ΣG, Σ G d: n × (3 add + 1 mul); then (G −
    ΣG/N − d × k) × f: n × (2 add + 2 mul) + C × (2 div + 3 mul), k = ΣGd × r² / N, f = r × scale. With stored
    statistics: dX = G × f: n mul. dscale: d and ΣGd if they are not there yet, n × (2 add + 1 mul), and C mul; dB: ΣG
    if it is not there yet, n add. n = numel(X).
    """
    source = node.input(0)
    n, channels = source.numel, extent(node, source, 1) if len(source.dims) > 1 else 1
    batch = 0 in wrt and in_training(node)
    counts = Counts()
    if batch or 1 in wrt:
        counts += Counts(add=2, mul=1) * n
    if batch or 2 in wrt:
        counts += Counts(add=n)
    if batch:
        counts += Counts(add=2, mul=2) * n + Counts(div=2, mul=3) * channels
    elif 0 in wrt:
        counts += Counts(mul=n)
    if 1 in wrt:
        counts += Counts(mul=channels)
    return counts


def batch_keeps(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """X is kept, and in training mode mean and inverse deviation of each channel."""
    yield node.input(0)
    if in_training(node):
        source = node.input(0)
        yield STATISTIC * extent(node, source, 1)
        yield STATISTIC * extent(node, source, 1)


def layer_normalization(node: Node, wrt: Wrt) -> Counts:
    """n = numel(X), rows = prod(X.shape[:axis]). x̂ (for dX or dscale): n × (1 add + 1 mul); dscale n × (1 mul + 1 add),
    dB n add; dX = r × (g − Σg/N − x̂ × Σ(g x̂)/N): n × (4 add + 3 mul) + rows × 2 div, g = G × scale: n mul more when
    scale is given.
    """
    return _standardized(node, wrt, rows_of(node))


def group_normalization(node: Node, wrt: Wrt) -> Counts:
    """as LayerNormalization, with N × num_groups rows."""
    return _standardized(node, wrt, rows_of(node))


def instance_normalization(node: Node, wrt: Wrt) -> Counts:
    """as LayerNormalization, with N × C rows."""
    return _standardized(node, wrt, rows_of(node))


def mean_variance(node: Node, wrt: Wrt) -> Counts:
    """as LayerNormalization without scale and B, with as many rows as there are means."""
    source = node.input(0)
    rank = len(source.dims)
    axes = {axis % rank for axis in node.attrs.get("axes", (0, 2, 3))} if rank else set()
    return _standardized(node, wrt, product(d for axis, d in enumerate(source.dims) if axis not in axes))


def _standardized(node: Node, wrt: Wrt, rows: int) -> Counts:
    """Gradients of scale × (x − mean) × r + bias, mean and r of each row."""
    n = node.input(0).numel
    counts = Counts()
    if wrt & {0, 1}:
        counts += Counts(add=1, mul=1) * n
    if 1 in wrt:
        counts += Counts(mul=1, add=1) * n
    if 2 in wrt:
        counts += Counts(add=n)
    if 0 in wrt:
        counts += Counts(mul=int(node.has_input(1))) * n
        counts += Counts(add=4, mul=3) * n + Counts(div=2) * rows
    return counts


def rms_normalization(node: Node, wrt: Wrt) -> Counts:
    """n = numel(X), rows = prod(X.shape[:axis]). x̂ = x × r: n mul; dscale n × (1 mul + 1 add); dX = r × (g − x̂ ×
    Σ(g x̂)/N): n × (3 mul + 2 add) + rows div, g = G × scale: n mul more when scale is given.
    """
    n, rows = node.input(0).numel, rows_of(node)
    counts = Counts(mul=n) + Counts(mul=1, add=1) * (n * int(1 in wrt))
    if 0 in wrt:
        counts += Counts(mul=3 + int(node.has_input(1)), add=2) * n + Counts(div=rows)
    return counts


def keeps(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """X is kept, the inverse deviation of each row, and its mean where there is one."""
    statistics = 1 if node.op == "RMSNormalization" else 2
    return (node.input(0), *[STATISTIC * rows_of(node)] * statistics)


def lrn(node: Node, wrt: Wrt) -> Counts:
    """numel(X) × (1 mul + 1 div + size add + 2 mul + 1 pow + 1 mul + 1 add): G s^−β − c x × Σ (G y / s), s the sums of
    the forward pass, c a constant.
    """
    return Counts(mul=4, div=1, add=required(node, "size") + 1, pow=1) * node.input(0).numel


def lrn_keeps(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """X, Y and the sums are kept."""
    return node.input(0), node.output(), node.output().nbytes


def lp_normalization(node: Node, wrt: Wrt) -> Counts:
    """numel(X) × (2 mul + 2 add + 1 div): (G − y × Σ G y) / norm; p = 1: sign(x) in place of the first y, 1 cmp
    more.
    """
    sign = int(node.attrs.get("p", 2) == 1)
    return Counts(mul=2, add=2, div=1, cmp=sign) * node.input(0).numel


# Gradients of losses. G has one element, or one for each sample without reduction.


def negative_log_likelihood(node: Node, wrt: Wrt) -> Counts:
    """M × 1 bit, M = numel(target): −G for each picked element; weight: M mul; ignore_index: M cmp; reduction = mean: 1
    div.
    """
    samples = node.input(1).numel
    once = Counts(bit=1, mul=int(node.has_input(2)), cmp=int("ignore_index" in node.attrs))
    return once * samples + Counts(div=int(node.attrs.get("reduction", "mean") == "mean"))


def softmax_cross_entropy(node: Node, wrt: Wrt) -> Counts:
    """the NegativeLogLikelihoodLoss of M labels; then numel(scores) × (2 add + 1 exp + 1 mul): log-softmax."""
    return negative_log_likelihood(node, wrt) + Counts(add=2, exp=1, mul=1) * node.input(0).numel


def probabilities(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """The logarithms of the probabilities, the target, and the weights of the classes."""
    logs = node.outputs[1] if len(node.outputs) > 1 else None
    yield node.input(0).nbytes if logs is None else logs
    yield from inputs_at(1, 2)(node, wrt)
