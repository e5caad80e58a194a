"""Which elements are zero: the value that stands for zero is 0, or the zero point of a quantised tensor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy


@dataclass(frozen=True, slots=True)
class ZeroPoint:
    """Stored values that stand for zero: one for the tensor, or one for each index or block of an axis."""

    values: Any
    axis: int = 0
    #: Neighbours along the axis that share a value; 0: as many as the shapes say.
    block: int = 0

    @property
    def one(self) -> int | None:
        """The value if it is the same everywhere."""
        flat = numpy.asarray(self.values).reshape(-1)
        return int(flat[0]) if flat.size and bool((flat == flat[0]).all()) else None

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether there is a value for each element of a tensor."""
        values = numpy.asarray(self.values)
        if values.size == 1 or (values.size and self.one is not None):
            return True
        if values.ndim == 0 or not -len(shape) <= self.axis < len(shape):
            return False
        axis = self.axis % len(shape)
        if values.ndim == 1:
            return bool(values.size == shape[axis])
        if values.ndim != len(shape) or not values.size:
            return False
        others = all(v == s for i, (v, s) in enumerate(zip(values.shape, shape, strict=True)) if i != axis)
        return others and self._neighbours(shape, axis) * values.shape[axis] >= shape[axis]

    def _neighbours(self, shape: tuple[int, ...], axis: int) -> int:
        return self.block or -(-shape[axis] // numpy.asarray(self.values).shape[axis])

    def at(self, shape: tuple[int, ...], start: int, stop: int) -> Any:
        """The values for the elements from ``start`` to ``stop`` in the order of storage."""
        values = numpy.asarray(self.values)
        axis = self.axis % len(shape)
        inner = math.prod(shape[axis + 1 :])
        places = numpy.arange(start, stop) // inner
        if values.ndim == 1:
            return values[places % shape[axis]]
        along = (places % shape[axis]) // self._neighbours(shape, axis)
        outer = places // shape[axis]
        behind = numpy.arange(start, stop) % inner
        return values.reshape(-1)[(outer * values.shape[axis] + along) * inner + behind]


#: Zero is the value 0.
PLAIN = ZeroPoint(0)


def zero_flags(elements: Any, bits: bool, zero: ZeroPoint, shape: tuple[int, ...], start: int) -> Any:
    """1 (uint8) for each element that is zero; −0.0 is, NaN is not.

    Args:
        elements: some of a tensor's elements in the order of storage.
        bits: whether they are 16-bit floats of which the bits are given (uint16).
        zero: what stands for zero.
        shape: the tensor's.
        start: place of the first of the elements.
    """
    if bits:
        return ((elements & numpy.uint16(0x7FFF)) == 0).view(numpy.uint8)
    value = zero.one
    if value is None:
        flags = elements == zero.at(shape, start, start + elements.size)
    elif elements.dtype == bool:
        flags = ~elements
    else:
        flags = elements == value
    return numpy.ascontiguousarray(flags).view(numpy.uint8)
