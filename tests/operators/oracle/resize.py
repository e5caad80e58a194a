"""Resampling: each output element as a weighted average of its neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.number import Number, floor, mac, nearest, weighed

_A = -0.75


def _cubic(t: float) -> float:
    """Keys' cubic kernel at distance t."""
    t = abs(t)
    if t <= 1:
        return ((_A + 2) * t - (_A + 3)) * t * t + 1
    return ((_A * t - 5 * _A) * t + 8 * _A) * t - 4 * _A if t < 2 else 0.0


def _axis_taps(before: int, after: int, mode: str, antialias: int) -> list[list[tuple[int, float]]]:
    """For each position of the result along one axis, the neighbours and their weights (half-pixel coordinates).

    They follow from the extents alone, so these are plain numbers.
    """
    if before == after:
        return [[(i, 1.0)] for i in range(after)]
    scale = after / before
    stretch = min(scale, 1.0) if antialias else 1.0
    radius = 2 if mode == "cubic" else 1
    kernel = _cubic if mode == "cubic" else (lambda t: max(0.0, 1.0 - abs(t)))
    first = math.floor(-radius / stretch) + 1
    taps = []
    for i in range(after):
        centre = (i + 0.5) / scale - 0.5
        base = math.ceil(centre) - 1
        places = range(base + first, base + 2 - first)
        weights = [kernel((j - centre) * stretch) for j in places]
        total = sum(weights) if antialias else 1.0
        taps.append([(min(max(j, 0), before - 1), w / total) for j, w in zip(places, weights, strict=True)])
    return taps


def resize(
    x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, *, mode: str = "nearest", antialias: int = 0
):
    """Half-pixel coordinates, borders repeated."""
    del roi
    shape = [int(n) for n in sizes] if sizes is not None else [int(n * s) for n, s in zip(x.shape, scales, strict=True)]
    if mode == "nearest":
        taps = [
            [[(min(max(math.ceil((i + 0.5) * n / m - 1.0), 0), n - 1), 1.0)] for i in range(m)]
            for n, m in zip(x.shape, shape, strict=True)
        ]
    else:
        taps = [_axis_taps(n, m, mode, antialias) for n, m in zip(x.shape, shape, strict=True)]
    y = np.empty(shape, object)
    still = list(shape) == list(x.shape)
    for at in np.ndindex(*shape):
        near = [taps[a][i] for a, i in enumerate(at)]
        if mode == "nearest" or still:
            y[at] = x[tuple(n[0][0] for n in near)]
            continue
        total: Any = 0.0
        for pick in np.ndindex(*(len(n) for n in near)):
            chosen = [n[i] for n, i in zip(near, pick, strict=True)]
            total = weighed(total, x[tuple(j for j, _ in chosen)], math.prod(w for _, w in chosen))
        y[at] = total
    return y


def upsample(x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    """Coordinates that start at zero in both (opset 9)."""
    shape = [int(n * s) for n, s in zip(x.shape, scales, strict=True)]
    y = np.empty(shape, object)
    for at in np.ndindex(*shape):
        where = [i / s for i, s in zip(at, scales, strict=True)]
        low = [math.floor(w) for w in where]
        if mode == "nearest":
            y[at] = x[tuple(low)]
            continue
        moved = [a for a, (n, m) in enumerate(zip(x.shape, shape, strict=True)) if n != m]
        total: Any = 0.0
        for pick in np.ndindex(*[2] * len(moved)):
            cell, weight = list(low), 1.0
            for a, up in zip(moved, pick, strict=True):
                rest = where[a] - low[a]
                weight *= rest if up else 1.0 - rest
                cell[a] = min(low[a] + up, x.shape[a] - 1)
            total = weighed(total, x[tuple(cell)], weight)
        y[at] = total
    return y


def _linear_weights(rest: Number) -> list[Any]:
    return [1.0 - rest, rest]


def _cubic_weights(rest: Number) -> list[Any]:
    """The four weights of Keys' kernel, each by its own polynomial."""
    far, back, away = rest + 1.0, 1.0 - rest, 2.0 - rest
    return [
        ((_A * far - 5 * _A) * far + 8 * _A) * far - 4 * _A,
        ((_A + 2) * rest - (_A + 3)) * rest * rest + 1.0,
        ((_A + 2) * back - (_A + 3)) * back * back + 1.0,
        ((_A * away - 5 * _A) * away + 8 * _A) * away - 4 * _A,
    ]


def _bounded(i: int, n: int, padding: str) -> int | None:
    """The index that stands in for one outside (addressing, so nothing counts); None is a zero."""
    if padding == "border":
        return min(max(i, 0), n - 1)
    return i if 0 <= i < n else None


def grid_sample(x: Any, grid: Any, *, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0) -> Any:
    mode = mode.removeprefix("bi")
    spatial = x.shape[2:]
    rank = len(spatial)
    y = np.empty((*x.shape[:2], *grid.shape[1:-1]), object)
    zero = type(x.flat[0])(0.0, x.flat[0].tally)
    for n, *at in np.ndindex(grid.shape[:-1]):
        firsts, weights = [], []
        for g, length in zip(grid[(n, *at)][::-1], spatial, strict=True):
            place = (g + 1.0) / 2.0 * (length - 1) if align_corners else ((g + 1.0) * length - 1.0) / 2.0
            if mode == "nearest":
                firsts.append(int(nearest(place).value))
                continue
            low = floor(place)
            firsts.append(int(low.value) - (mode == "cubic"))
            weights.append((_cubic_weights if mode == "cubic" else _linear_weights)(place - low))
        cells, factors = [], []
        for pick in np.ndindex(*[{"nearest": 1, "linear": 2, "cubic": 4}[mode]] * rank):
            cells.append([_bounded(f + i, m, padding_mode) for f, i, m in zip(firsts, pick, spatial, strict=True)])
            if mode != "nearest":
                factor = weights[0][pick[0]]
                for w, i in zip(weights[1:], pick[1:], strict=True):
                    factor = factor * w[i]
                factors.append(factor)
        for c in range(x.shape[1]):
            found = [zero if None in cell else x[(n, c, *cell)] for cell in cells]
            total: Any = 0.0
            for value, factor in zip(found, factors, strict=False):
                total = weighed(total, value, factor)
            y[(n, c, *at)] = found[0] if mode == "nearest" else total
    return y


def affine_grid(theta: Any, size: Any, *, align_corners: int = 0) -> Any:
    """Each position times the matrix of its sample; positions are constants."""
    spatial = [int(n) for n in size[2:]]
    y = np.empty((len(theta), *spatial, len(spatial)), object)
    for n, *at in np.ndindex(y.shape[:-1]):
        steps = [
            (2 * i / (m - 1) - 1) if align_corners else (2 * i + 1) / m - 1 for i, m in zip(at, spatial, strict=True)
        ]
        position = [*steps[::-1], 1.0]
        for row in range(len(spatial)):
            total: Any = 0.0
            for factor, p in zip(theta[n, row], position, strict=True):
                total = mac(total, factor, p)
            y[(n, *at, row)] = total
    return y


DEFINITIONS: dict[str, Callable[..., Any]] = {
    "Resize": resize,
    "Upsample": upsample,
    "GridSample": grid_sample,
    "AffineGrid": affine_grid,
}
