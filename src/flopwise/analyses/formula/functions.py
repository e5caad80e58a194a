"""Functions of the symbols that answer only where the formulas hold."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flopwise.errors import InputError

#: Where a value at the largest sizes is larger, Python's integers are counted with: 64 bits may be too few.
LARGE = 1 << 52


#: A function of the symbols, and whether it is right at these.
Piece = tuple[Callable[..., Any], Callable[..., Any]]


def checked(pieces: Sequence[Piece], point: Callable[[Mapping[str, int]], Mapping[str, int]]) -> Callable[..., Any]:
    """The function in pieces as one, which refuses sizes at which none of them is right.

    Args:
        pieces: they take whole numbers, or arrays of them.
        point: raises InputError, which names the condition, where none is right.
    """
    function = pieces[0][0]
    signature = inspect.signature(function)

    def answer(*sizes: Any, **named: Any) -> Any:
        try:
            by_name = dict(signature.bind(*sizes, **named).arguments)
        except TypeError as error:
            raise InputError(f"sizes of {', '.join(signature.parameters)} are needed: {error}") from None
        if not any(getattr(size, "ndim", 0) or isinstance(size, list | tuple) for size in by_name.values()):
            plain = {name: _whole(name, size) for name, size in by_name.items()}
            for piece, holds in pieces:
                if holds(**plain):
                    return piece(**plain)
            point(plain)
            return function(**plain)
        return _of_arrays(pieces, point, by_name)

    answer.__name__ = answer.__qualname__ = function.__name__
    answer.__doc__ = function.__doc__
    answer.__signature__ = signature  # type: ignore[attr-defined]
    return answer


def _whole(name: str, size: Any) -> int:
    try:
        return operator.index(size)
    except TypeError:
        raise InputError(f"{name} = {size} is not a whole number") from None


def _of_arrays(
    pieces: Sequence[Piece], point: Callable[[Mapping[str, int]], Mapping[str, int]], sizes: Mapping[str, Any]
) -> Any:
    import numpy

    arrays = {name: numpy.asarray(size) for name, size in sizes.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "iuO":
            raise InputError(f"{name} has elements of type {array.dtype}, which are not whole numbers")
    spread = dict(zip(arrays, numpy.broadcast_arrays(*arrays.values()), strict=True))
    shape = next(iter(spread.values())).shape
    if not math.prod(shape):
        return numpy.zeros(shape, dtype="i8")
    largest = {name: max(_whole(name, array.max()), 1) for name, array in spread.items()}
    short = max(largest.values()) < LARGE and all(abs(piece(**largest)) < LARGE for piece, _ in pieces)
    kind = "i8" if short else object
    left = {name: array.astype(kind).ravel() for name, array in spread.items()}
    values, open_places = numpy.zeros(math.prod(shape), kind), numpy.arange(math.prod(shape))
    for piece, holds in pieces:
        right = numpy.broadcast_to(numpy.asarray(holds(**left), dtype=bool), open_places.shape)
        values[open_places[right]] = piece(**{name: array[right] for name, array in left.items()})
        open_places, left = open_places[~right], {name: array[~right] for name, array in left.items()}
        if not len(open_places):
            return values.reshape(shape)
    first = {name: _whole(name, array[0]) for name, array in left.items()}
    point(first)
    raise InputError(f"no formula holds at {', '.join(f'{n} = {s}' for n, s in first.items())}")
