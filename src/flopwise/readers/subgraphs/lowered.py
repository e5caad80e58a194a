"""An operator of a file as one of the house."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from flopwise.graph import Layout
from flopwise.operators.shape import ShapeRule, ValueRule

#: Axes of an image in the order of the house, where the file has channels last.
CHANNELS_FIRST = (0, 3, 1, 2)
CHANNELS_FIRST_3D = (0, 4, 1, 2, 3)


class Lowered(NamedTuple):
    """The operator of the house."""

    op: str
    #: Places among the file's inputs in the order of the house's signature; -1 for one that is left out. None: all.
    inputs: tuple[int, ...] | None = None
    attrs: Mapping[str, object] = {}
    layout: Layout | None = None
    #: The rule of its results' shapes where it is not that of the house's row: settings come in another way.
    shape: ShapeRule | None = None
    #: That of their elements, where the rule for shapes is one of these.
    value: ValueRule | None = None
    #: Whether the file's inputs are those of its rule for shapes, and not those that ``inputs`` says.
    as_in_file: bool = False
    #: Shapes in which the operator sees inputs of the same elements, by place.
    views: Mapping[int, tuple[int, ...]] = {}


class Part(NamedTuple):
    """A part of an operator."""

    op: str
    #: What it is called after its operator: "RELU6".
    label: str
    attrs: Mapping[str, object]
    #: Places among the operator's inputs of what it takes beside the operator's result.
    takes: tuple[int, ...] = ()
