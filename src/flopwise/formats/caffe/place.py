"""A Caffe layer where it stands, and what becomes of it: what every layer rule is given and what it gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from flopwise.errors import InputError, ModelError
from flopwise.graph import Kind, Shape

if TYPE_CHECKING:
    from flopwise.formats.caffe.message import Message
    from flopwise.formats.caffe.net import Layer

#: Extents of a blob. Caffe nets have no symbols: each extent is a number.
Extents: TypeAlias = "tuple[int, ...]"

#: One stored blob of a layer: what it is for ("weight", "bias", ...), its shape and its kind.
Weight: TypeAlias = "tuple[str, Shape, Kind]"

#: No blob has as many elements: Caffe itself counts in 32 bits, most files and machines in 64.
MOST_ELEMENTS = 2**63 - 1


class Unresolved(Exception):  # noqa: N818 # not an error: the rule needs a shape that is unknown
    """A rule needs the shape of a bottom that is unknown."""


class Lowered(NamedTuple):
    """One operator that a layer becomes: it reads the bottoms, then the stored blobs, and writes the tops."""

    #: ONNX operator name, or "caffe::Type" for what ONNX has not.
    op: str
    #: One shape per top; None is unresolved.
    outputs: tuple[Shape | None, ...]
    #: The stored blobs in Caffe's order.
    weights: tuple[Weight, ...] = ()
    #: The operator's attributes, under ONNX's names where the operator is ONNX's.
    attrs: Mapping[str, object] = {}
    #: Shapes of the inputs as the operator sees them, where they differ from the bottoms' (InnerProduct flattens).
    inputs: tuple[Shape, ...] | None = None
    #: What the reader should know: an assumption, or a contradiction between the text and the stored blobs.
    note: str = ""
    #: Positions of the bottoms that the operator reads; None for all of them.
    reads: tuple[int, ...] | None = None
    #: Positions of the tops that the operator writes; None for all of them.
    writes: tuple[int, ...] | None = None
    #: Whether the shapes are upper bounds, because the data decide how large the tops are.
    bound: bool = False


class Place(NamedTuple):
    """A layer, the shapes of its bottoms (None where it is unknown) and the shapes that the user gave by blob name."""

    layer: Layer
    bottoms: tuple[Shape | None, ...]
    inputs: Mapping[str, Shape]

    def param(self, name: str) -> Message:
        """One of the layer's sub-messages; empty when the layer does not have it."""
        return self.layer.message.merged(name)

    def bottom(self, index: int = 0) -> Extents:
        """The shape of a bottom.

        Raises:
            Unresolved: it is unknown.
            InputError: it has symbols.
        """
        shape = self.bottoms[index]
        if shape is None:
            raise Unresolved(self.layer.bottoms[index])
        extents = tuple(dim for dim in shape if isinstance(dim, int))
        if len(extents) != len(shape):
            raise InputError(f"{self}: Caffe nets need numbers, {show(shape)} has symbols; bind them with --dim NAME=N")
        return extents

    def alike(self) -> Extents:
        """The shape that all bottoms have.

        Raises:
            ModelError: they differ.
        """
        shapes = self.all_bottoms()
        for shape in shapes:
            if shape != shapes[0]:
                raise self.error(f"its bottoms differ in shape: {show(shapes[0])}, {show(shape)}")
        return shapes[0]

    def all_bottoms(self) -> list[Extents]:
        """The shapes of all bottoms."""
        return [self.bottom(i) for i in range(len(self.bottoms))]

    def error(self, text: str) -> ModelError:
        """An error that names the layer, its type and its line."""
        return ModelError(f"{self}: {text}")

    def __str__(self) -> str:
        line = f", line {self.layer.line}" if self.layer.line else ""
        return f"layer {self.layer.name!r} ({self.layer.type}{line})"

    def axis(self, axis: int, rank: int, what: str = "axis") -> int:
        """An axis counted from the front; a negative one counts from the end.

        Raises:
            ModelError: there is no such axis.
        """
        if not -rank <= axis < rank:
            raise self.error(f"{what} {axis} of a blob with {rank} dimensions")
        return axis % rank

    def at_least(self, least: int, value: int, what: str) -> int:
        """The value.

        Raises:
            ModelError: it is smaller than it may be, or larger than any extent.
        """
        if int(value) > MOST_ELEMENTS:
            raise self.error(f"{what} is more than 2^63")
        if value < least:
            raise self.error(f"{what} is {value}, must be at least {least}")
        return value

    def size(self, message: Message, name: str) -> int:
        """A positive number that the layer must have.

        Raises:
            ModelError: it is missing or not positive.
        """
        if not message.has(name):
            raise self.error(f"has no {name}")
        return self.at_least(1, message.int(name, 0), name)

    def choice(self, message: Message, name: str, choices: Sequence[str]) -> str:
        """One of a few words, given as a word or as its number; the first one when the field is absent.

        Raises:
            ModelError: another word.
        """
        text = message.text(name, choices[0])
        if text in choices:
            return text
        if text.isascii() and text.isdigit() and len(text) < 4 and int(text) < len(choices):
            return choices[int(text)]
        raise self.error(f"{name} is {text!r}, must be one of {', '.join(choices)}")

    def square(self, message: Message, name: str, stem: str, least: int, default: int | None) -> tuple[int, int]:
        """Height and width of a field that stands once for both or as ``stem_h`` and ``stem_w``.

        Raises:
            ModelError: one of the two is missing, both forms are given, or a value is too small.
        """
        height, width = f"{stem}_h", f"{stem}_w"
        if message.has(height) or message.has(width):
            if message.has(name):
                raise self.error(f"has {name} and {height} or {width}: one form only")
            if not (message.has(height) and message.has(width)):
                raise self.error(f"has one of {height} and {width}: both are needed")
            pair = message.int(height, 0), message.int(width, 0)
        elif message.has(name) or default is not None:
            both = message.int(name, default or 0)
            pair = both, both
        else:
            raise self.error(f"has no {name}")
        for value in pair:
            self.at_least(least, value, name)
        return pair

    def rank(self, shape: Extents, *ranks: int) -> Extents:
        """The shape.

        Raises:
            ModelError: it has another number of dimensions than the layer can take.
        """
        if len(shape) not in ranks:
            raise self.error(f"needs {' or '.join(map(str, ranks))} dimensions, its bottom has shape {show(shape)}")
        return shape


#: What a layer becomes, given the place and the name of the operator.
Rule: TypeAlias = Callable[[Place, str], "Lowered | tuple[Lowered, ...]"]


class Row(NamedTuple):
    """One row of a layer table."""

    #: The operator: its name, or what gives the name when the layer's parameters decide.
    op: str | Callable[[Place], str]
    rule: Rule
    #: Least and largest number of bottoms; None is any number.
    bottoms: tuple[int, int | None] = (1, 1)
    #: Least and largest number of tops.
    tops: tuple[int, int | None] = (1, 1)
    #: Whether the layer stores blobs, as a rule.
    stores: bool = False


def same(place: Place, op: str) -> Lowered:
    """The top has the shape of the bottom."""
    return Lowered(op, (place.bottom(),))


def product(shape: Sequence[int]) -> int:
    """Number of elements."""
    return math.prod(shape)


def show(shape: Sequence[object]) -> str:
    """A shape as it is typed.

    >>> show((1, 3, 227, 227))
    '1x3x227x227'
    """
    return "x".join(map(str, shape)) or "scalar"
