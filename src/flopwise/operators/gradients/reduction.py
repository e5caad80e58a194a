"""Gradients of reductions along axes: G is spread over what was reduced. n = numel(X), m = numel(Y)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.gradients.rule import Backward, Keeps, Wanted, both, by, none, nothing, x
from flopwise.operators.operator import words


def back(note: str, keeps: Keeps, per_element: Counts, per_result: Counts | None = None) -> Backward:
    """A row: so much for each element of X, and so much for each of Y."""
    closing = per_result or Counts()

    def rule(node: Node, wanted: Wanted) -> Counts:
        return per_element * node.input(0).numel + closing * node.output().numel

    terms = [f"numel({of}) × {words(c)}" for of, c in (("X", per_element), ("Y", closing)) if any(c)]
    return Backward(rule, f"{' + '.join(terms)}: {note}", keeps)


def extreme(node: Node, wanted: Wanted) -> Counts:
    """numel(X) cmp: G where x = y; nothing where the forward pass gave the places too."""
    return Counts(cmp=0 if len(node.known_outputs) > 1 else node.input(0).numel)


def extreme_keeps(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """The places where the forward pass gave them, else X and Y."""
    return node.known_outputs[1:] if len(node.known_outputs) > 1 else (node.input(0), node.output())


BACKWARD: Mapping[str, Backward] = {
    "ReduceSum": nothing("G is spread"),
    "ReduceMean": back("G / k for k reduced elements, spread", none, Counts(), Counts(div=1)),
    "ReduceMax": by(extreme, extreme_keeps),
    "ReduceMin": by(extreme, extreme_keeps),
    "ReduceProd": back("G y / x", both, Counts(div=1), Counts(mul=1)),
    "ReduceL1": back("G × sign(x)", x, Counts(cmp=1, mul=1)),
    "ReduceL2": back("x × (G / y)", both, Counts(mul=1), Counts(div=1)),
    "ReduceSumSquare": back("x × 2G", x, Counts(mul=1), Counts(mul=1)),
    "ReduceLogSum": back("G / Σx, spread", x, Counts(), Counts(div=1)),
    "ReduceLogSumExp": back("G × exp(x − y)", both, Counts(add=1, exp=1, mul=1)),
    "CumSum": back("sums of G from the other end", none, Counts(add=1)),
    "CumProd": back("sums of G y from the other end, over x", both, Counts(mul=1, add=1, div=1)),
}
