"""The roles of an operator's inputs: factors of products, weights, statistics, settings, scales, states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from flopwise.graph import Node, Tensor
from flopwise.operators.packed import Packed

#: ``data``: what the operator works on. ``weight``: may be trained; a tensor there that the file does not fill is a
#: weight too. ``statistic``: stored beside the weights, not trained. ``setting``: steers the operator. ``scale`` and
#: ``zero point`` of a quantised tensor, which are stored and not trained either. ``state``: where a recurrent layer
#: starts. ``label``: what a loss compares with. ``like``: lends its type.
Role: TypeAlias = Literal["data", "weight", "statistic", "setting", "scale", "zero point", "state", "label", "like"]

#: How the axes of a stored weight stand to outputs and reduction. ``conv``: outputs first. ``conv transpose``: inputs
#: first. ``left``, ``right``: a factor of a matrix product. ``stacked``: matrices of several directions or gates, one
#: after the other. ``matrices``: any two-dimensional weight among the inputs. ``equation``: an equation decides.
#: ``packed``: rows of blocks of a few bits.
Layout: TypeAlias = Literal["", "conv", "conv transpose", "left", "right", "stacked", "matrices", "equation", "packed"]

#: Roles that no gradient flows through.
_FIXED = frozenset({"statistic", "setting", "label", "like"})

#: In place of a place among the inputs: the result.
RESULT = -1


class Weight(NamedTuple):
    """A stored factor, each element of which is in equally many multiply-accumulates."""

    layout: Layout
    #: The attribute that says whether it is transposed; "" where none does.
    transposed: str = ""


class Input(NamedTuple):
    """One input of an operator."""

    role: Role = "data"
    #: Whether it is multiplied with another input.
    factor: bool = False
    #: Of a scale or zero point: the place of the input that it belongs to, or RESULT.
    of: int = RESULT
    #: Of a zero point: the axis of the tensor that it runs along.
    axis: int = 0
    #: How it is seen when it is a stored weight; None where its elements are not in equally many products.
    weight: Weight | None = None
    #: The type that the operator itself quantises it to before it multiplies.
    inside: str = ""
    #: Whether it is a bias that is stored in 32 bits beside 8-bit weights.
    wide_bias: bool = False
    #: How it holds several elements in a byte.
    packed: Packed | None = None
    #: Whether it gets a gradient although it is a setting (the exponent of Pow).
    trained: bool = False

    @property
    def differentiable(self) -> bool:
        """True where the input takes part in a gradient."""
        return self.trained or self.role not in _FIXED


class Inputs(NamedTuple):
    """The inputs of an operator by place: some of their own, then a group that repeats to the end."""

    first: tuple[Input, ...] = ()
    #: The inputs of the group that repeats.
    repeated: tuple[Input, ...] = ()

    @property
    def has_factors(self) -> bool:
        """True where the operator multiplies inputs with each other."""
        return any(one.factor for one in (*self.first, *self.repeated))

    @property
    def packed(self) -> bool:
        """True where an input holds several elements in a byte."""
        return any(one.packed for one in (*self.first, *self.repeated))

    @property
    def kernel(self) -> int | None:
        """The place of a convolution's weight, whose last extents are the kernel's; None for any other operator."""
        layouts = [one.weight.layout if one.weight else "" for one in self.first]
        return next((place for place, layout in enumerate(layouts) if layout.startswith("conv")), None)

    def input(self, place: int) -> Input:
        """The input of a place; data where nothing is said about it."""
        if place < len(self.first):
            return self.first[place]
        return self.repeated[(place - len(self.first)) % len(self.repeated)] if self.repeated else DATA

    def places(self, number: int) -> Iterator[tuple[int, Input]]:
        """Place and input for the first ``number`` places."""
        return ((place, self.input(place)) for place in range(number))


DATA = Input()
FACTOR = Input(factor=True)
WEIGHT = Input("weight")
STATISTIC = Input("statistic")
SETTING = Input("setting")
STATE = Input("state")
LABEL = Input("label")
LIKE = Input("like")
#: The scale and the zero point of the result, or of a tensor that never comes from a file.
SCALE = Input("scale")
ZERO_POINT = Input("zero point")
#: A bias that is stored in 32 bits beside 8-bit weights.
WIDE_BIAS = Input(wide_bias=True)

NO_ROLES = Inputs()


def inputs(*first: Input, repeated: tuple[Input, ...] = ()) -> Inputs:
    """The inputs of an operator, in the order of its signature.

    >>> inputs(DATA, scale(0)).input(1).role
    'scale'
    """
    return Inputs(first, repeated)


def factor(layout: Layout = "", transposed: str = "", role: Role = "data") -> Input:
    """An input that is multiplied with another one.

    Args:
        layout: how a stored weight there is seen.
        transposed: the attribute that says whether it is transposed.
        role: "weight" where it may be trained.
    """
    return Input(role, factor=True, weight=Weight(layout, transposed) if layout else None)


def scale(of: int = RESULT) -> Input:
    """The scale of the input of a place."""
    return Input("scale", of=of)


def zero_point(of: int = RESULT, axis: int = 0) -> Input:
    """The zero point of the input of a place, along an axis of it."""
    return Input("zero point", of=of, axis=axis)


def operand(place: int, layout: Layout = "", transposed: str = "", axis: int = 0) -> tuple[Input, Input, Input]:
    """A factor of a quantised product at a place, and behind it its scale and its zero point along an axis."""
    return factor(layout, transposed), scale(place), zero_point(place, axis)


#: What QLinearConv takes.
QLINEAR_CONV = inputs(*operand(0), *operand(3, "conv"), SCALE, ZERO_POINT, WIDE_BIAS)


def unpacked(node: Node, places: Inputs) -> dict[str, int]:
    """Names of the tensors that a node takes packed -> how many elements each holds.

    Left out is what has the elements that its shape says: tensors not made of bytes, and those of which the attributes
    make no sense.
    """
    sizes: dict[str, int] = {}
    if not places.packed:
        return sizes
    for place, described in places.places(len(node.inputs)):
        packed = described.packed
        if packed is None or not node.has_input(place):
            continue
        tensor = node.input(place)
        elements = _elements(node, tensor, packed)
        if elements:
            sizes[tensor.name] = elements
    return sizes


def _elements(node: Node, tensor: Tensor, packed: Packed) -> int:
    """The elements of a packed tensor; 0 where attributes and bytes do not go together."""
    if tensor.shape is None or tensor.dtype not in ("uint8", "int8"):
        return 0
    try:
        fitting = tensor.numel * 8 // packed.width(node)
        elements = packed.elements(node) if packed.elements else fitting
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return 0
    return elements if 0 < elements <= fitting else 0


def packed_dtype(node: Node, place: int, places: Inputs) -> str | None:
    """The element type of an input that is packed into bytes; None for any other."""
    packed = places.input(place).packed
    if packed is None or not node.has_input(place) or node.input(place).dtype not in ("uint8", "int8"):
        return None
    try:
        return packed.dtype(node)
    except (LookupError, TypeError, ValueError):
        return None
