"""Statistics of a part of the elements, merged exactly enough to be those of the whole."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

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
