"""The arguments of PyTorch's operators as the rules of their shapes take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flopwise.operators.size import Dims, UnresolvedError, axis_of

Shapes = list[Dims]


class Of:
    """A tensor among the arguments: its shape, and whether its elements are flags."""

    __slots__ = ("flags", "shape")

    def __init__(self, shape: Dims | None, flags: bool = False) -> None:
        if shape is None:
            raise UnresolvedError
        self.shape = shape
        self.flags = flags


def sizes_of(sizes: Sequence[object]) -> list[int]:
    """Sizes that were passed one by one, or as one sequence."""
    sequence = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    return list(sequence)


def axes_of(dims: Any, rank: int) -> list[int]:
    named = dims if isinstance(dims, (tuple, list)) else [dims]
    return [axis_of(d, rank) for d in named]
