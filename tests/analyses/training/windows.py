"""Gradients of pooling, resampling and picking as nested loops, on numbers that count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.analyses.training.derivatives import sum_to
from tests.analyses.training.layers import kept
from tests.operators.oracle import DEFINITIONS
from tests.operators.oracle.number import floor, mac, minus_weighed, pointwise, values, weighed
from tests.operators.oracle.reduction import add_up


def deform_conv(g: Any, y: Any, wanted: Any, x: Any, w: Any, offset: Any, b: Any = None, mask: Any = None) -> Any:
    """Two axes, one group, stride 1, no padding."""
    kernel, spatial = w.shape[2:], offset.shape[2:]
    shape = (x.shape[0], *kernel, 2, *spatial)
    offset, mask = offset.reshape(shape), None if mask is None else mask.reshape(x.shape[0], *kernel, *spatial)
    zero = type(x.flat[0])(0.0, x.flat[0].tally)
    dx, dw, d_offset, d_mask = (
        np.full(s, 0.0, object) for s in (x.shape, w.shape, shape, (x.shape[0], *kernel, *spatial))
    )
    for n, k, h, i, j in np.ndindex(x.shape[0], *kernel, *spatial):
        places = [offset[n, k, h, axis, i, j] + float(at) for axis, at in enumerate((i + k, j + h))]
        lows = [floor(place) for place in places]
        rests = [place - low for place, low in zip(places, lows, strict=True)]
        weights = [(1.0 - rest, rest) for rest in rests]
        near = [
            (p, q, int(lows[0].value) + p, int(lows[1].value) + q, weights[0][p] * weights[1][q])
            for p, q in np.ndindex(2, 2)
        ]
        for c in range(x.shape[1]):
            inside = [x[n, c, a, e] if 0 <= a < x.shape[2] and 0 <= e < x.shape[3] else zero for _, _, a, e, _ in near]
            raw: Any = 0.0
            for v, (*_, factor) in zip(inside, near, strict=True):
                raw = weighed(raw, v, factor)
            sample = raw if mask is None else raw * mask[n, k, h, i, j]
            back: Any = 0.0
            for m in range(w.shape[0]):
                if 1 in wanted:
                    dw[m, c, k, h] = mac(dw[m, c, k, h], g[n, m, i, j], sample)
                if wanted & {0, 2, 4}:
                    back = mac(back, g[n, m, i, j], w[m, c, k, h])
            if 4 in wanted:
                d_mask[n, k, h, i, j] = weighed(d_mask[n, k, h, i, j], back, raw)
            if wanted & {0, 2} and mask is not None:
                back = back * mask[n, k, h, i, j]
            for v, (*_, a, e, factor) in zip(inside, near, strict=True):
                if 0 in wanted:
                    moved = weighed(dx[n, c, a, e] if v is not zero else 0.0, back, factor)
                    if v is not zero:
                        dx[n, c, a, e] = moved
            for axis in range(2) if 2 in wanted else ():
                slope: Any = 0.0
                for v, (p, q, *_) in zip(inside, near, strict=True):
                    step = weighed if (p, q)[axis] else minus_weighed
                    slope = step(slope, v, weights[1 - axis][(q, p)[axis]])
                d_offset[n, k, h, axis, i, j] = weighed(d_offset[n, k, h, axis, i, j], back, slope)
    found = {0: dx, 1: dw, 2: d_offset.reshape(x.shape[0], -1, *spatial), 4: d_mask.reshape(x.shape[0], -1, *spatial)}
    if 3 in wanted:
        found[3] = add_up(g, [0, 2, 3]).reshape(-1)
    return {i: found[i] for i in wanted}


def pooled(cell: Callable[..., Any], result: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Gradients of pooling without padding: each result's share is added to the cells of its window."""

    def gradient(g: Any, y: Any, wanted: Any, x: Any, *, kernel_shape: Any, strides: Any, p: int = 2) -> dict[int, Any]:
        dx = np.empty(x.shape, object)
        dx[...] = 0.0
        for n, c, *at in np.ndindex(y.shape):
            places = [
                (n, c, *(a * s + i for a, s, i in zip(at, strides, k, strict=True))) for k in np.ndindex(*kernel_shape)
            ]
            share = g[(n, c, *at)] if result is None else result(g[(n, c, *at)], y[(n, c, *at)], len(places), p)
            for place in places:
                more = cell(share, x[place], y[(n, c, *at)], p)
                if more is not None:
                    dx[place] = dx[place] + more
        return {0: dx}

    return gradient


def _lp_cell(share: Any, x: Any, y: Any, p: int) -> Any:
    way = 1.0 if p == 2 else x.does("cmp", float(np.sign(x.value)))
    if p == 2:
        return x * share
    return way * share if p == 1 else way * abs(x) ** (p - 1.0) * share


