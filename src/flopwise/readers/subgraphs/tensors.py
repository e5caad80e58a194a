"""The tensors and operators of a file, and where their bytes lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Extent(NamedTuple):
    """Bytes of the file, from one place to another."""

    start: int
    end: int


class Quantization(NamedTuple):
    """Scales and zero points by which a tensor stands for real numbers: scale × (element − zero point)."""

    #: Where the scales lie, how many there are (one, or one for each index along ``axis``), and the first of them.
    scales: Extent
    number: int
    scale: float
    #: Zero points; where they lie.
    zero_points: tuple[int, ...]
    zeros: Extent
    axis: int

    @property
    def shifted(self) -> bool:
        """True where a zero point is not 0."""
        return any(self.zero_points)


class Level(NamedTuple):
    """One level of a sparse tensor: a dense axis, or one of which the indices are listed."""

    #: The extent of a dense axis; -1 where the indices are listed.
    size: int
    segments: tuple[int, ...] = ()
    indices: tuple[int, ...] = ()


class Sparsity(NamedTuple):
    """The order in which a sparse tensor is stored: axes first, then those of blocks."""

    order: tuple[int, ...]
    #: The axes that blocks are cut from.
    blocks: tuple[int, ...]
    levels: tuple[Level, ...]


class Tensor(NamedTuple):
    """A tensor of a subgraph."""

    name: str
    shape: tuple[int, ...]
    #: The same with -1 for each extent that a caller chooses, or the data decide.
    signature: tuple[int, ...]
    dtype: str
    #: Where its elements lie; None for a tensor without any in the file.
    data: Extent | None
    quantization: Quantization | None
    #: Whether it keeps its elements from one call to the next.
    variable: bool
    sparsity: Sparsity | None

    @property
    def dynamic(self) -> bool:
        """True where an extent is left open."""
        return -1 in self.signature


class Operator(NamedTuple):
    """One operator of a subgraph."""

    #: The builtin operator's name, or CUSTOM.
    op: str
    #: The name of a custom operator.
    custom: str
    #: Positions in the subgraph's tensors; -1 for one that is left out.
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any]
