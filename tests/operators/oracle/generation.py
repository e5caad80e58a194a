"""What becomes of random draws; the draws themselves are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.number import exp, larger, pointwise


def normal(*_: Any, draws: Any, mean: float = 0.0, scale: float = 1.0, **ignored: Any) -> Any:
    assert set(ignored) <= {"seed", "shape", "dtype"}
    y = draws if scale == 1.0 else draws * scale
    return y if mean == 0.0 else y + mean


def uniform(*_: Any, draws: Any, low: float = 0.0, high: float = 1.0, **ignored: Any) -> Any:
    return normal(draws=draws, mean=low, scale=high - low, **ignored)


def bernoulli(p: Any, *, draws: Any) -> Any:
    return pointwise(lambda u, v: (u < v).value, draws, p)


def multinomial(x: Any, *, draws: Any, sample_size: int) -> Any:
    """The class at which the running sum of exp(x - max) first exceeds a draw, found by binary search."""
    y = np.empty((x.shape[0], sample_size), int)
    for n, row in enumerate(x):
        best: Any = -np.inf
        for v in row:
            best = larger(best, v)
        total: Any = 0.0
        sums = []
        for v in row:
            total = total + exp(v - best)
            sums.append(total)
        for i in range(sample_size):
            place = draws[n, i] * total
            low, high = 0, len(sums)
            while low < high:
                middle = (low + high) // 2
                if (place < sums[middle]).value:
                    high = middle
                else:
                    low = middle + 1
            y[n, i] = low
    return y


DEFINITIONS: dict[str, Callable[..., Any]] = {
    "RandomNormal": normal,
    "RandomNormalLike": normal,
    "RandomUniform": uniform,
    "RandomUniformLike": uniform,
    "Bernoulli": bernoulli,
}

ALGORITHMS: dict[str, Callable[..., Any]] = {"Multinomial": multinomial}
