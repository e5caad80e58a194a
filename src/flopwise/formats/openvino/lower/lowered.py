"""A layer as an operator of the house."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from flopwise.formats.openvino.decode import Layer
from flopwise.graph import Layout, Shape
from flopwise.operators import shape
from flopwise.operators.shape import Element, ShapeRule, ValueRule

#: Another shape under which the operator of the house sees the same tensor.
View = Callable[[Shape], Shape]


class Application(NamedTuple):
    """A layer with what is known of its inputs."""

    layer: Layer
    #: The elements of an input that is stored and small; None for any other.
    elements: Callable[[int], tuple[Element, ...] | None]

    @property
    def version(self) -> int:
        """Number of its operator set; 0 for one that has none."""
        digits = self.layer.version.removeprefix("opset")
        return int(digits) if digits.isdecimal() and len(digits) < 4 else 0

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return len(self.layer.inputs)

    def shape(self, place: int) -> tuple[int | None, ...]:
        """The extents that the file states of an input, None for open ones; () where it states none."""
        return tuple(self.layer.inputs[place].dims) if place < self.inputs else ()

    def text(self, name: str, default: str = "") -> str:
        """An attribute in lower case."""
        return self.layer.data.get(name, default).lower()

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute that is true or false."""
        said = self.text(name)
        return said in ("true", "1") if said else default

    def number(self, name: str, default: int = 0) -> int:
        """An attribute that is a whole number.

        Raises:
            ValueError: it is none.
        """
        said = self.text(name)
        return int(float(said)) if said else default

    def real(self, name: str, default: float = 0.0) -> float:
        """An attribute that is a number.

        Raises:
            ValueError: it is none.
        """
        return float(self.text(name) or default)

    def ints(self, name: str) -> tuple[int, ...]:
        """An attribute that is a list of whole numbers; () where it is left out.

        Raises:
            ValueError: it is none.
        """
        said = self.layer.data.get(name, "").strip()
        return tuple([int(part) for part in said.split(",")]) if said else ()


class Lowered(NamedTuple):
    """The operator of the house."""

    op: str
    #: Places among the layer's inputs in the order of the house's signature; -1 for one that is left out. None: all.
    inputs: tuple[int, ...] | None = None
    attrs: Mapping[str, object] = {}
    #: The rule of its results' shapes where it is not that of the house's row: settings come in another way.
    shape: ShapeRule | None = None
    #: That of their elements, where the rule for shapes is one of these.
    value: ValueRule | None = None
    #: The order of axes in which the operator of the house sees its inputs.
    layout: Layout | None = None
    #: Input -> the shape under which the operator of the house sees it.
    views: Mapping[int, View] = {}
    #: How many of the inputs the graph shows; those behind are settings of shapes. None: all.
    shows: int | None = None


#: How a layer is lowered.
Rule = Callable[[Application], Lowered]

#: The shape is the one that the file states: a setting is not at hand.
AS_STATED: ShapeRule = shape.by("openvino:as_stated")


def same(op: str, **attrs: object) -> Rule:
    """The rule for a layer that takes what the operator of the house takes."""
    lowered = Lowered(op, attrs=attrs)
    return lambda application: lowered


def own(name: str, inputs: tuple[int, ...] | None = None, **attrs: object) -> Rule:
    """The rule for a layer that has a row of its own."""
    lowered = Lowered(f"openvino::{name}", inputs, attrs)
    return lambda application: lowered


def axes_of(application: Application, place: int) -> tuple[int, ...] | None:
    """The whole numbers in an input; None where they are not at hand."""
    elements = application.elements(place) if place < application.inputs else None
    if elements is None or not all(isinstance(element, int) for element in elements):
        return None
    return elements


def axis_of(application: Application, place: int) -> int | None:
    """The whole number in an input; None where it is not at hand."""
    axes = axes_of(application, place)
    return axes[0] if axes is not None and len(axes) == 1 else None


def joined(*axes: Sequence[int]) -> View:
    """The view in which axes that lie next to each other are one; each group names the axes of one extent."""

    def view(shape: Shape) -> Shape:
        made: list[int] = []
        for group in axes:
            extent: int = 1
            for axis in group:
                extent = extent * shape[axis]
            made.append(extent)
        return (*made, *shape[sum(map(len, axes)) :])

    return view


def batched(shape: Shape) -> Shape:
    """With an axis of one in front."""
    return (1, *shape)
