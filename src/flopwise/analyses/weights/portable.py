"""The loops over elements in numpy, a cache's worth at a time; the same functions as in ``compiled``.

Each pass writes into memory that is there already: what numpy would allocate for it costs more than the pass.
"""

from __future__ import annotations

import numpy as np

from flopwise.analyses.weights.moments import Moments, merge
from flopwise.analyses.weights.ranges import Ruler
from flopwise.graph.stored import Array

NAME = f"numpy {np.__version__}"

#: Elements at a time: 256 KiB of float64, of which a second-level cache holds a few. With fewer, threads wait for each
#: other between the passes.
CHUNK = 1 << 15

#: Bit patterns at a time: each time there is a table of all of them to add.
PATTERNS = 1 << 18


def scan(x: Array, factor: float = 1.0) -> Moments:
    """The statistics of the elements times ``factor``, a 1-D array of float32 or float64."""
    size = min(x.size, CHUNK)
    wide, spare, flags = np.empty(size), np.empty(size), np.empty(size, np.bool_)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # invalid: a signaling NaN
        return merge(_scan(x[start : start + CHUNK], factor, wide, spare, flags) for start in range(0, x.size, CHUNK))


def _scan(x: Array, factor: float, wide: Array, spare: Array, flags: Array) -> Moments:
    low, high, nan, infinite = x.min(), x.max(), 0, 0
    if not (np.isfinite(low) and np.isfinite(high)):
        nan = int(np.count_nonzero(np.isnan(x)))
        finite = x[np.isfinite(x)]
        infinite = x.size - nan - finite.size
        if not finite.size:
            return Moments(nan=nan, infinite=infinite)
        x, low, high = finite, finite.min(), finite.max()
    count = x.size
    wide, spare = wide[:count], spare[:count]
    zeros = int(np.count_nonzero(np.equal(x, 0, out=flags[:count])))
    np.copyto(wide, x)
    if factor != 1.0:
        wide *= factor
    total, magnitude = float(wide.sum()), float(np.abs(wide, out=spare).sum())
    centre = total / count
    wide -= centre
    drift = float(wide.sum())
    wide *= wide  # not a dot product, which would start threads of its own
    squares = float(wide.sum()) - drift * drift / count
    low, high = float(low) * factor + 0.0, float(high) * factor + 0.0
    return Moments(count, nan, infinite, zeros, low, high, total, 0.0, magnitude, squares, centre, drift / count)


def bins(x: Array, ruler: Ruler, finite: bool) -> Array:
    """The number of finite elements in each bin; ``finite`` says that all are finite."""
    counts = np.zeros(ruler.bins, np.int64)
    steps, low, scale, slack = ruler.fast(x.dtype)
    half = x.dtype.type(0.5)
    size = min(x.size, CHUNK)
    places, wholes = np.empty(size, x.dtype), np.empty(size, x.dtype)
    indices, flags = np.empty(size, np.intp), np.empty(size, np.bool_)
    for start in range(0, x.size, CHUNK):
        part = x[start : start + CHUNK]
        part = part if finite else part[np.isfinite(part)]
        place = np.subtract(part, low, out=places[: part.size])
        place *= scale
        bin_floats, bin_numbers = np.floor(place, out=wholes[: part.size]), indices[: part.size]
        np.copyto(bin_numbers, bin_floats, casting="unsafe")
        place -= bin_floats
        place -= half
        near = np.flatnonzero(np.greater(np.abs(place, out=place), half - slack, out=flags[: part.size]))
        if near.size:  # compared with both edges
            unsure, value = bin_numbers[near], part[near]
            unsure -= value < steps[unsure]
            unsure += value >= steps[unsure + 1]
            bin_numbers[near] = unsure
        counts += np.bincount(bin_numbers, minlength=ruler.bins)
    return counts


def codes(x: Array, patterns: int) -> Array:
    """The number of elements with each bit pattern in an array of uint8 or uint16."""
    counts = np.zeros(patterns, np.int64)
    for start in range(0, x.size, PATTERNS):
        counts += np.bincount(x[start : start + PATTERNS], minlength=patterns)
    return counts
