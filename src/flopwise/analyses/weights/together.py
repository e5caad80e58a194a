"""Many small tensors of one size in one pass, as calls of numpy take longer than what they do with so few elements.

The figures are those of ``portable`` to the last bit: the same operations in the same order, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from flopwise.analyses.weights import engine
from flopwise.analyses.weights.portable import Moments
from flopwise.analyses.weights.result import Histogram
from flopwise.graph.stored import Array

T = TypeVar("T")

#: Rows of a table, and bins of a histogram with which as many edges take no more than 10 MB.
ROWS, MOST_BINS = 1 << 10, 1 << 10


def tables(items: Iterable[T], raw: Callable[[T], Array | None]) -> Iterator[tuple[list[T], Array]]:
    """Items whose elements are few, of one size and one type of float, with these elements, a row for each.

    Args:
        items: what has elements.
        raw: the elements, in one dimension; None where they are not at hand.
    """
    alike: dict[tuple[int, str], tuple[list[T], list[Any]]] = {}
    for item in items:
        elements = raw(item)
        if elements is None or not 0 < elements.size <= engine.SOME or elements.dtype.char not in "fd":
            continue
        ours, rows = alike.setdefault((elements.size, elements.dtype.char), ([], []))
        ours.append(item)
        rows.append(elements)
        if len(rows) == ROWS:
            yield ours, np.stack(rows)
            del alike[elements.size, elements.dtype.char]
    for ours, rows in alike.values():
        yield ours, np.stack(rows)


def scan(rows: Array) -> list[Moments | None]:
    """The statistics of each row; None for one with NaN or infinities."""
    low, high, count = rows.min(axis=1), rows.max(axis=1), rows.shape[1]
    finite = (np.isfinite(low) & np.isfinite(high)).tolist()
    zeros = np.count_nonzero(rows == 0, axis=1)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        wide = rows.astype(np.float64)
        total, magnitude = wide.sum(axis=1), np.abs(wide).sum(axis=1)
        centre = total / count
        wide -= centre[:, None]
        drift = wide.sum(axis=1)
        wide *= wide
        squares = wide.sum(axis=1) - drift * drift / count
    ends = low.astype(np.float64) + 0.0, high.astype(np.float64) + 0.0
    columns = [c.tolist() for c in (zeros, *ends, total, magnitude, squares, centre, drift / count)]
    return [
        Moments(count, 0, 0, nought, least, most, added, 0.0, absolute, square, middle, offset) if there else None
        for there, nought, least, most, added, absolute, square, middle, offset in zip(finite, *columns, strict=True)
    ]


def histograms(rows: Array, moments: Sequence[Moments], bins: int) -> list[Histogram | None]:
    """The histogram of each row; None where the edges have no usual distance."""
    low, high = (np.array([getattr(m, end) for m in moments]) for end in ("low", "high"))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        same = low == high
        low, high = np.where(same, low - 0.5, low), np.where(same, high + 0.5, high)
        step = (high - low) / bins
        usual = np.isfinite(high - low) & (step > 0)
        low, high, step = np.where(usual, (low, high, step), ((0.0,), (bins,), (1.0,)))
        rows = np.where(usual[:, None], rows, 0)
        edges = np.arange(bins + 1.0) * step[:, None] + low[:, None]
        edges[:, -1] = high
        place = (rows - low[:, None]) / step[:, None]
    row, last = np.arange(len(rows))[:, None], bins - 1
    place = np.clip(place, 0, last).astype(np.intp)
    while (above := (place > 0) & (edges[row, place] > rows)).any():
        place -= above
    while (below := (place < last) & (edges[row, place + 1] <= rows)).any():
        place += below
    counts = np.bincount((row * bins + place).ravel(), minlength=len(rows) * bins).reshape(len(rows), bins)
    pairs = zip(usual.tolist(), edges.tolist(), counts.tolist(), strict=True)
    return [Histogram(tuple(e), tuple(c)) if there else None for there, e, c in pairs]
