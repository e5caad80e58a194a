"""Functions of the symbols that answer only where the formulas hold."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from flopwise.errors import InputError

#: Where a value at the largest sizes is larger, Python's integers are counted with: 64 bits may be too few.
LARGE = 1 << 52


def checked(
    function: Callable[..., Any], holds: Callable[..., Any], point: Callable[[Mapping[str, int]], Mapping[str, int]]
) -> Callable[..., Any]:
    """The function, which refuses sizes at which it is not right.

    Args:
        function: takes whole numbers, or arrays of them.
        holds: whether it is right at these.
        point: raises InputError, which names the condition, where it is not.
    """
    signature = inspect.signature(function)

    def answer(*sizes: Any, **named: Any) -> Any:
        try:
            by_name = dict(signature.bind(*sizes, **named).arguments)
        except TypeError as error:
            raise InputError(f"sizes of {', '.join(signature.parameters)} are needed: {error}") from None
        if not any(getattr(size, "ndim", 0) or isinstance(size, list | tuple) for size in by_name.values()):
            plain = {name: _whole(name, size) for name, size in by_name.items()}
            point(plain)
            return function(**plain)
        return _of_arrays(function, holds, point, by_name)

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
    function: Callable[..., Any],
    holds: Callable[..., Any],
    point: Callable[[Mapping[str, int]], Mapping[str, int]],
    sizes: Mapping[str, Any],
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
    short = max(largest.values()) < LARGE and abs(function(**largest)) < LARGE
    spread = {name: array.astype("i8" if short else object) for name, array in spread.items()}
    right = numpy.broadcast_to(numpy.asarray(holds(**spread), dtype=bool), shape)
    for place in numpy.argwhere(~right)[:1]:
        point({name: _whole(name, array[tuple(place)]) for name, array in spread.items()})
    return numpy.broadcast_to(numpy.asarray(function(**spread)), shape).copy()
