"""Refusals that hold for every format: tensors that no memory holds, and loops that are not there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from flopwise.errors import InputError, ModelError

#: No tensor can have as many elements: its bytes could not be addressed.
TOO_MANY = 1 << 63


def elements(shape: Iterable[int]) -> int:
    """Number of elements, at most TOO_MANY: a file may claim so many dims that the product itself takes hours."""
    dims = list(shape)
    if len(dims) <= 8:
        return min(math.prod(dims), TOO_MANY)
    if 0 in dims:
        return 0
    product = 1
    for dim in dims:
        product *= dim
        if product >= TOO_MANY:
            return TOO_MANY
    return product


def refuse_huge(name: str, shape: tuple[int, ...] | None) -> None:
    """Refuse a tensor that no memory holds.

    Raises:
        ModelError: its elements are too many.
    """
    if shape is not None and elements(shape) >= TOO_MANY:
        listed = ", ".join(map(str, shape[:8])) + (", ..." if len(shape) > 8 else "")
        raise ModelError(f"tensor {name!r} of shape ({listed}) has more elements than any memory can hold")


def refuse_unknown_loops(trips: Mapping[str, int], loops: Iterable[str]) -> None:
    """Refuse names of loops that the model does not have.

    Args:
        trips: how often loops run, by name, as the user says.
        loops: the names of the model's loops, in order.

    Raises:
        InputError: there is no such loop, or a number of trips makes no sense.
    """
    known = dict.fromkeys(loops)
    for name, number in trips.items():
        if name not in known:
            listed = ", ".join(map(repr, known)) or "none"
            raise InputError(f"no loop is named {name!r}; the loops of the model are: {listed}")
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 1 << 63:
            raise InputError(f"loop {name!r} cannot run {number!r} times")
