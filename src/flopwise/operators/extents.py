"""Extents that rules share: products, broadcasting, and the extent of one axis with an error that names the node.

Extents may be symbols, so nothing here compares them except for being structurally equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, cast

from flopwise.errors import ShapeError
from flopwise.graph import Dim, Node, Shape, Tensor


def product(dims: Iterable[Dim]) -> int:
    """The product of extents (1 for none).

    >>> product((2, 3))
    6
    """
    return cast(int, math.prod(dims))


def extent(node: Node, tensor: Tensor, axis: int) -> int:
    """The extent of one axis of one of the node's tensors; a negative axis counts from the end.

    Raises:
        ShapeError: the shape is unresolved or has no such axis.
    """
    dims = tensor.dims
    if not -len(dims) <= axis < len(dims):
        raise ShapeError(f"{node.op} {node.name!r}: {tensor.name!r} of shape {dims} has no axis {axis}")
    return cast(int, dims[axis])


def broadcast(*shapes: Shape) -> Shape:
    """The common shape, aligned at the last axis; where extents differ, the one that is not 1.

    >>> broadcast((8, 1, 3), (5, 1))
    (8, 5, 3)
    """
    rank = max((len(s) for s in shapes), default=0)
    common: list[Dim] = [1] * rank
    for shape in shapes:
        for axis, dim in enumerate(shape, start=rank - len(shape)):
            present = common[axis]
            if type(present) is not int:
                common[axis] = wider(present, dim)
            elif present == 1:
                common[axis] = dim
    return tuple(common)


def wider(one: Dim, other: Dim) -> Dim:
    """The common extent of two that are broadcast: the one that is not 1."""
    if one is other or (type(other) is int and other == 1):
        return one
    if type(one) is int:
        return other if one == 1 else one
    return one if one == other or one != 1 else other  # sizes with expressions: equal ones ask nothing of them


def common_divisor(one: int, other: int) -> int:
    """The greatest common divisor of two extents, as an expression where one carries one."""
    for extent, divisor in ((one, other), (other, one)):
        if type(extent) is not int and hasattr(extent, "common_divisor"):
            return cast(int, extent.common_divisor(divisor))
    return math.gcd(one, other)


def required(node: Node, name: str) -> Any:
    """An attribute without which the operator means nothing.

    Raises:
        ShapeError: the node does not have it.
    """
    if name not in node.attrs:
        raise ShapeError(f"{node.op} {node.name!r} has no attribute {name!r}, which its count needs")
    return node.attrs[name]


def integer(node: Node, name: str, default: int | None = None) -> int:
    """An attribute that counts something; what comes from a file may be of any type, and a list times a number is long.

    Raises:
        ShapeError: it is not a whole number, or missing where there is no default.
    """
    value = required(node, name) if default is None else node.attrs.get(name, default)
    if not isinstance(value, int):
        raise ShapeError(f"{node.op} {node.name!r}: the attribute {name!r} is not a whole number")
    return value


def integers(node: Node, name: str) -> list[int]:
    """An attribute that is a list of whole numbers.

    Raises:
        ShapeError: it is missing or something else.
    """
    values = required(node, name)
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, int) for value in values):
        raise ShapeError(f"{node.op} {node.name!r}: the attribute {name!r} is not a list of whole numbers")
    return list(values)
