"""The rules in the row of an operator that say its results: their shapes, element types and, where small, elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from flopwise.operators.late import Late
from flopwise.operators.size import Dims, UnresolvedError, broadcast

#: The type of a tensor, made by ``Call.tensor`` or taken from an input with ``Call.type``.
Type: TypeAlias = Any

#: The results in order: a shape, of the element type that the row says, or a type; None where nothing is known.
Types: TypeAlias = "Sequence[Type | Dims | None]"

#: An element: a number, a flag, a text, a size, or None where it is not known.
Element: TypeAlias = Any

#: The elements of small results in row-major order, None for those that are not known.
Elements: TypeAlias = "Sequence[tuple[Element, ...] | None]"


class FromInput(NamedTuple):
    """The value of an attribute that is an input in the file: its one element, or all of them."""

    place: int
    many: bool = False

    def of(self, elements: Sequence[Element] | None) -> Any:
        """The value, from the elements of the input; None where these are not known."""
        if elements is None or any(type(one) is not int for one in elements) or not (elements or self.many):
            return None
        return list(elements) if self.many else elements[0]


class Call(Protocol):
    """One application of an operator, and what is known about its inputs.

    Extents are numbers, or sizes of other kinds (see ``flopwise.operators.size``): compute with them, and do not
    convert them. Whatever asks for something that is not known raises UnresolvedError.
    """

    #: Name of the operator, without its domain.
    op: str
    #: Version of its operator set.
    version: int
    #: How many outputs it has, those that are left out included.
    outputs: int

    @property
    def inputs(self) -> int:
        """Number of inputs, those that are left out included."""

    def has(self, place: int) -> bool:
        """True if an input is given."""

    def type(self, place: int) -> Type | None:
        """The type of an input, for a result that is like it."""

    def whole_type(self, place: int) -> Type:
        """The type of an input with its elements, for a result that is the input."""

    def type_of(self, name: str) -> Type | None:
        """The type of a tensor of the model by its name."""

    def shape(self, place: int = 0) -> Dims:
        """The shape of an input.

        Raises:
            UnresolvedError: it is not known.
        """

    def ranked(self, place: int, *ranks: int) -> Dims:
        """The shape of an input that has one of these ranks.

        Raises:
            UnresolvedError: it is not known, or has another rank.
        """
        shape = self.shape(place)
        if ranks and len(shape) not in ranks:
            raise UnresolvedError
        return shape

    def dtype(self, place: int) -> str:
        """The element type of an input; float32 where it is unknown."""

    def elements(self, place: int) -> tuple[Element, ...]:
        """The elements of a small input in row-major order, None for one that is not known.

        Raises:
            UnresolvedError: none of them is known.
        """

    def wholes(self, place: int) -> list[int]:
        """The elements of an input that holds whole numbers, all of which are known."""

    def number(self, place: int) -> int | None:
        """The one element of an input; None when it is not known."""

    def attr(self, name: str, default: object = None) -> Any:
        """An attribute as the file has it."""

    def constant(self, name: str) -> Type | None:
        """The type of a stored tensor in an attribute, with its elements where it is small."""

    def attribute(self, name: str, default: object) -> Any:
        """An attribute, of the type of its default.

        Raises:
            UnresolvedError: it is of another type.
        """

    def positive(self, name: str) -> int:
        """An attribute that counts something.

        Raises:
            UnresolvedError: it is missing, or counts nothing.
        """
        count: int = self.attribute(name, 0)
        if count < 1:
            raise UnresolvedError
        return count

    def settings(self, name: str, place: int) -> list[int] | None:
        """Whole numbers that are an attribute in some versions and an input in others; None where they are left out."""

    def settings_or_open(self, name: str, place: int) -> list[int | None] | None:
        """As ``settings``, with None for each that is not known.

        Raises:
            UnresolvedError: not even their number is known.
        """

    def type_attribute(self, name: str, default: str) -> str:
        """An attribute that names an element type."""

    def tensor(self, dtype: str | None, dims: Iterable[int] | None) -> Type | None:
        """A tensor type.

        Raises:
            UnresolvedError: no tensor has such extents.
        """

    def known(self, dtype: str, dims: Dims, elements: Sequence[object]) -> Type:
        """The type of a tensor with its elements."""

    def sequence(
        self,
        dtype: str | None,
        members: Sequence[Type] | None,
        kind: Any = "sequence",
        item: Type | None = None,
        bound: bool = False,
        parts: object = None,
    ) -> Type:
        """The type of a sequence or optional.

        Args:
            dtype: element type of its members.
            members: its members; None where nobody knows how many there are.
            kind: "sequence", "optional" or "optional sequence".
            item: what holds for all members, where these are not known.
            bound: whether there may be fewer members.
            parts: the tensor of which the members are parts, where a size with an expression says how many.
        """

    def item(self, place: int) -> Type | None:
        """The type that all members of a sequence at an input have; None where nothing is known of them."""

    def members(self, place: int) -> tuple[Type, ...] | None:
        """The members of an input that is a sequence, or what an optional holds; None where they are not known."""

    def ask(
        self,
        op: str,
        inputs: Sequence[Type | None],
        *,
        without: Sequence[str] = (),
        only: Sequence[str] | None = None,
        more: Mapping[str, object] | None = None,
        values: Sequence[object] = (),
    ) -> Dims | None:
        """The shape of the first result of a standard operator, by the rule in its row.

        Args:
            op: the standard operator.
            inputs: types of its inputs, None for one that is left out.
            without: attributes of this operator that the standard one has not.
            only: the attributes of this operator that it has; None: all others.
            more: attributes of its own.
            values: elements of its inputs, None where they are not known.

        Raises:
            UnresolvedError: it does not take these types.
        """

    def others(self, op: str) -> Iterable[Call]:
        """The other operators of this name and domain around it, if any are known."""
        return ()

    def feeds(self, other: Call) -> bool:
        """True if its first result is the first input of another operator."""
        return False


#: The results of an operator.
ShapeRule: TypeAlias = Callable[[Call], Types]

#: Element types of results: a name, the place of an input that has the same, a rule, or one of these for each result,
#: the last for all that follow.
Dtypes: TypeAlias = "str | int | Callable[[Call], Sequence[str | None]] | tuple[str | int, ...]"


class ValueRule(NamedTuple):
    """The rule for the elements of small results."""

    rule: Callable[[Call, Sequence[Dims]], Elements]
    #: The inputs whose elements must be known: "all", "some" or "none" of them.
    needs: str = "all"


class Typed:
    """A rule that says types, not shapes alone: where it gives up, the element types are not known either."""

    def __init__(self, rule: ShapeRule) -> None:
        self.rule = rule

    def __call__(self, call: Call) -> Types:
        return self.rule(call)


def typed(rule: str) -> ShapeRule:
    """The rule "module:function" of ``operators/shapes`` that says types, which is loaded at the first use."""
    return Typed(by(rule))


def by(rule: str) -> ShapeRule:
    """The rule "module:function" of ``operators/shapes``, which is loaded at the first use."""
    return Late(f"shapes.{rule}")


def dtypes(rule: str) -> Callable[[Call], Sequence[str | None]]:
    """The rule "module:function" of ``operators/shapes`` for element types, which is loaded at the first use."""
    return Late(f"shapes.{rule}")


def elements(rule: str, needs: str = "all") -> ValueRule:
    """The rule "module:function" of ``operators/elements``, which is loaded at the first use.

    Args:
        rule: the function; it takes the application and the shapes of the results.
        needs: "all" where it is asked only if the elements of all inputs are known, "some" if those of one are, "none"
            if it needs none.
    """
    return ValueRule(Late(f"elements.{rule}"), needs)


def alike(call: Call) -> Types:
    """The result has the shape of the first input."""
    return [call.shape(0)]


def both_alike(call: Call) -> Types:
    """Two results have the shape of the first input."""
    return [call.shape(0)] * 2


def common(call: Call) -> Types:
    """The shape that all inputs are broadcast to; the first versions broadcast to the first input."""
    if call.version < 7 and call.attr("broadcast"):
        return [call.shape(0)]
    return [broadcast(*[call.shape(place) for place in range(call.inputs) if call.has(place)])]


def dtype_of(attribute: str, place: int | str = "float32") -> Callable[[Call], Sequence[str | None]]:
    """The rule of an element type that an attribute names, else that of an input, or this one."""

    def rule(call: Call) -> Sequence[str | None]:
        if call.attr(attribute):
            return [call.type_attribute(attribute, "float32")]
        return [place if isinstance(place, str) else call.dtype(place)]

    return rule


def twin(
    op: str,
    places: tuple[int, ...] = (0,),
    without: tuple[str, ...] = (),
    *,
    like: int = 0,
    dtype: str = "",
) -> ShapeRule:
    """The rule of an operator that has the shape of a standard one.

    Args:
        op: the standard operator.
        places: places of its inputs among those of this operator.
        without: attributes of this operator that the standard one has not.
        like: where the element type comes from: the place of an input.
        dtype: the element type where no input gives it.
    """

    def rule(call: Call) -> Types:
        types = [call.type(place) if call.has(place) else None for place in places]
        return [call.tensor(dtype or call.dtype(like), call.ask(op, types, without=without))]

    return Typed(rule)


#: Attributes of an activation that is fused to an operator.
ACTIVATION = ("activation", "activation_alpha", "activation_beta", "activation_gamma", "activation_params")
