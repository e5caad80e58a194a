"""Pooling as a loop over each window of the padded input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.linear import padded
from tests.operators.oracle.number import Number, larger, sqrt


def norm(window: Any, p: int) -> Any:
    """The p-norm of a flat array."""
    total: Any = 0.0
    for v in window:
        total = total + (abs(v) if p == 1 else v * v if p == 2 else abs(v) ** p)
    return total if p == 1 else sqrt(total) if p == 2 else total ** (1.0 / p)


def average(window: Any) -> Any:
    total: Any = 0.0
    for v in window:
        total = total + v
    return total / float(len(window))


def highest(window: Any) -> Any:
    best: Any = -math.inf
    for v in window:
        best = larger(best, v)
    return best


def windows(of: Callable[..., Any], padding: float = 0.0) -> Callable[..., Any]:
    """A function of each window; the padding's value is the pooling's identity."""

    def definition(
        x: Any,
        *,
        kernel_shape: Any,
        strides: Any = None,
        pads: Any = None,
        dilations: Any = None,
        p: int = 2,
        **ignored: Any,
    ) -> Any:
        assert set(ignored) <= {"count_include_pad"}
        rank = x.ndim - 2
        strides, dilations = strides or [1] * rank, dilations or [1] * rank
        inner = x
        x = padded(x, pads or [0] * 2 * rank)
        if padding:
            inside = {id(v) for v in inner.flat}
            for at in np.ndindex(x.shape):
                if id(x[at]) not in inside:
                    x[at] = Number(padding, x[at].tally)
        reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel_shape, strict=True)]
        spatial = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, strides, strict=True)]
        y = np.empty((*x.shape[:2], *spatial), object)
        for n, c, *at in np.ndindex(y.shape):
            cells = (
                tuple(a * s + i * d for a, s, i, d in zip(at, strides, k, dilations, strict=True))
                for k in np.ndindex(*kernel_shape)
            )
            window = [x[(n, c, *cell)] for cell in cells]
            y[(n, c, *at)] = of(window, p) if of is norm else of(window)
        return y

    return definition


def globally(of: Callable[..., Any]) -> Callable[..., Any]:
    """A function of each channel."""

    def definition(x: Any, p: int = 2) -> Any:
        y = np.empty((*x.shape[:2], *[1] * (x.ndim - 2)), object)
        for n, c in np.ndindex(x.shape[:2]):
            y[n, c] = of(list(x[n, c].flat), p) if of is norm else of(list(x[n, c].flat))
        return y

    return definition


DEFINITIONS: dict[str, Callable[..., Any]] = {
    "MaxPool": windows(highest, padding=-math.inf),
    "AveragePool": windows(average),
    "LpPool": windows(norm),
    "GlobalMaxPool": globally(highest),
    "GlobalAveragePool": globally(average),
    "GlobalLpPool": globally(norm),
}
