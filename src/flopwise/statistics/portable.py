"""The loops over elements in numpy, a cache's worth at a time; the same functions as in ``compiled``."""

from __future__ import annotations

from typing import Any

import numpy as np

from flopwise.statistics.moments import Moments, merge
from flopwise.statistics.ranges import Ruler

Array = np.ndarray[Any, Any]

NAME = f"numpy {np.__version__}"

#: Elements at a time: 96 KiB of float64, which an allocator gives out again without asking the system.
CHUNK = 3 << 12


def scan(x: Array, factor: float = 1.0) -> Moments:
    """The statistics of the elements times ``factor``, a 1-D array of float32 or float64."""
    return merge(_scan(x[start : start + CHUNK], factor) for start in range(0, x.size, CHUNK))


def _scan(x: Array, factor: float) -> Moments:
    with np.errstate(invalid="ignore"):  # signaling NaN
        wide = x.astype(np.float64)
    low, high, nan, infinite = wide.min(), wide.max(), 0, 0
    if not (np.isfinite(low) and np.isfinite(high)):
        nan = int(np.count_nonzero(np.isnan(wide)))
        wide = wide[np.isfinite(wide)]
        infinite = x.size - nan - wide.size
        if not wide.size:
            return Moments(nan=nan, infinite=infinite)
        low, high = wide.min(), wide.max()
    if factor != 1.0:
        wide *= factor
        low, high = low * factor, high * factor
    zeros = wide.size - int(np.count_nonzero(wide))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        total, magnitude = float(wide.sum()), float(np.abs(wide).sum())
        centre = total / wide.size
        wide -= centre
        drift = float(wide.sum())
        wide *= wide  # not a dot product, which would start threads of its own
        squares = float(wide.sum()) - drift * drift / wide.size
    low, high = float(low) + 0.0, float(high) + 0.0
    return Moments(
        wide.size, nan, infinite, zeros, low, high, total, 0.0, magnitude, squares, centre, drift / wide.size
    )


def bins(x: Array, ruler: Ruler, finite: bool) -> Array:
    """How many finite elements lie in each bin; ``finite`` says that all are."""
    counts = np.zeros(ruler.bins, np.int64)
    steps, low, scale, slack = ruler.fast(x.dtype)
    for start in range(0, x.size, CHUNK):
        part = x[start : start + CHUNK]
        part = part if finite else part[np.isfinite(part)]
        place = part - low
        place *= scale
        found = place.astype(np.intp)
        place -= found
        place -= 0.5
        near = np.flatnonzero(np.abs(place, out=place) > 0.5 - slack)
        if near.size:  # compared with both edges
            unsure, value = found[near], part[near]
            unsure -= value < steps[unsure]
            unsure += value >= steps[unsure + 1]
            found[near] = unsure
        counts += np.bincount(found, minlength=ruler.bins)
    return counts


def codes(x: Array, many: int) -> Array:
    """How often each of ``many`` bit patterns occurs in an array of uint8 or uint16."""
    counts = np.zeros(many, np.int64)
    for start in range(0, x.size, CHUNK):
        counts += np.bincount(x[start : start + CHUNK], minlength=many)
    return counts
