"""Places of elements in a tensor whose elements lie one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flopwise.operators.shape import Element
from flopwise.operators.size import Dims, UnresolvedError, product


def strides(shape: Sequence[int]) -> list[int]:
    """Distance between neighbours along each axis, in elements.

    >>> strides((2, 3, 4))
    [12, 4, 1]
    """
    distances, step = [], 1
    for extent in reversed(shape):
        distances.append(step)
        step *= extent
    return distances[::-1]


def picked(shape: Sequence[int], indices: Sequence[Iterable[int]]) -> list[int]:
    """The places of the elements with these indices along each axis.

    >>> picked((2, 3), ([1], [0, 2]))
    [3, 5]
    """
    places = [0]
    for axis_indices, step in zip(map(list, indices), strides(shape), strict=True):
        places = [place + index * step for place in places for index in axis_indices]
    return places


def spread(elements: tuple[Element, ...], shape: Dims, target: Dims) -> tuple[Element, ...]:
    """Elements broadcast to a shape.

    >>> spread((1, 2), (2, 1), (2, 3))
    (1, 1, 1, 2, 2, 2)
    """
    if shape == target:
        return elements
    if len(elements) == 1:
        return elements * product(target)
    padded = (1,) * (len(target) - len(shape)) + shape
    indices = [range(n) if extent != 1 else [0] * n for n, extent in zip(target, padded, strict=True)]
    return tuple([elements[place] for place in picked(padded, indices)])


def number(element: Element) -> int:
    """An element as a plain whole number.

    Raises:
        UnresolvedError: it is none.
    """
    if type(element) is int:
        return element
    if type(element) is float and element.is_integer():
        return int(element)
    raise UnresolvedError
