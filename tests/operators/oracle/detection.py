"""Pooling over regions of interest, region by region."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.number import Number, ceil, floor, larger, nearest, plain, smaller, weighed


def roi_align(
    x: Any, rois: Any, batch: Any, *, output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
    spatial_scale: float = 1.0, mode: str = "avg", coordinate_transformation_mode: str = "half_pixel",
) -> Any:  # fmt: skip
    half = coordinate_transformation_mode == "half_pixel"
    y = np.empty((len(rois), x.shape[1], output_height, output_width), object)
    for r, region in enumerate(rois):
        x1, y1, x2, y2 = (v * spatial_scale - 0.5 if half else v * spatial_scale for v in region)
        sizes = [y2 - y1, x2 - x1]
        if not half:
            sizes = [larger(1.0, size) for size in sizes]
        cells = [size / float(n) for size, n in zip(sizes, (output_height, output_width), strict=True)]
        grid = [sampling_ratio or int(plain(ceil(cell))) for cell in cells]
        for i, j in np.ndindex(output_height, output_width):
            points = [_corners([y1, x1], cells, (i, j), pick, grid, x.shape[2:]) for pick in np.ndindex(*grid)]
            for c in range(x.shape[1]):
                image = x[int(batch[r]), c]
                y[r, c, i, j] = _averaged(image, points) if mode == "avg" else _largest(image, points)
    return y


def _corners(start: Any, cells: Any, cell: Any, pick: Any, grid: Any, extents: Any) -> list[tuple[Any, Any]]:
    """The four neighbours of a sampling point and their weights; none where it is outside."""
    lows, highs, rests = [], [], []
    outside = False
    for first, size, n, i, count, extent in zip(start, cells, cell, pick, grid, extents, strict=True):
        place = first + size * float(n) + size * (i + 0.5) / float(count)
        outside = bool((place < -1.0).value) | bool((place > float(extent)).value) | outside
        place = larger(0.0, place)
        low = floor(place)
        if (low >= float(extent - 1)).value:
            low = place = Number(float(extent - 1), place.tally)
        lows.append(int(plain(low)))
        highs.append(min(int(plain(low)) + 1, extent - 1))
        rests.append(place - low)
    opposite = [1.0 - rest for rest in rests]
    weights = [a * b for a in (opposite[0], rests[0]) for b in (opposite[1], rests[1])]
    if outside:
        return []
    return list(zip([(a, b) for a in (lows[0], highs[0]) for b in (lows[1], highs[1])], weights, strict=True))


def _averaged(image: Any, points: Any) -> Any:
    total: Any = Number(0.0, image.flat[0].tally)
    for corners in points:
        for at, weight in corners:
            total = weighed(total, image[at], weight)
    return total / float(max(len(points), 1))


def _largest(image: Any, points: Any) -> Any:
    best: Any = None
    for corners in points:
        products = [image[at] * weight for at, weight in corners] or [Number(0.0, image.flat[0].tally)]
        value = products[0]
        for other in products[1:]:
            value = larger(value, other)
        best = value if best is None else larger(best, value)
    return best


def max_roi_pool(x: Any, rois: Any, *, pooled_shape: Any, spatial_scale: float = 1.0) -> Any:
    y = np.empty((len(rois), x.shape[1], *pooled_shape), object)
    extents = x.shape[2:]
    for r, (image, *region) in enumerate(rois):
        x1, y1, x2, y2 = (nearest(v * spatial_scale) for v in region)
        starts = [y1, x1]
        sizes = [larger(1.0, end - start + 1.0) for start, end in ((y1, y2), (x1, x2))]
        cells = [size / float(n) for size, n in zip(sizes, pooled_shape, strict=True)]
        for at in np.ndindex(*pooled_shape):
            ranges = []
            for start, cell, n, extent in zip(starts, cells, at, extents, strict=True):
                low, high = floor(cell * float(n)) + start, ceil(cell * float(n + 1)) + start
                bounds = [smaller(float(extent), larger(0.0, bound)) for bound in (low, high)]
                ranges.append(range(*(int(plain(bound)) for bound in bounds)))
            for c in range(x.shape[1]):
                best: Any = -math.inf
                for i in ranges[0]:
                    for j in ranges[1]:
                        best = larger(best, x[int(plain(image)), c, i, j])
                y[(r, c, *at)] = 0.0 if best == -math.inf else best
    return y


ALGORITHMS: dict[str, Callable[..., Any]] = {"RoiAlign": roi_align, "MaxRoiPool": max_roi_pool}
