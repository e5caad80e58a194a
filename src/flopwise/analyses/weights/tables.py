"""Statistics from how often each bit pattern occurs: exact, and independent of the number of elements."""

from __future__ import annotations

import functools
import math

import numpy as np

from flopwise.analyses.weights.moments import Moments
from flopwise.analyses.weights.ranges import Array, Ruler


@functools.cache
def values_of(dtype: str) -> Array:
    """The value of each bit pattern of a numpy type of one or two bytes, or of bfloat16, as float64."""
    if dtype == "bfloat16":
        with np.errstate(invalid="ignore"):
            wide: Array = (np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
            return wide
    if dtype == "bool":
        truth: Array = (np.arange(256) != 0).astype(np.float64)
        return truth
    kind = np.dtype(dtype)
    patterns = np.arange(1 << 8 * kind.itemsize, dtype=np.uint8 if kind.itemsize == 1 else np.uint16)
    with np.errstate(invalid="ignore"):
        return patterns.view(kind).astype(np.float64)


def moments_of_table(counts: Array, values: Array) -> Moments:
    """The statistics of elements of which ``counts[i]`` have the value ``values[i]``."""
    nan = int(counts[np.isnan(values)].sum())
    infinite = int(counts[np.isinf(values)].sum())
    there = (counts > 0) & np.isfinite(values)
    some, value = counts[there], values[there]
    if not some.size:
        return Moments(nan=nan, infinite=infinite)
    count = int(some.sum())
    total = math.fsum(some * value)
    away = value - total / count
    drift = math.fsum(some * away)
    return Moments(
        count,
        nan,
        infinite,
        int(some[value == 0].sum()),
        float(value.min()) + 0.0,
        float(value.max()) + 0.0,
        total,
        0.0,
        math.fsum(some * np.abs(value)),
        math.fsum(some * away * away) - drift * drift / count,
        total / count,
        drift / count,
    )


def bins_of_table(counts: Array, values: Array, ruler: Ruler) -> Array:
    """How many of these elements lie in each bin."""
    there = (counts > 0) & np.isfinite(values)
    per_bin = np.zeros(ruler.bins, np.int64)
    np.add.at(per_bin, ruler.place(values[there]), counts[there])
    return per_bin
