"""One operator as the rules of propagation see it: the shapes and small values that flow in, with expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy

from flopwise.analyses.formula.dim import Dim, Ratio, require
from flopwise.graph import Node, Tensor

#: Extents, each an integer or a Dim.
Shape: TypeAlias = "tuple[int, ...]"

#: Elements of a small tensor: an array of objects, whose whole numbers may be Dims.
Value: TypeAlias = Any


def shape_of(
    tensor: Tensor, shapes: Mapping[str, Shape | None], changed: Mapping[tuple[str, tuple[int, ...]], Shape]
) -> Shape | None:
    """The shape of a tensor by its name, or, where a part of it has the name as well, by its name and extents."""
    shape = shapes.get(tensor.name, tensor.shape)
    if shape is None or tensor.shape is None or tuple(map(int, shape)) == tensor.shape:
        return shape
    return changed.get((tensor.name, tensor.shape))


class UnknownError(Exception):
    """What a rule needs is not known."""


@dataclass(frozen=True, slots=True)
class Site:
    """A node with what flows into it, None where nothing is known."""

    node: Node
    shapes: Sequence[Shape | None]
    values: Sequence[Value | None]
    #: The shape of each output at the hint.
    hints: Sequence[tuple[int, ...] | None]
    #: The elements of an output at the hint, by its place; None where nobody computed them.
    hint_value: Callable[[int], Value | None]

    def has(self, index: int) -> bool:
        """Whether there is such an input."""
        return self.node.has_input(index)

    def shape(self, index: int = 0) -> Shape:
        """The shape of an input.

        Raises:
            UnknownError: it is not known.
        """
        shape = self.shapes[index] if self.has(index) else None
        if shape is None:
            raise UnknownError
        return shape

    def value(self, index: int) -> Value:
        """The elements of an input.

        Raises:
            UnknownError: they are not known.
        """
        value = self.values[index] if self.has(index) else None
        if value is None:
            raise UnknownError
        return value

    def whole(self, index: int) -> list[int]:
        """The elements of an input as whole numbers, in one row.

        Raises:
            UnknownError: they are not known, or one is not a whole number.
        """
        return [whole(element) for element in self.value(index).ravel().tolist()]

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute of the node."""
        return self.node.attrs.get(name, default)

    def settings(self, name: str, index: int) -> list[int] | None:
        """Whole numbers that an attribute holds, or an input of newer versions; None where neither is there."""
        if self.attr(name) is not None:
            held = self.attr(name)
            return list(held) if isinstance(held, (list, tuple)) else [held]
        return self.whole(index) if self.has(index) else None


def whole(element: Any) -> int:
    """An element as a whole number.

    Raises:
        UnknownError: it is none.
    """
    if isinstance(element, Dim):
        return element
    if isinstance(element, (bool, int, numpy.integer, numpy.bool_)):
        return int(element)
    if type(element) is float and element.is_integer():
        return int(element)
    raise UnknownError


def settled(size: int) -> int:
    """A size as a plain number, which it must be for what follows: that it is its hint becomes a condition."""
    if type(size) is Dim:
        require(size - int(size), "==")
    return int(size)


def array(elements: Any) -> Value:
    """An array of objects with the given elements, which may be Dims."""
    if isinstance(elements, numpy.ndarray):
        return (
            elements
            if elements.dtype == object
            else numpy.array(elements.tolist(), dtype=object).reshape(elements.shape)
        )
    if isinstance(elements, (list, tuple)):
        made = numpy.empty(len(elements), dtype=object)
        made[:] = elements
        return made
    made = numpy.empty((), dtype=object)
    made[()] = elements
    return made


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front.

    Raises:
        UnknownError: there is no such axis.
    """
    if not -rank <= axis < rank:
        raise UnknownError
    return axis % rank


def agrees(value: Value, held: Any) -> bool:
    """Whether elements at the hint are those that were computed there."""
    held = numpy.asarray(held)
    if value.shape != held.shape:
        return False
    try:
        mine = numpy.array([float(x) for x in value.ravel().tolist()])
        return bool(numpy.allclose(mine, held.ravel().astype(float), rtol=1e-5, atol=1e-6, equal_nan=True))
    except (TypeError, ValueError):
        return False


def varies(shape: Shape | None) -> bool:
    """Whether a shape has an extent that is an expression, or is not known at all."""
    return shape is None or any(type(n) is Dim for n in shape)


def has_sizes(value: Value | None) -> bool:
    """Whether an element depends on the symbols."""
    return value is not None and any(type(x) in (Dim, Ratio) for x in value.ravel().tolist())
