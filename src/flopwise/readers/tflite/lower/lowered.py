"""An operator of the file as one of the house."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flopwise.graph import Layout
from flopwise.operators.shape import Element, ShapeRule, ValueRule
from flopwise.readers.tflite.file.model import Operator, Tensor

#: Axes of an image, of a convolution's weights and of those of a depthwise one in the order of the house.
CHANNELS_FIRST = (0, 3, 1, 2)
CHANNELS_FIRST_3D = (0, 4, 1, 2, 3)
OUTPUTS_FIRST = (0, 3, 1, 2)
LAST_AXIS_FIRST = (3, 0, 1, 2)


class Application(NamedTuple):
    """An operator of the file with its tensors."""

    operator: Operator
    #: None for one that is left out.
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor | None, ...]
    #: The elements of an input that is stored and small; None for any other.
    elements: Callable[[int], tuple[Element, ...] | None]

    @property
    def options(self) -> Mapping[str, Any]:
        """The options by name."""
        return self.operator.options

    def shape(self, place: int) -> tuple[int, ...]:
        """The shape that the file states of an input; () where there is none."""
        tensor = self.inputs[place] if place < len(self.inputs) else None
        return () if tensor is None else tensor.shape


class Lowered(NamedTuple):
    """The operator of the house."""

    op: str
    #: Places among the file's inputs in the order of the house's signature; -1 for one that is left out. None: all.
    inputs: tuple[int, ...] | None = None
    attrs: Mapping[str, Any] = {}
    layout: Layout | None = None
    #: The rule of its results' shapes where it is not that of the house's row: settings come in another way.
    shape: ShapeRule | None = None
    #: That of their elements, where the rule for shapes is one of these.
    value: ValueRule | None = None
    #: Whether the file's inputs are those of its rule for shapes, and not those that ``inputs`` says.
    as_in_file: bool = False


#: How an operator is lowered.
Rule = Callable[[Application], Lowered]


def same(op: str, **attrs: object) -> Rule:
    """The rule for an operator that takes what the house's takes."""
    lowered = Lowered(op, attrs=attrs)
    return lambda application: lowered


def fixed(lowered: Lowered) -> Rule:
    """The rule for an operator that is always the same."""
    return lambda application: lowered
