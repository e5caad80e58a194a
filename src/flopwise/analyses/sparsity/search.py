"""The search for blocks: how far zeros come in rows, columns or squares of 2, 4, 8 ... along a tensor's first two axes.

The rule and its thresholds are those of onnx-tool 1.0.1 (``onnx_tool/tensor.py``, ``search_sparse_blocksize``): a size
is taken while the share of zero blocks stays above the share of zeros less a tolerance. Kernel positions stay apart,
sizes divide the axis, and a square is tried last. Counts of all sizes come from one pass: blocks of a size are pairs of
blocks of half the size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy

from flopwise.analyses.sparsity.bands import together
from flopwise.analyses.sparsity.views import View
from flopwise.graph.stored import Array


class FoundBlock(NamedTuple):
    """The block that the search ends with: extents along the axes as they are stored, and the share of zero blocks."""

    first: int
    second: int
    ratio: float


class Part(NamedTuple):
    """The share of a band: zero blocks by size (position i: 2ⁱ⁺¹), and its lines for the sizes that reach beyond it."""

    columns: list[int]
    rows: list[int]
    squares: list[int]
    rows_left: Any
    squares_left: Any


def halvings(number: int) -> int:
    """The exponent of 2 in a number; 0 for 0."""
    return (number & -number).bit_length() - 1 if number else 0


def part(band: Array, view: View, inside: int) -> Part:
    """The zero blocks of a band of units as they are stored.

    Args:
        band: 0 and 1 (uint8) for each element, 1 for a zero: (units, elements of a unit).
        view: the tensor's.
        inside: sizes along the first axis up to 2 to the power of this stay within bands.
    """
    deep = halvings(view.second)

    def columns_joined(flags: Array, level: int) -> Array:
        return _pair_columns(flags, view.second >> level, view.inner)

    columns, _ = _halved(band, deep, columns_joined)
    rows, lines = _halved(band, inside, lambda flags, level: together(flags, 2, 0))
    both = min(inside, deep)
    squares, square = _halved(band, both, lambda flags, level: columns_joined(together(flags, 2, 0), level))
    return Part(columns, rows, squares, lines, square)


def _halved(band: Array, levels: int, join: Callable[[Any, int], Any]) -> tuple[list[int], object]:
    """Zero blocks of each size, until none are left, and the flags of the largest; None where there are none."""
    counts: list[int] = []
    for level in range(levels):
        band = join(band, level)
        counts.append(int(numpy.count_nonzero(band)))
        if not counts[-1]:
            return counts, None
    return counts, band if band.any() else None


def _pair_columns(band: Array, second: int, inner: int) -> Array:
    """1 where both of two neighbours along the second axis are 1: (lines, second · inner) -> (lines, half of it)."""
    if inner == 1:
        return together(band, 2, 1)
    pairs = band.reshape(band.shape[0], second // 2, 2, inner)
    return (pairs[:, :, 0] & pairs[:, :, 1]).reshape(band.shape[0], -1)


class Search:
    """The counts of all sizes, from parts in the order of storage."""

    def __init__(self, view: View, inside: int) -> None:
        self._view = view
        self._inside = inside
        across, along = halvings(view.units), halvings(view.second)
        self._columns = [0] * along
        self._rows = _Stack(across, inside, view, squares=False)
        self._squares = _Stack(min(across, along), min(inside, along), view, squares=True)

    def add(self, part: Part | None, units: int) -> None:
        """Take in the part of the next ``units`` units; None: they hold no zero."""
        part = part or Part([], [], [], None, None)
        for level, count in enumerate(part.columns):
            self._columns[level] += count
        self._rows.add(part.rows, part.rows_left, units >> self._rows.inside)
        self._squares.add(part.squares, part.squares_left, units >> self._squares.inside)

    def result(self, elements: int, zeros: int, tolerance: float) -> FoundBlock:
        """The block to report: the largest that holds along an axis, or the square of both."""
        ratio = zeros / elements
        least = ratio - tolerance
        along = [count * 2 ** (i + 1) / elements for i, count in enumerate(self._columns)]
        across = [count * 2 ** (i + 1) / elements for i, count in enumerate(self._rows.counts)]
        wide, high = _run(along, least), _run(across, least)
        if wide == high and wide:
            square = self._squares.counts[wide - 1] * 4**wide / elements
            if square > least:
                return FoundBlock(2**wide, 2**wide, square)
        best = FoundBlock(1, 1, ratio)
        if wide > high or (wide == high and wide and along[wide - 1] >= across[high - 1]):
            best = FoundBlock(1, 2**wide, along[wide - 1])
        elif high:
            best = FoundBlock(2**high, 1, across[high - 1])
        return best


def _run(ratios: list[float], least: float) -> int:
    """The number of sizes in a row, from the smallest, whose ratio is above the least."""
    return next((i for i, ratio in enumerate(ratios) if not ratio > least), len(ratios))


class _Stack:
    """Adds pairs of lines up to pairs of pairs, as a binary counter carries; at most one line of each size waits."""

    def __init__(self, levels: int, inside: int, view: View, squares: bool) -> None:
        self.counts = [0] * levels
        self.inside = min(inside, levels)
        self._view = view
        self._squares = squares
        #: For each size: "" when none waits; None for a line without zeros.
        self._waiting: list[Any] = [""] * (levels + 1)

    def add(self, counts: Sequence[int], lines: Array, how_many: int) -> None:
        for level, count in enumerate(counts):
            self.counts[level] += count
        if self.inside == len(self.counts):
            return
        for i in range(how_many):
            self._carry(None if lines is None else lines[i : i + 1])

    def _carry(self, line: Any) -> None:
        """Join a line of blocks with the one that waits for it, size by size, as a binary counter carries."""
        level = self.inside
        while level < len(self.counts):
            if isinstance(self._waiting[level], str):
                self._waiting[level] = line
                return
            line, self._waiting[level] = self._both(self._waiting[level], line, level), ""
            if line is not None:
                self.counts[level] += int(numpy.count_nonzero(line))
            level += 1

    def _both(self, one: object, other: Any, level: int) -> object:
        """The zero blocks of twice the size that two neighbouring lines make; None where there are none."""
        if one is None or other is None:
            return None
        both = one & other
        if self._squares:
            both = _pair_columns(both, self._view.second >> level, self._view.inner)
        return both if both.any() else None
