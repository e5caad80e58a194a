"""Normalisations and reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flopwise.graph import Node
from flopwise.operators import gradient, shape, views
from flopwise.operators.complex import MODULUS, of_sums
from flopwise.operators.counts import SOFTMAX, Counts, words
from flopwise.operators.extents import extent, product, required
from flopwise.operators.inputs import DATA, STATISTIC, WEIGHT, inputs
from flopwise.operators.operator import Operator, by, each_input, row_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from flopwise.operators.operator import Facts


# Normalisations and softmax. Where the ONNX schema defines the operator by a function body, that body is counted.


def batch_normalization(node: Node) -> Counts:
    """numel(X) × (1 mul + 1 add) + C × (2 add + 1 sqrt + 1 div + 1 mul), C the number of channels. In training mode
    also the statistics, numel(X) × (3 add + 1 mul) + 2 C div, and the running ones, C × (4 mul + 2 add).

    Each channel is folded to a factor, scale / sqrt(var + epsilon), and a shift, B − mean × factor; then Y = X ×
    factor + shift. Before opset 14 training mode shows by its further outputs.

    https://onnx.ai/onnx/operators/onnx__BatchNormalization.html
    """
    x = node.input(0)
    parameters = [t for t in node.inputs[1:5] if t is not None]
    channels = parameters[0].numel if parameters else extent(node, x, 1)
    counts = Counts(mul=1, add=1) * x.numel + Counts(add=2, sqrt=1, div=1, mul=1) * channels
    if node.attrs.get("training_mode", 0) or len(node.known_outputs) > 1:
        counts += Counts(add=3, mul=1) * x.numel + Counts(div=2, mul=4, add=2) * channels
    return counts


def rows_of(node: Node) -> int:
    """Groups of elements that have a mean of their own: of each channel, of each group of channels, or of each row."""
    x = node.input(0)
    if node.op == "InstanceNormalization":
        return extent(node, x, 0) * extent(node, x, 1)
    if node.op == "GroupNormalization":
        groups: int = required(node, "num_groups")
        return extent(node, x, 0) * groups
    return product(x.dims[: node.attrs.get("axis", -1)])


def instance_normalization(node: Node) -> Counts:
    """numel(X) × (4 add + 2 mul + 1 div) + N × C × (2 div + 1 mul + 2 add + 1 sqrt).

    A GroupNormalization with one channel per group.

    https://onnx.ai/onnx/operators/onnx__InstanceNormalization.html
    """
    return _standardized(node)


def group_normalization(node: Node) -> Counts:
    """numel(X) × (4 add + 2 mul + 1 div) + N × num_groups × (2 div + 1 mul + 2 add + 1 sqrt).

    https://onnx.ai/onnx/operators/onnx__GroupNormalization.html
    """
    return _standardized(node)


def layer_normalization(node: Node) -> Counts:
    """numel(X) × (3 add + 2 mul + 1 div), and 1 add more when B is given, + rows × (2 div + 1 mul + 2 add + 1 sqrt),
    rows = prod(X.shape[:axis]); the output InvStdDev: rows div.

    https://onnx.ai/onnx/operators/onnx__LayerNormalization.html
    """
    inverse = rows_of(node) if len(node.outputs) > 2 and node.outputs[2] is not None else 0
    return _standardized(node) + Counts(div=inverse)


def rms_normalization(node: Node) -> Counts:
    """numel(X) × (2 mul + 1 add + 1 div) + rows × (1 div + 1 add + 1 sqrt), rows = prod(X.shape[:axis]).

    https://onnx.ai/onnx/operators/onnx__RMSNormalization.html
    """
    elements = Counts(mul=1, add=1, div=1) * node.input(0).numel
    return elements + Counts(div=1, add=1, sqrt=1) * rows_of(node) + _affine(node)


def _standardized(node: Node) -> Counts:
    """(x − mean) / sqrt(var + epsilon), with var = mean(x²) − mean(x)² as the function bodies have it; scale, bias."""
    elements = Counts(add=3, mul=1, div=1) * node.input(0).numel
    return elements + Counts(div=2, mul=1, add=2, sqrt=1) * rows_of(node) + _affine(node)


def _affine(node: Node) -> Counts:
    """Scale and bias of each element, as far as they are given."""
    return Counts(mul=int(node.has_input(1)), add=int(node.has_input(2))) * node.input(0).numel


def lrn(node: Node) -> Counts:
    """numel(X) × (1 mul + size add + 1 mul + 1 add + 1 pow + 1 div): squares, the sum over size channels, scale and
    bias, power, division. Channels beyond the edge are padding and not subtracted.

    https://onnx.ai/onnx/operators/onnx__LRN.html
    """
    return Counts(mul=2, add=required(node, "size") + 1, pow=1, div=1) * node.input(0).numel


def lp_normalization(node: Node) -> Counts:
    """numel(X) × (1 mul + 1 add + 1 div) + rows sqrt for p = 2, numel(X) × (1 bit + 1 add + 1 div) for p = 1; and
    rows cmp, because a norm of zero gives zero. rows = numel(X) / X.shape[axis].

    https://onnx.ai/onnx/operators/onnx__LpNormalization.html
    """
    x = node.input(0)
    rows = _others(node, node.attrs.get("axis", -1))
    if node.attrs.get("p", 2) == 1:
        return Counts(bit=1, add=1, div=1) * x.numel + Counts(cmp=rows)
    return Counts(mul=1, add=1, div=1) * x.numel + Counts(sqrt=rows, cmp=rows)


def mean_variance_normalization(node: Node) -> Counts:
    """numel(X) × (3 add + 1 pow + 1 div) + means × (2 div + 1 pow + 2 add + 1 sqrt), means = prod of the extents that
    `axes` (0, 2, 3) leaves.

    Before opset 9 each sample has its own means, one for each channel or (across_channels) one for all, and without
    normalize_variance the mean is subtracted and no more: numel(X) × 2 add + means div.

    https://onnx.ai/onnx/operators/onnx__MeanVarianceNormalization.html
    """
    x = node.input(0)
    if 0 < node.version < 9:
        means = product(x.dims[: 1 if node.attrs.get("across_channels", 0) else 2])
        if not node.attrs.get("normalize_variance", 1):
            return Counts(add=2) * x.numel + Counts(div=means)
    else:
        rank = len(x.dims)
        axes = {axis % rank for axis in node.attrs.get("axes", (0, 2, 3))} if rank else set()
        means = product(dim for axis, dim in enumerate(x.dims) if axis not in axes)
    return Counts(add=3, pow=1, div=1) * x.numel + Counts(div=2, pow=1, add=2, sqrt=1) * means


def log_softmax(node: Node) -> Counts:
    """numel(X) × (1 cmp + 3 add + 1 exp) + rows log, rows = numel(X) / X.shape[axis]; before opset 13
    prod(X.shape[:axis]).

    https://onnx.ai/onnx/operators/onnx__LogSoftmax.html
    """
    return Counts(cmp=1, add=3, exp=1) * node.input(0).numel + Counts(log=softmax_rows(node))


def softmax_rows(node: Node) -> int:
    """The rows of a softmax; before opset 13 all axes from ``axis`` (1) on are one row."""
    if 0 < node.version < 13:
        return product(node.input(0).dims[: node.attrs.get("axis", 1)])
    return _others(node, node.attrs.get("axis", -1))


def _others(node: Node, axis: int) -> int:
    """The product of all extents of X except one axis."""
    x = node.input(0)
    extent(node, x, axis)
    return product(x.dims[:axis]) * product(x.dims[axis:][1:])


NORMALIZATION: dict[str, Operator] = {
    "BatchNormalization": by(
        batch_normalization,
        inputs=inputs(DATA, WEIGHT, WEIGHT, STATISTIC, STATISTIC),
        gradient=gradient.by("reduction:batch_normalization", "reduction:batch_keeps"),
        in_place=True,
        shape="making:batch_normalized",
        dtype=shape.dtypes("making:batch_types"),
    ),
    "InstanceNormalization": by(
        instance_normalization,
        inputs=inputs(DATA, WEIGHT, WEIGHT),
        gradient=gradient.by("reduction:instance_normalization", "reduction:keeps"),
        shape="making:per_channel",
    ),
    "GroupNormalization": by(
        group_normalization,
        inputs=inputs(DATA, WEIGHT, WEIGHT),
        gradient=gradient.by("reduction:group_normalization", "reduction:keeps"),
        shape=shape.alike,
    ),
    "LayerNormalization": by(
        layer_normalization,
        inputs=inputs(DATA, WEIGHT, WEIGHT),
        gradient=gradient.by("reduction:layer_normalization", "reduction:keeps"),
        shape="making:normalized",
        dtype=shape.dtypes("making:normalized_types"),
    ),
    "RMSNormalization": by(
        rms_normalization,
        gradient=gradient.by("reduction:rms_normalization", "reduction:keeps"),
        shape="making:normalized",
        dtype=shape.dtypes("making:normalized_types"),
    ),
    "LRN": by(lrn, gradient=gradient.by("reduction:lrn", "reduction:lrn_keeps"), shape=shape.alike),
    "LpNormalization": by(
        lp_normalization, gradient=gradient.by("reduction:lp_normalization", gradient.both), shape=shape.alike
    ),
    "MeanVarianceNormalization": by(
        mean_variance_normalization, gradient=gradient.by("reduction:mean_variance", gradient.x), shape=shape.alike
    ),
    "Softmax": each_input(
        SOFTMAX,
        note="maximum, subtraction, exponential, sum, division",
        gradient=gradient.reduced("y × (G − Σ G y)", gradient.y, Counts(mul=2, add=2)),
        shape=shape.alike,
    ),
    "LogSoftmax": by(
        log_softmax,
        gradient=gradient.reduced("G − exp(y) × ΣG", gradient.y, Counts(add=2, exp=1, mul=1)),
        shape=shape.alike,
    ),
    "Hardmax": each_input(
        Counts(cmp=1),
        note="the maximum of each row; marking it is a selection",
        effects=frozenset({"no gradient"}),
        shape=shape.alike,
    ),
}


# Reductions: n elements cost n operations, because the accumulator starts from the identity.

_NOTHING = Counts()


def reduction(
    step: Counts,
    *,
    before: Counts = _NOTHING,
    close: Counts = _NOTHING,
    after: Counts = _NOTHING,
    **facts: Unpack[Facts],
) -> Operator:
    """A row for a reduction of X along its axes.

    Args:
        step: what takes one element into the accumulator; left out, as is ``close``, when noop_with_empty_axes asks for
            a reduction over no axis at all.
        before: what happens to each element first.
        close: what completes each sum.
        after: what happens to each result.

    >>> reduction(Counts(add=1), before=Counts(mul=1), after=Counts(sqrt=1)).formula
    'numel(X) × (1 add + 1 mul) + numel(Y) × 1 sqrt; noop_with_empty_axes without axes: no add'
    """

    def rule(node: Node) -> Counts:
        per_element, per_result = before, after
        if not _keeps_all_axes(node):
            per_element, per_result = before + step, close + after
        return per_element * node.input(0).numel + per_result * node.output().numel

    formula = f"numel(X) × {words(before + step)}"
    if close + after != _NOTHING:
        formula += f" + numel(Y) × {words(close + after)}"
    skipped = " and no ".join(name for part in (step, close) for name, n in part.items() if n)
    facts.setdefault("shape", "making:reduced")
    return row_of(rule, f"{formula}; noop_with_empty_axes without axes: no {skipped}", **facts)


def _keeps_all_axes(node: Node) -> bool:
    """True where the node reduces over no axis: it names none and asks that this mean none, not all."""
    if not node.attrs.get("noop_with_empty_axes", 0) or node.attrs.get("axes"):
        return False
    return not node.has_input(1) or node.input(1).dims == (0,)


def combine(step: Counts, *, close: Counts = _NOTHING, **facts: Unpack[Facts]) -> Operator:
    """A row for an operator that combines k inputs element by element, from left to right.

    >>> combine(Counts(add=1), close=Counts(div=1)).formula
    'numel(Y) × ((k − 1) × 1 add + 1 div) for k inputs, broadcast to Y'
    """

    def rule(node: Node) -> Counts:
        return (step * (len(node.known_inputs) - 1) + close) * node.output().numel

    once = f"(k − 1) × {words(step)}"
    if close != _NOTHING:
        once = f"({once} + {words(close)})"
    facts |= {"view": views.of_one, "in_place": True, "shape": shape.common}
    return row_of(rule, f"numel(Y) × {once} for k inputs, broadcast to Y", **facts)


OPERATORS: dict[str, Operator] = {
    # Along axes of one input.
    "ReduceSum": reduction(Counts(add=1), gradient=gradient.nothing("G is spread"), value="arithmetic:sum_of"),
    "ReduceMean": reduction(
        Counts(add=1),
        close=Counts(div=1),
        gradient=gradient.reduced("G / k for k reduced elements, spread", gradient.none, Counts(), Counts(div=1)),
        value="arithmetic:mean_of",
    ),
    "ReduceMax": reduction(
        Counts(cmp=1), gradient=gradient.by("pooling:extreme", "pooling:extreme_keeps"), value="arithmetic:largest_of"
    ),
    "ReduceMin": reduction(
        Counts(cmp=1), gradient=gradient.by("pooling:extreme", "pooling:extreme_keeps"), value="arithmetic:smallest_of"
    ),
    "ReduceProd": reduction(
        Counts(mul=1),
        gradient=gradient.reduced("G y / x", gradient.both, Counts(div=1), Counts(mul=1)),
        value="arithmetic:product_of",
    ),
    "ReduceL1": reduction(
        Counts(add=1),
        before=Counts(bit=1),
        gradient=gradient.reduced("G × sign(x)", gradient.x, Counts(cmp=1, mul=1)),
        complex=of_sums(MODULUS + Counts(add=1), _NOTHING, (MODULUS + Counts(div=2, mul=2), _NOTHING)),
    ),
    "ReduceL2": reduction(
        Counts(add=1),
        before=Counts(mul=1),
        after=Counts(sqrt=1),
        gradient=gradient.reduced("x × (G / y)", gradient.both, Counts(mul=1), Counts(div=1)),
        complex=of_sums(Counts(mul=2, add=2), Counts(sqrt=1), (Counts(mul=2), Counts(div=1))),
    ),
    "ReduceSumSquare": reduction(
        Counts(add=1),
        before=Counts(mul=1),
        gradient=gradient.reduced("x × 2G", gradient.x, Counts(mul=1), Counts(mul=1)),
    ),
    "ReduceLogSum": reduction(
        Counts(add=1),
        after=Counts(log=1),
        gradient=gradient.reduced("G / Σx, spread", gradient.x, Counts(), Counts(div=1)),
    ),
    "ReduceLogSumExp": reduction(
        Counts(add=1),
        before=Counts(exp=1),
        after=Counts(log=1),
        gradient=gradient.reduced("G × exp(x − y)", gradient.both, Counts(add=1, exp=1, mul=1)),
    ),
    "ArgMax": each_input(
        Counts(cmp=1),
        note="one comparison per element along the axis",
        shape="making:chosen",
        value="structure:place_of_largest",
        dtype="int64",
    ),
    "ArgMin": each_input(
        Counts(cmp=1),
        note="one comparison per element along the axis",
        shape="making:chosen",
        value="structure:place_of_smallest",
        dtype="int64",
    ),
    "CumSum": each_input(
        Counts(add=1),
        note="one step per element along the axis",
        gradient=gradient.reduced("sums of G from the other end", gradient.none, Counts(add=1)),
        shape=shape.alike,
        value="arithmetic:summed_up",
    ),
    "CumProd": each_input(
        Counts(mul=1),
        note="one step per element along the axis",
        gradient=gradient.reduced("sums of G y from the other end, over x", gradient.both, Counts(mul=1, add=1, div=1)),
        shape=shape.alike,
    ),
    # Across inputs.
    "Sum": combine(Counts(add=1), gradient=gradient.by("pointwise:shared", gradient.none), value="arithmetic:total"),
    "Mean": combine(Counts(add=1), close=Counts(div=1), gradient=gradient.by("pointwise:mean", gradient.none)),
    "Max": combine(
        Counts(cmp=1), gradient=gradient.by("pointwise:extreme", gradient.inputs), value="arithmetic:maximum"
    ),
    "Min": combine(
        Counts(cmp=1), gradient=gradient.by("pointwise:extreme", gradient.inputs), value="arithmetic:minimum"
    ),
}
