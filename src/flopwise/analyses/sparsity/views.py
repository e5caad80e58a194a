"""A stored weight seen as matrices: rows are outputs, columns are what an output sums over (the reduction).

The elements of a tensor come in the order of storage, a unit (one index of the first axis) after the other. A view
says how units become lines of a matrix without the matrix ever being whole in memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class View:
    """How the stream of the elements of a stored tensor runs through its matrices."""

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

    def arrange(self, band: Any) -> Any:
        """Elements of some units, one after the other -> their lines: (lines, width)."""
        if self.layout == "line":
            return band.reshape(-1, self.unit)
        turned = band.reshape(-1, self.second, self.inner).transpose(0, 2, 1)
        return turned.reshape(-1, self.width)


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
