"""The shape rule in the row of an operator, and what it is handed: for operators that onnx infers no shapes of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from flopwise.operators.late import Late

#: The type of a tensor, made by ``Call.tensor`` or taken from an input with ``Call.type``.
Type: TypeAlias = Any

#: The types of the results in order, None for those that nothing is known about.
Types: TypeAlias = "Sequence[Type | None]"

Dims: TypeAlias = "tuple[int, ...]"


class UnresolvedError(ValueError):
    """Something that the shape of a result needs is not known, or makes no sense."""


class Call(Protocol):
    """One application of an operator, and what is known about its inputs."""

    @property
    def op(self) -> str:
        """Name of the operator, without its domain."""

    @property
    def inputs(self) -> int:
        """How many inputs it has, those that are left out included."""

    def has(self, place: int) -> bool:
        """Whether an input is given."""

    def type(self, place: int) -> Type | None:
        """The type of an input, for a result that is like it."""

    def type_of(self, name: str) -> Type | None:
        """The type of a tensor of the model by its name."""

    def shape(self, place: int) -> Dims | None:
        """The shape of an input; None when it is not known in numbers."""

    def ranked(self, place: int, *ranks: int) -> Dims:
        """The shape of an input that has one of these ranks.

        Raises:
            UnresolvedError: it is not known, or has another rank.
        """
        shape = self.shape(place)
        if shape is None or (ranks and len(shape) not in ranks):
            raise UnresolvedError
        return shape

    def dtype(self, place: int) -> str:
        """The element type of an input; float32 where it is unknown."""

    def value(self, place: int) -> Any:
        """The elements of a small input as a numpy array; None when they are not known."""

    def number(self, place: int) -> int | None:
        """The one element of an input; None when it is not known."""

    def attribute(self, name: str, default: Any) -> Any:
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

    def type_attribute(self, name: str, default: str) -> str:
        """An attribute that names an element type."""

    def tensor(self, dtype: str, dims: Iterable[int] | None) -> Type | None:
        """A tensor type; None for no shape, and for extents that no tensor has."""

    def ask(
        self,
        op: str,
        inputs: Sequence[Type | None],
        *,
        without: Sequence[str] = (),
        only: Sequence[str] | None = None,
        more: Mapping[str, Any] | None = None,
        values: Sequence[Any] = (),
    ) -> Dims | None:
        """The shape of the first result of a standard operator, as onnx infers it.

        Args:
            op: the standard operator.
            inputs: types of its inputs, None for one that is left out.
            without: attributes of this operator that the standard one has not.
            only: the attributes of this operator that it has; None: all others.
            more: attributes of its own.
            values: elements of its inputs, None where they are not known.

        Raises:
            UnresolvedError: onnx does not take these types.
        """

    def others(self, op: str) -> Iterable[Call]:
        """The other operators of this name and domain around it, if any are known."""
        return ()

    def feeds(self, other: Call) -> bool:
        """Whether its first result is the first input of another one."""
        return False


#: The types of an operator's results.
ShapeRule: TypeAlias = Callable[[Call], Types]


def by(rule: str) -> ShapeRule:
    """The rule "module:function" of ``operators/shapes``, which is loaded at the first use."""
    return Late(f"shapes.{rule}")


def alike(call: Call) -> Types:
    """The result is like the first input."""
    return [call.type(0)]


def both_alike(call: Call) -> Types:
    """Two results are like the first input."""
    return [call.type(0), call.type(0)]


def twin(
    op: str,
    places: tuple[int, ...] = (0,),
    without: tuple[str, ...] = (),
    *,
    steers: tuple[int, ...] = (),
    like: int = 0,
    dtype: str = "",
) -> ShapeRule:
    """The rule of an operator that has the shape of a standard one.

    Args:
        op: the standard operator.
        places: places of its inputs among those of this operator.
        without: attributes of this operator that the standard one has not.
        steers: which of these inputs steer and are not data.
        like: where the element type comes from: the place of an input.
        dtype: the element type where no input gives it.
    """

    def rule(call: Call) -> Types:
        types = [_taken(call, place, place in steers) for place in places]
        return [call.tensor(dtype or call.dtype(like), call.ask(op, types, without=without))]

    return rule


def _taken(call: Call, place: int, steers: bool) -> Type | None:
    """The type of an input in the form that onnx's rules take: they take no integers for many operators."""
    if not call.has(place):
        return None
    shape = call.ranked(place)
    if not steers:
        return call.tensor("float32", shape)
    return call.tensor("bool" if call.dtype(place) == "bool" else "int64", shape)


#: Attributes of an activation that is fused to an operator.
ACTIVATION = ("activation", "activation_alpha", "activation_beta", "activation_gamma", "activation_params")