def _lp_share(g: Any, y: Any, cells: int, p: int) -> Any:
    return g if p == 1 else g / y if p == 2 else g / y ** (p - 1.0)


def globally(cell: Callable[..., Any], result: Callable[..., Any]) -> Callable[..., Any]:
    """Gradients of global pooling: every cell gets its share, once."""

    def gradient(g: Any, y: Any, wanted: Any, x: Any, *, p: int = 2) -> dict[int, Any]:
        share = pointwise(lambda a, b: result(a, b, x.size // y.size, p), g, y)
        spread = np.broadcast_to(share, x.shape)
        return {0: pointwise(lambda s, v, w: cell(s, v, w, p), spread, x, np.broadcast_to(y, x.shape))}

    return gradient


def interpolated(
    g: Any, y: Any, wanted: Any, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, *, mode: str
):
    """The weights of the forward pass, found by running it on unit vectors, and used the other way round."""
    dx = np.empty(x.shape, object)
    dx[...] = 0.0
    for place in np.ndindex(x.shape):
        unit = np.zeros(x.shape)
        unit[place] = 1.0
        weights = values(DEFINITIONS["Resize"](kept(unit, x), None, scales, sizes, mode=mode))
        for at in np.ndindex(g.shape):
            if weights[at] != 0.0:
                dx[place] = dx[place] + g[at] if mode == "nearest" else weighed(dx[place], g[at], float(weights[at]))
    return {0: dx}


def grid_sample(g: Any, y: Any, wanted: Any, x: Any, grid: Any) -> dict[int, Any]:
    """Two axes, linear, zeros beyond the edge."""
    dx, dgrid = np.full(x.shape, 0.0, object), np.full(grid.shape, 0.0, object)
    zero = type(x.flat[0])(0.0, x.flat[0].tally)
    sizes = x.shape[2:]
    for n, i, j in np.ndindex(grid.shape[:-1]):
        places = [((v + 1.0) * m - 1.0) / 2.0 for v, m in zip(grid[n, i, j][::-1], sizes, strict=True)]
        lows = [floor(place) for place in places]
        rests = [place - low for place, low in zip(places, lows, strict=True)]
        weights = [(1.0 - rest, rest) for rest in rests]
        near = [(p, q, int(lows[0].value) + p, int(lows[1].value) + q) for p, q in np.ndindex(2, 2)]
        factors = [weights[0][p] * weights[1][q] for p, q, *_ in near]
        for c in range(x.shape[1]):
            there = [0 <= a < sizes[0] and 0 <= e < sizes[1] for *_, a, e in near]
            if 0 in wanted:
                for (*_, a, e), factor, inside in zip(near, factors, there, strict=True):
                    moved = weighed(dx[n, c, a, e] if inside else 0.0, g[n, c, i, j], factor)
                    if inside:
                        dx[n, c, a, e] = moved
            for axis in range(2) if 1 in wanted else ():
                slope: Any = 0.0
                for (p, q, a, e), inside in zip(near, there, strict=True):
                    step = weighed if (p, q)[axis] else minus_weighed
                    slope = step(slope, x[n, c, a, e] if inside else zero, weights[1 - axis][(q, p)[axis]])
                dgrid[n, i, j, 1 - axis] = weighed(dgrid[n, i, j, 1 - axis], g[n, c, i, j], slope)
    if 1 in wanted:
        for axis, size in enumerate(sizes[::-1]):
            dgrid[..., axis] = pointwise(lambda v, half=size / 2.0: v * half, dgrid[..., axis])
    return {i: (dx, dgrid)[i] for i in wanted}


def gather(g: Any, y: Any, wanted: Any, x: Any, indices: Any, *, axis: int = 0) -> dict[int, Any]:
    dx = np.empty(x.shape, object)
    dx[...] = 0.0
    rows, out = np.moveaxis(dx, axis, 0), g
    flat = np.moveaxis(out.reshape(*x.shape[:axis], -1, *x.shape[axis + 1 :]), axis, 0)
    for at, row in zip(np.asarray(indices, int).reshape(-1), flat, strict=True):
        rows[at] = rows[at] + row
    return {0: dx}


def tiled(g: Any, y: Any, wanted: Any, x: Any, shape: Any) -> dict[int, Any]:
    return {0: sum_to(x.shape, g)}


GRADIENTS: dict[str, Callable[..., Any]] = {
    "DeformConv": deform_conv,
    "MaxPool": pooled(lambda s, x, y, p: s if x.value == y.value else None),
    "AveragePool": pooled(lambda s, x, y, p: s, lambda g, y, n, p: g / float(n)),
    "LpPool": pooled(_lp_cell, _lp_share),
    "GlobalAveragePool": globally(lambda s, x, y, p: s, lambda g, y, n, p: g / float(n)),
    "GlobalLpPool": globally(_lp_cell, _lp_share),
    "Resize": interpolated,
    "GridSample": grid_sample,
    "Gather": gather,
    "Expand": tiled,
}
