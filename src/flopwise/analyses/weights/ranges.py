"""The edges of a histogram's bins, and the bin of an element."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from flopwise.graph.stored import Array, DType

#: Float type -> bound of the relative rounding error of a place in units of bins.
_ROUNDING = {"f": 5e-7, "d": 1e-15}  # by the code of the type: its name takes a microsecond

#: A bin must be at least this many units in the last place of its edges wide for a place to be computed.
_WIDE = 1 << 20


class Ruler:
    """Bins of equal width from the least to the greatest element.

    The edges are those of ``numpy.histogram`` on float64: bin k holds what is at least edge k and less than edge k + 1;
    the last bin holds the greatest element too. Where all elements are equal the edges lie half a unit on both sides.
    """

    def __init__(self, low: float, high: float, bins: int) -> None:
        if low == high:
            low, high = low - 0.5, high + 0.5
        self.low, self.high, self.bins = low, high, bins
        # halves, because the range of float64 is wider than float64
        self.edges: Array = (
            np.linspace(low, high, bins + 1)
            if np.isfinite(high - low)
            else np.clip(np.linspace(low / 2, high / 2, bins + 1) * 2, low, high)
        )

    def place(self, x: Array) -> Array:
        """The bin of each element of a finite array, by search: the definition."""
        places = np.searchsorted(self.edges, x.astype(np.float64, copy=False), side="right") - 1
        np.maximum(places, 0, out=places)
        return np.minimum(places, self.bins - 1, out=places)

    @functools.cached_property
    def wide(self) -> bool:
        """True where bins are wide enough for a place to be computed instead of searched for."""
        step = (self.high - self.low) / self.bins
        with np.errstate(over="ignore"):  # what follows the greatest number is infinite
            place = _WIDE * np.spacing(max(abs(self.low), abs(self.high)))
        return bool(np.isfinite(self.high - self.low) and step > place and self.bins <= 1 << 16)

    def fits(self, dtype: DType) -> bool:
        """True where the places of elements of this type can be computed."""
        if not self.wide:
            return False
        if dtype.char == "d":
            return self.high - self.low > 1e-290
        return 1e-30 < self.high - self.low < 1e38 and self.bins <= 1 << 12

    def fast(self, dtype: DType) -> tuple[Array, Any, object, Any]:
        """Edges, least element, bins per unit, and how near an edge a computed place is unsure, in this type.

        An element of the type is at or above an edge exactly if it is at or above the edge rounded upward to the type.
        The last edge is infinite.
        """
        steps = self.edges.astype(dtype)
        rounded_down = steps.astype(np.float64) < self.edges
        steps = np.where(rounded_down, np.nextafter(steps, dtype.type(np.inf)), steps).astype(dtype)
        steps[-1] = np.inf
        scale = self.bins / (self.high - self.low)
        slack = self.bins * _ROUNDING[dtype.char] + 1e-6
        return np.append(steps, dtype.type(np.inf)), dtype.type(self.low), dtype.type(scale), dtype.type(slack)
