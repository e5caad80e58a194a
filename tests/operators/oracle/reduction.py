"""Reductions as loops whose accumulator starts from the identity."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.number import exp, larger, log, pointwise, smaller, sqrt


def fold(of: Callable[[Any, Any], Any], start: float, x: Any, axes: Any, keepdims: int = 1) -> Any:
    """The accumulator after all elements along the axes, in order."""
    axes = tuple(range(x.ndim)) if axes is None else tuple(a % x.ndim for a in axes)
    out = np.full([1 if a in axes else n for a, n in enumerate(x.shape)], start, object)
    for index in np.ndindex(x.shape):
        at = tuple(0 if a in axes else i for a, i in enumerate(index))
        out[at] = of(out[at], x[index])
    return out if keepdims else out.reshape([n for a, n in enumerate(out.shape) if a not in axes])


def add_up(x: Any, axes: Any, keepdims: int = 1) -> Any:
    """The sum along axes."""
    return fold(lambda total, v: total + v, 0.0, x, axes, keepdims)


def maximum(x: Any, axes: Any, keepdims: int = 1) -> Any:
    """The maximum along axes."""
    return fold(larger, -math.inf, x, axes, keepdims)


def mean(x: Any, axes: Any, keepdims: int = 1) -> Any:
    """The mean along axes."""
    total = add_up(x, axes, keepdims)
    return total / (x.size / max(total.size, 1))


def reduce(of: Callable[..., Any]) -> Callable[..., Any]:
    """An ONNX reduction: axes as an attribute or an input, and the switch that makes no axes mean none."""

    def definition(
        x: Any, axes_input: Any = None, *, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0
    ):
        given = axes if axes_input is None else axes_input.tolist()
        if not given:
            if noop_with_empty_axes:
                return of(x, None, keepdims)
            given = list(range(x.ndim))
        return of(x, given, keepdims)

    return definition


def _sum_of(before: Callable[[Any], Any], after: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    def definition(x: Any, axes: Any, keepdims: int) -> Any:
        y = pointwise(before, x)
        y = y if axes is None else add_up(y, axes, keepdims)
        return y if after is None else pointwise(after, y)

    return definition


def _plain(of: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axes, keepdims: x if axes is None else of(x, axes, keepdims)


def argument(better: Callable[[Any, Any], Any], start: float) -> Callable[..., Any]:
    """The index of the best element along an axis."""

    def definition(x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        del select_last_index
        rows = np.moveaxis(x, axis, -1)
        y = np.zeros(rows.shape[:-1], int)
        for at in np.ndindex(y.shape):
            best: Any = start
            for i, v in enumerate(rows[at]):
                if better(v, best).value:
                    y[at], best = i, v
        return np.expand_dims(y, axis) if keepdims else y

    return definition


def cumulative(of: Callable[[Any, Any], Any], start: float) -> Callable[..., Any]:
    """All accumulators along an axis."""

    def definition(x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
        rows = np.moveaxis(x, int(axis), -1)
        rows = rows[..., ::-1] if reverse else rows
        y = np.empty(rows.shape, object)
        for at in np.ndindex(rows.shape[:-1]):
            total: Any = start
            for i, v in enumerate(rows[at]):
                before = total
                total = of(total, v)
                y[(*at, i)] = before if exclusive else total
        y = y[..., ::-1] if reverse else y
        return np.moveaxis(y, -1, int(axis))

    return definition


def combine(of: Callable[[Any, Any], Any], divide: bool = False) -> Callable[..., Any]:
    """Inputs combined element by element, from left to right."""

    def definition(*inputs: Any) -> Any:
        total = np.broadcast_arrays(*inputs)[0]
        for x in inputs[1:]:
            total = pointwise(of, total, x)
        return total / float(len(inputs)) if divide else total

    return definition


DEFINITIONS: dict[str, Callable[..., Any]] = {
    "ReduceSum": reduce(_plain(add_up)),
    "ReduceMean": reduce(_plain(mean)),
    "ReduceMax": reduce(_plain(maximum)),
    "ReduceMin": reduce(_plain(lambda x, axes, keep: fold(smaller, math.inf, x, axes, keep))),
    "ReduceProd": reduce(_plain(lambda x, axes, keep: fold(lambda a, b: a * b, 1.0, x, axes, keep))),
    "ReduceL1": reduce(_sum_of(abs)),
    "ReduceL2": reduce(_sum_of(lambda v: v * v, sqrt)),
    "ReduceSumSquare": reduce(_sum_of(lambda v: v * v)),
    "ReduceLogSum": reduce(_sum_of(lambda v: v, log)),
    "ReduceLogSumExp": reduce(_sum_of(exp, log)),
    "ArgMax": argument(lambda v, best: v > best, -math.inf),
    "ArgMin": argument(lambda v, best: v < best, math.inf),
    "CumSum": cumulative(lambda a, b: a + b, 0.0),
    "CumProd": cumulative(lambda a, b: a * b, 1.0),
    "Sum": combine(lambda a, b: a + b),
    "Mean": combine(lambda a, b: a + b, divide=True),
    "Max": combine(larger),
    "Min": combine(smaller),
}
