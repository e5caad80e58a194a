"""Counting in a band of lines of a matrix: zero blocks, N:M groups, lines of zeros.

A band is an array of 0 and 1 (uint8), 1 where an element is zero; its first axis runs along the stream.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

from flopwise.graph.stored import Array

#: Length of a group -> the unsigned integer that holds it, one byte for each element.
_WORDS = {2: numpy.uint16, 4: numpy.uint32, 8: numpy.uint64}

#: Longer groups are summed along an axis of their own, shorter ones slice by slice.
_SLICES = 32


class Zero(NamedTuple):
    """Zero blocks of a band, and the elements in them."""

    blocks: int
    elements: int


def zero_blocks(band: Array, high: int, wide: int) -> Zero:
    """The blocks of ``high`` lines × ``wide`` elements that are zero; blocks at the edges have what is there."""
    flags = together(together(band, high, 0), wide, 1)
    whole_lines, whole_columns = band.shape[0] // high, band.shape[1] // wide
    below, beside = band.shape[0] % high, band.shape[1] % wide
    inside = int(numpy.count_nonzero(flags[:whole_lines, :whole_columns]))
    right = int(numpy.count_nonzero(flags[:whole_lines, whole_columns:])) if beside else 0
    bottom = int(numpy.count_nonzero(flags[whole_lines:, :whole_columns])) if below else 0
    corner = int(numpy.count_nonzero(flags[whole_lines:, whole_columns:])) if below and beside else 0
    elements = inside * high * wide + right * high * beside + bottom * below * wide + corner * below * beside
    return Zero(inside + right + bottom + corner, elements)


def together(band: Array, size: int, axis: int) -> Array:
    """1 where all of ``size`` neighbours along an axis are 1; the last group may be smaller."""
    if size == 1:
        return band
    groups_inside, remainder = divmod(band.shape[axis], size)
    if not groups_inside:
        return band.min(axis=axis, keepdims=True) if remainder else band
    if axis == 0:
        groups = band[: groups_inside * size].reshape(groups_inside, size, band.shape[1])
        both = groups[:, 0] & groups[:, 1]
        for i in range(2, size):
            both &= groups[:, i]
    else:
        both = _in_lines(band[:, : groups_inside * size], size)
    if not remainder:
        return both
    last = band[groups_inside * size :] if axis == 0 else band[:, groups_inside * size :]
    return numpy.concatenate([both, last.min(axis=axis, keepdims=True)], axis=axis)


def _in_lines(band: Array, size: int) -> Any:
    """1 where all of a group in a line are 1; the lines hold whole groups."""
    word = _WORDS.get(size)
    if word is not None and band.flags.c_contiguous:
        ones = numpy.frombuffer(bytes([1] * size), word)[0]
        return (band.view(word) == ones).view(numpy.uint8)
    groups = band.reshape(band.shape[0], -1, size)
    if size > _SLICES:
        return groups.min(axis=2)
    both = groups[:, :, 0] & groups[:, :, 1]
    for i in range(2, size):
        both &= groups[:, :, i]
    return both


def groups_held(band: Array, nonzero: int, size: int, axis: int) -> int:
    """The number of groups of ``size`` neighbours along an axis with at most ``nonzero`` elements other than zero.

    A smaller group at the end holds under the same condition.
    """
    groups_inside, remainder = divmod(band.shape[axis], size)
    holding = 0
    if groups_inside:
        inside = band[: groups_inside * size] if axis == 0 else band[:, : groups_inside * size]
        holding = int(numpy.count_nonzero(_sums(inside, size, axis) >= size - nonzero))
    if remainder:
        last = band[groups_inside * size :] if axis == 0 else band[:, groups_inside * size :]
        holding += int(numpy.count_nonzero(last.sum(axis=axis, dtype=numpy.int64) >= remainder - nonzero))
    return holding


def _sums(band: Array, size: int, axis: int) -> Any:
    """The number of ones in each group."""
    word = _WORDS.get(size)
    if axis == 1 and word is not None and band.flags.c_contiguous:
        ones = numpy.frombuffer(bytes([1] * size), word)[0]
        return (band.view(word) * ones) >> word(8 * (size - 1))  # the highest byte of the product is the sum of all
    groups = band.reshape(-1, size, band.shape[1]) if axis == 0 else band.reshape(band.shape[0], -1, size)
    if size > _SLICES:
        return groups.sum(axis=axis + 1, dtype=numpy.int64)
    slices = numpy.moveaxis(groups, axis + 1, 0)
    total = slices[0].copy()
    for part in slices[1:]:
        total += part
    return total
