"""The weight of MatMulNBits: several elements in a byte, the first in the lowest bits, and a zero point for each block.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from flopwise.analyses.sparsity.zeros import ZeroPoint
from flopwise.graph import Node, StoredTensor

if TYPE_CHECKING:
    from flopwise.graph.stored import Stored


@dataclass(frozen=True, slots=True)
class Bits:
    """How a weight of N × K elements is packed: rows of whole blocks, of which the last may reach beyond K."""

    n: int
    k: int
    bits: int
    block: int

    @classmethod
    def of(cls, node: Node, shape: tuple[int, ...]) -> Bits | None:
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

    def unpacked(self, packed: Any) -> Any:
        """Bytes -> elements: (...) uint8 -> (..., elements of all bytes)."""
        if self.bits == 8:
            return packed
        shifts = numpy.arange(0, 8, self.bits, dtype=numpy.uint8)
        parts = (packed[..., None] >> shifts) & numpy.uint8((1 << self.bits) - 1)
        return parts.reshape(*packed.shape[:-1], -1)

    def zero_point(self, points: StoredTensor | None) -> ZeroPoint | None:
        """The zero points; the middle of the range where none are given, None where they are not integers."""
        if points is None:
            return ZeroPoint(1 << (self.bits - 1))
        values = points.array()
        if values.dtype != numpy.uint8 or values.size != self.n * -(-self.blocks * self.bits // 8):
            return None
        each = self.unpacked(values.reshape(self.n, -1))[:, : self.blocks]
        return ZeroPoint(each.astype(numpy.int64), 1, self.block)


@dataclass(frozen=True, slots=True, eq=False)
class Unpacked:
    """The elements of a packed weight as if each had been stored by itself."""

    stored: Stored
    packing: Bits

    @property
    def name(self) -> str:
        """As in the file."""
        return self.stored.name

    @property
    def shape(self) -> tuple[int, ...]:
        """N × K."""
        return self.packing.n, self.packing.k

    @property
    def dtype(self) -> str:
        """The type of an element."""
        return f"uint{self.packing.bits}"

    def blocks(self, elements: int = 1 << 18) -> Iterator[Any]:
        """Some rows at a time."""
        row, k = self.packing.row, self.packing.k
        held = numpy.empty(0, numpy.uint8)
        for piece in self.stored.blocks(max(elements * self.packing.bits // 8, row)):
            held = numpy.concatenate([held, piece]) if held.size else piece
            whole = held.size // row
            if whole:
                rows = self.packing.unpacked(held[: whole * row].reshape(whole, row))
                yield numpy.ascontiguousarray(rows[:, :k]).reshape(-1)
                held = held[whole * row :]
        if held.size:
            yield held

    def raw(self) -> Any:
        """None: the elements do not lie in the file as they are."""
        return None
