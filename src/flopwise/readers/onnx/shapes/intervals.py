"""Arithmetic on values of which only bounds are certain, because a shape that the data decide flows into them.

The shape of a bounded tensor is from 0 to its bound, and so is all that models compute with it. The arithmetic is
onnx's own, on both ends; what is not listed here gives nothing certain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
import onnx

from flopwise.readers.onnx.types import Interval

#: The results of a node for elements of its inputs; None for an input that is left out.
Run = Callable[[Sequence[Any]], Sequence[Any]]

_GROWING_OPERATORS = """
Add And Cast Ceil Clip Concat CumSum Floor Identity Max Mean Min Or ReduceMax ReduceMean ReduceMin ReduceSum Round
Sqrt Sum
"""

#: Operators whose results never fall when an input grows, whichever inputs are intervals.
_GROWING = frozenset(_GROWING_OPERATORS.split())

_MOVING_OPERATORS = """
Expand Flatten Gather GatherElements GatherND Reshape Slice Split Squeeze Tile Transpose Unsqueeze
"""

#: Operators that only move the elements of their first input.
_MOVING = frozenset(_MOVING_OPERATORS.split())


def interval_results(node: onnx.NodeProto, inputs: Sequence[Interval | None], run: Run) -> list[Interval]:
    """The results of a node whose inputs lie in intervals; empty if nothing is certain about them.

    Args:
        node: a node of the standard domain.
        inputs: its inputs, of which at least one is not a single value; None for one that is left out.
        run: computes its results.
    """
    op, intervals = node.op_type, [i for i in inputs if i is not None]
    if op in _GROWING or (op in _MOVING and all(i is None or i.exact for i in inputs[1:])):
        return _ends(run([i and i.low for i in inputs]), run([i and i.high for i in inputs]))
    if op in ("ReduceProd", "Pow", "Mod") and not all((i.low >= 0).all() for i in intervals):
        return []
    if op == "ReduceProd" or (op == "Pow" and intervals[1].exact):
        return _ends(run([i and i.low for i in inputs]), run([i and i.high for i in inputs]))
    if op == "Mod" and intervals[1].exact and (intervals[1].low > 0).all():
        high = numpy.minimum(intervals[0].high, intervals[1].high - 1)
        return [Interval(numpy.zeros_like(high), high)]
    if op in ("Neg", "Not"):
        return _ends(run([intervals[0].high]), run([intervals[0].low]))
    if op == "Sub":
        return _ends(run([intervals[0].low, intervals[1].high]), run([intervals[0].high, intervals[1].low]))
    if op in ("Mul", "Div"):
        return _corners(op, intervals, run)
    if op in _COMPARISONS:
        low, high = _COMPARISONS[op](*intervals)
        return [Interval(numpy.asarray(low), numpy.asarray(high))]
    if op == "Where":
        return [_where(*intervals)]
    return []


def _ends(low: Sequence[Any], high: Sequence[Any]) -> list[Interval]:
    return [Interval(numpy.asarray(a), numpy.asarray(b)) for a, b in zip(low, high, strict=True)]


def _corners(op: str, inputs: Sequence[Interval], run: Run) -> list[Interval]:
    a, b = inputs
    if op == "Div":
        if b.low.dtype.kind == "f" and not (b.low > 0).all():
            return []
        if (b.low < 0).any():
            return []
        b = (
            Interval(numpy.maximum(b.low, 1), numpy.maximum(b.high, 1)) if b.low.dtype.kind != "f" else b
        )  # 0 cannot run
    results = [run([x, y])[0] for x in (a.low, a.high) for y in (b.low, b.high)]
    low, high = numpy.minimum.reduce(results), numpy.maximum.reduce(results)
    return [Interval(numpy.asarray(low), numpy.asarray(high))]


def _equal(a: Interval, b: Interval) -> tuple[Any, Any]:
    certain = (a.low == a.high) & (b.low == b.high) & (a.low == b.low)
    return certain, ~((a.high < b.low) | (b.high < a.low))


#: Whether a comparison holds for certain, and whether it may.
_COMPARISONS: dict[str, Callable[[Interval, Interval], tuple[Any, Any]]] = {
    "Equal": _equal,
    "Greater": lambda a, b: (a.low > b.high, a.high > b.low),
    "GreaterOrEqual": lambda a, b: (a.low >= b.high, a.high >= b.low),
    "Less": lambda a, b: (a.high < b.low, a.low < b.high),
    "LessOrEqual": lambda a, b: (a.high <= b.low, a.low <= b.high),
}


def _where(condition: Interval, a: Interval, b: Interval) -> Interval:
    certain, possible = condition.low.astype(bool), condition.high.astype(bool)
    low = numpy.where(certain, a.low, numpy.where(possible, numpy.minimum(a.low, b.low), b.low))
    high = numpy.where(certain, a.high, numpy.where(possible, numpy.maximum(a.high, b.high), b.high))
    return Interval(low, high)
