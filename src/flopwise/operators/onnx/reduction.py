"""Reductions: n elements cost n operations, because the accumulator starts from the identity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flopwise.graph import Node
from flopwise.operators import gradient, shape, views
from flopwise.operators.complex import MODULUS, of_sums
from flopwise.operators.counts import Counts, words
from flopwise.operators.operator import Operator, each_input, row_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from flopwise.operators.operator import Facts

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
