"""An operation of a MIL program with what is known of it, and what it is in the house."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from flopwise.graph import Layout, Shape
from flopwise.operators.shape import Element, ShapeRule, ValueRule

#: A stated extent; None where it is open.
Extents = tuple["int | None", ...]


class Typed(NamedTuple):
    """The type of a value: element type and extents, None where the file states none."""

    dtype: str | None
    dims: Extents | None


class Operation(NamedTuple):
    """An operation."""

    type: str
    #: Parameter -> the names of the values that are bound to it.
    bound: Mapping[str, tuple[str, ...]]
    #: The elements of a constant by its name; None for what is none, or large.
    elements: Callable[[str], tuple[Element, ...] | None]
    #: The types of values.
    types: Mapping[str, Typed]
    #: The types of its results.
    results: tuple[Typed, ...]

    def has(self, parameter: str) -> bool:
        """True if a parameter is given."""
        return parameter in self.bound

    def shape(self, parameter: str) -> Extents:
        """The stated extents of a parameter; () where none are stated."""
        names = self.bound.get(parameter)
        return self.types[names[0]].dims or () if names and names[0] in self.types else ()

    def constant(self, parameter: str) -> tuple[Element, ...] | None:
        """The elements of a constant parameter."""
        names = self.bound.get(parameter, ())
        return self.elements(names[0]) if len(names) == 1 else None

    def list(self, parameter: str, default: tuple[Element, ...] = ()) -> tuple[Element, ...]:
        """The elements of a parameter that has to be constant.

        Raises:
            ValueError: it is not.
        """
        if parameter not in self.bound:
            return default
        elements = self.constant(parameter)
        if elements is None:
            raise ValueError(f"{parameter} is no constant")
        return elements

    def one(self, parameter: str, default: Element) -> Element:
        """The one element of a parameter that has to be constant.

        Raises:
            ValueError: it is not, or of another type than the default.
        """
        elements = self.list(parameter, (default,))
        kinds = (int, float) if type(default) is float else (type(default),)
        if len(elements) != 1 or type(elements[0]) not in kinds:
            raise ValueError(f"{parameter} is {elements!r:.40}")
        return elements[0]


class Lowered(NamedTuple):
    """The operator of the house."""

    op: str
    #: Parameters in the order of the house's signature, "" for one that is left out; None: all of them.
    inputs: tuple[str, ...] | None = None
    attrs: Mapping[str, object] = {}
    #: The rule of its results' shapes where it is not that of the house's row: settings come in another way.
    shape: ShapeRule | None = None
    #: That of their elements, where the rule for shapes is one of these.
    value: ValueRule | None = None
    #: The order of axes in which the operator of the house sees its inputs.
    layout: Layout | None = None
    #: Input -> the shape under which the operator of the house sees it.
    views: Mapping[int, Callable[[Shape], Shape]] = {}
    #: How many of the inputs the graph shows; those behind are settings of shapes. None: all.
    shows: int | None = None


#: How an operation is lowered.
Rule = Callable[[Operation], Lowered]
