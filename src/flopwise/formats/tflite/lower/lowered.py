"""An operator of TensorFlow Lite with its tensors, and the kinds of rules that lower it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flopwise.operators.shape import Element
from flopwise.readers.subgraphs.lowered import Lowered
from flopwise.readers.subgraphs.tensors import Operator, Tensor

#: Axes of a convolution's weights and of those of a depthwise one in the order of the house.
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


#: How an operator is lowered.
Rule = Callable[[Application], Lowered]


def same(op: str, **attrs: object) -> Rule:
    """The rule for an operator that takes what the house's takes."""
    lowered = Lowered(op, attrs=attrs)
    return lambda application: lowered


def fixed(lowered: Lowered) -> Rule:
    """The rule for an operator that is always the same."""
    return lambda application: lowered
