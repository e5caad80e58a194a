"""Gradients of PyTorch's reductions and of updates by index, by hand, on numbers that count."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.analyses.training.derivatives import sign
from tests.operators.oracle import numbers, values
from tests.operators.oracle.number import pointwise, select


def nansum(g: Any, y: Any, wanted: Any, x: Any) -> dict[int, Any]:
    return {0: pointwise(lambda v, of: select(v.does("cmp", math.isnan(v.value)), 0.0, of), x, g)}


def nanmean(g: Any, y: Any, wanted: Any, x: Any) -> dict[int, Any]:
    known = np.isfinite(values(x).astype(float)).sum(-1, keepdims=True).astype(object)  # which the forward pass kept
    return nansum(g / known, y, wanted, x)


def differences(order: int, axis: int) -> Callable[..., Any]:
    """Of each order, an element is the one that was taken from, and then the one that was taken away."""

    def gradient(g: Any, y: Any, wanted: Any, x: Any) -> dict[int, Any]:
        g = np.moveaxis(g, axis, -1)
        for _ in range(order):
            ends = pointwise(lambda v: -v, g[..., :1]), g[..., -1:]
            g = np.concatenate([ends[0], g[..., :-1] - g[..., 1:], ends[1]], axis=-1)
        return {0: np.moveaxis(g, -1, axis)}

    return gradient


def matrix_norm(axis: int) -> Callable[..., Any]:
    def gradient(g: Any, y: Any, wanted: Any, x: Any) -> dict[int, Any]:
        of_lines = [np.reshape(of, (*np.shape(of), 1, 1)) for of in (g, y)]
        sums = numbers(np.abs(values(x).astype(float)).sum(axis, keepdims=True), x.flat[0].tally)
        picked = pointwise(
            lambda s, of, top: select(s.does("cmp", math.isclose(s.value, top.value)), of, 0.0), sums, *of_lines
        )
        return {0: pointwise(lambda v, of: of * sign(v), x, picked)}

    return gradient


def places(index: Any, shape: tuple[int, ...]) -> dict[Any, Any]:
    """Place of an update -> place of the element that it comes to: by rows, or one by one."""
    at = values(index)
    return {of: (int(at[of if at.ndim > 1 else of[0]]), *of[1:]) for of in np.ndindex(*shape)}


def means(own: bool) -> Callable[..., Any]:
    """G goes by how many an element is the mean of."""

    def gradient(g: Any, y: Any, wanted: Any, x: Any, index: Any, source: Any) -> dict[int, Any]:
        many = numbers(np.full(x.shape, float(own)), g.flat[0].tally)
        targets = places(index, index.shape if index.ndim > 1 else source.shape)
        for at in targets.values():
            many[at] = many[at] + 1.0
        if not own:
            many = pointwise(lambda n: select(n.equals(0.0), 1.0, n), many)
        found: dict[int, Any] = {}
        if 0 in wanted:
            found[0] = g / many
            for at in () if own else targets.values():
                found[0][at] = 0.0
        if 2 in wanted:
            found[2] = np.full(source.shape, 0.0, object)
            for of, at in targets.items():
                found[2][of] = g[at] / many[at]
        return found

    return gradient


def index_add(g: Any, y: Any, wanted: Any, x: Any, index: Any, source: Any) -> dict[int, Any]:
    found = {0: g} if 0 in wanted else {}
    return found | ({2: g[values(index).astype(int)] * 0.5} if 2 in wanted else {})
