"""A stored weight seen as matrices: rows are outputs, columns are what an output sums over (the reduction).

The elements of a tensor come in the order of storage, a unit (one index of the first axis) after the other. A view
says how units become lines of a matrix without the matrix ever being whole in memory, and a zero point which elements
are zero: 0, or the zero point of a quantised tensor. Elements that are packed, several to a byte, are unpacked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from flopwise.graph import Node, StoredTensor
from flopwise.graph.stored import Array

if TYPE_CHECKING:
    from flopwise.graph.stored import Stored


@dataclass(frozen=True, slots=True)
class View:
    """The matrices of a stored tensor, in the order of its elements."""

    #: How many matrices there are (experts, directions), one after the other.
    matrices: int
    #: Units of a matrix, and elements of a unit.
    units: int
    unit: int
    #: Of a unit: the extent of the tensor's second axis, and the elements behind each of its indices.
    second: int
    #: Whether units run along the reduction; else along the outputs.
    flipped: bool = False
    #: How the elements of a unit lie: "line", one line of the matrix as it is; "turned", one line with the kernel
    #: positions before the channels; "split", as many lines as there are kernel positions.
    layout: str = "line"
    #: Equal parts of the units of a matrix that have inputs of their own (groups of a convolution).
    sections: int = 1

    @property
    def inner(self) -> int:
        """Elements behind an index of the second axis."""
        return self.unit // self.second if self.second else 0

    @property
    def lines_of_unit(self) -> int:
        """Lines of the matrix that a unit makes."""
        return self.inner if self.layout == "split" else 1

    @property
    def width(self) -> int:
        """Elements of a line."""
        return self.second if self.layout == "split" else self.unit

    @property
    def lines(self) -> int:
        """Lines of a matrix."""
        return self.units * self.lines_of_unit

    @property
    def rows(self) -> int:
        """Outputs of a matrix."""
        return self.width if self.flipped else self.lines

    @property
    def columns(self) -> int:
        """Extent of the reduction of a matrix."""
        return self.lines if self.flipped else self.width

    def arrange(self, band: Array) -> Array:
        """Elements of some units, one after the other -> their lines: (lines, width)."""
        if self.layout == "line":
            return band.reshape(-1, self.unit)
        turned = band.reshape(-1, self.second, self.inner).transpose(0, 2, 1)
        lines: Array = turned.reshape(-1, self.width)
        return lines


def as_stored(shape: tuple[int, ...], order: str = "stored", groups: int = 1) -> View:
    """The first axis is the output, all others are the reduction: Conv (M, C/g·kh·kw), a linear layer (out, in).

    A vector is one row.
    """
    if len(shape) < 2:
        return View(1, math.prod(shape), 1, 1, flipped=True)
    unit = math.prod(shape[1:])
    turned = order == "channels-last" and unit != shape[1]
    return View(1, shape[0], unit, shape[1], layout="turned" if turned else "line", sections=groups)


def stacked(shape: tuple[int, ...]) -> View:
    """The last two axes are output and reduction, those before them count matrices: experts, directions (D, 4H, I)."""
    return View(math.prod(shape[:-2]), shape[-2], shape[-1], shape[-1])


def transposed(shape: tuple[int, ...]) -> View:
    """The last two axes are reduction and output, those before them count matrices: MatMul (K, N)."""
    return View(math.prod(shape[:-2]), shape[-2], shape[-1], shape[-1], flipped=True)


def conv_transpose(shape: tuple[int, ...], groups: int = 1) -> View:
    """ConvTranspose (C, M/g, kh, kw): for each group a matrix (M/g, C/g·kh·kw), in the order of storage."""
    unit = math.prod(shape[1:])
    layout = "split" if unit != shape[1] else "line"
    return View(groups, shape[0] // groups, unit, shape[1], flipped=True, layout=layout)


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
        """True where there is a value for each element of a tensor."""
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

    def values_between(self, shape: tuple[int, ...], start: int, stop: int) -> object:
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


def zero_flags(elements: Array, bits: bool, zero: ZeroPoint, shape: tuple[int, ...], start: int) -> Array:
    """1 (uint8) for each element that is zero; −0.0 is, NaN is not.

    Args:
        elements: some of a tensor's elements in the order of storage.
        bits: whether they are 16-bit floats of which the bits are given (uint16).
        zero: what stands for zero.
        shape: the tensor's.
        start: place of the first of the elements.
    """
    if bits:
        flags: Array = ((elements & numpy.uint16(0x7FFF)) == 0).view(numpy.uint8)
        return flags
    value = zero.one
    if value is None:
        flags = elements == zero.values_between(shape, start, start + elements.size)
    elif elements.dtype == bool:
        flags = ~elements
    else:
        flags = elements == value
    return numpy.ascontiguousarray(flags).view(numpy.uint8)


@dataclass(frozen=True, slots=True)
class Bits:
    """The packing of a weight of N × K elements: rows of whole blocks, of which the last may reach beyond K.

    The first element of a byte is in its lowest bits, and each block has a zero point:
    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits
    """

    n: int
    k: int
    bits: int
    block: int

    @classmethod
    def from_node(cls, node: Node, shape: tuple[int, ...]) -> Bits | None:
        """The packing of a node's weight; None where the shape is another, or elements cross bytes."""
        try:
            n, k, block = (int(node.attrs[name]) for name in ("N", "K", "block_size"))
            bits = int(node.attrs.get("bits", 4))
        except (KeyError, TypeError, ValueError):
            return None
        if min(n, k, block) < 1 or bits not in (1, 2, 4, 8) or block * bits % 8:
            return None
        layout = cls(n, k, bits, block)
        return layout if shape in ((n, layout.blocks, block * bits // 8), (n, layout.row)) else None

    @property
    def blocks(self) -> int:
        """Blocks in a row."""
        return -(-self.k // self.block)

    @property
    def row(self) -> int:
        """Bytes of a row."""
        return self.blocks * self.block * self.bits // 8

    def unpacked(self, packed: Array) -> Array:
        """Bytes -> elements: (...) uint8 -> (..., elements of all bytes)."""
        if self.bits == 8:
            return packed
        shifts = numpy.arange(0, 8, self.bits, dtype=numpy.uint8)
        parts = (packed[..., None] >> shifts) & numpy.uint8((1 << self.bits) - 1)
        elements: Array = parts.reshape(*packed.shape[:-1], -1)
        return elements

    def zero_point(self, points: StoredTensor | None) -> ZeroPoint | None:
        """The zero points; the middle of the range where none are given, None where they are not integers."""
        if points is None:
            return ZeroPoint(1 << (self.bits - 1))
        values = points.array()
        if values.dtype != numpy.uint8 or values.size != self.n * -(-self.blocks * self.bits // 8):
            return None
        each = self.unpacked(values.reshape(self.n, -1))[:, : self.blocks]
        return ZeroPoint(each.astype(numpy.int64), 1, self.block)


class Unpacked:
    """The elements of a packed weight, N × K, as if each had been stored by itself."""

    def __init__(self, stored: Stored, packing: Bits) -> None:
        self.stored, self.packing = stored, packing
        self.name, self.shape, self.dtype = stored.name, (packing.n, packing.k), f"uint{packing.bits}"

    def blocks(self, elements: int = 1 << 18) -> Iterator[Array]:
        """Some rows at a time."""
        row, k = self.packing.row, self.packing.k
        pending = numpy.empty(0, numpy.uint8)
        for piece in self.stored.blocks(max(elements * self.packing.bits // 8, row)):
            pending = numpy.concatenate([pending, piece]) if pending.size else piece
            rows_ready = pending.size // row
            if rows_ready:
                rows = self.packing.unpacked(pending[: rows_ready * row].reshape(rows_ready, row))
                yield numpy.ascontiguousarray(rows[:, :k]).reshape(-1)
                pending = pending[rows_ready * row :]
        if pending.size:
            yield pending

    def raw(self) -> Array | None:
        """None: the elements do not lie in the file as they are."""
        return None
