"""The loops over elements in numpy, a cache's worth at a time; the same functions as in ``compiled``.

Each pass writes into memory that is there already: what numpy would allocate for it costs more than the pass.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flopwise.graph.stored import Array, DType

# The edges of a histogram's bins, and the bin of an element.


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


# Statistics of a part of the elements, merged exactly enough to be those of the whole.


#: Attributes that are in the unit of the elements.
_LINEAR = ("low", "high", "total", "lost", "magnitude", "centre", "offset")


@dataclass(frozen=True, slots=True)
class Moments:
    """Counts and sums over some elements.

    Minimum, maximum and sums are over the finite ones; NaN and infinities are counted apart.
    """

    #: Finite elements, NaN, infinities of both signs, and zeros of both signs.
    count: int = 0
    nan: int = 0
    infinite: int = 0
    zeros: int = 0
    low: float = math.inf
    high: float = -math.inf
    #: The sum, in two parts: what the first lost by rounding is in the second.
    total: float = 0.0
    lost: float = 0.0
    #: Sum of magnitudes.
    magnitude: float = 0.0
    #: Sum of squared deviations from the mean.
    squares: float = 0.0
    #: A number near the mean and the mean less it: together they say where the mean is more finely than one number.
    centre: float = 0.0
    offset: float = 0.0

    @property
    def length(self) -> int:
        """All elements."""
        return self.count + self.nan + self.infinite

    @property
    def mean(self) -> float:
        """Mean of the finite elements; 0 when there are none."""
        return (self.total + self.lost) / self.count if self.count else 0.0

    def times(self, factor: float) -> Moments:
        """The moments of the elements times ``factor``, a positive power of two."""
        if factor == 1.0:
            return self
        scaled = {name: getattr(self, name) * factor for name in _LINEAR}
        return replace(self, squares=self.squares * factor * factor, **scaled)


def merge(parts: Iterable[Moments]) -> Moments:
    """The moments of all parts together.

    Sums are rounded once; squared deviations are merged by Chan, Golub and LeVeque, "Updating formulae and a pairwise
    algorithm for computing sample variances" (1979), about the mean of all.
    """
    every = list(parts)
    if len(every) == 1 and every[0].count and not every[0].lost:
        return every[0]
    some = [part for part in every if part.count]
    nan, infinite = sum(part.nan for part in every), sum(part.infinite for part in every)
    if not some:
        return Moments(nan=nan, infinite=infinite)
    count = sum(part.count for part in some)
    centre = some[0].centre
    offsets = [(part.centre - centre) + part.offset for part in some]
    offset = _sum(part.count * away for part, away in zip(some, offsets, strict=True)) / count
    between = [part.count * (away - offset) * (away - offset) for part, away in zip(some, offsets, strict=True)]
    return Moments(
        count,
        nan,
        infinite,
        sum(part.zeros for part in some),
        min(part.low for part in some),
        max(part.high for part in some),
        _sum(x for part in some for x in (part.total, part.lost)),
        0.0,
        _sum(part.magnitude for part in some),
        _sum([*(part.squares for part in some), *between]),
        centre,
        offset,
    )


def _sum(values: Iterable[float]) -> float:
    """The sum, rounded once; infinite when it is too large."""
    every = list(values)
    try:
        return math.fsum(every)
    except (OverflowError, ValueError):
        return sum(every)


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
