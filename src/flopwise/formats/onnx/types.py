"""The types that a file states, as facts; and messages as one line."""

from __future__ import annotations

from collections.abc import Mapping

from flopwise.formats.onnx.file.model import MapType, OptionalType, SequenceType, SparseType, TensorType, Type
from flopwise.operators.size import OPEN
from flopwise.sizes.facts import NOTHING, Fact, Facts

#: Longest message, in characters.
LONGEST_MESSAGE = 600

#: Sizes of symbols in place of those of a model.
_NO_SYMBOLS: Mapping[str, int] = {}


def concrete(type_: Type | None) -> tuple[int, ...] | None:
    """The shape of a tensor type, or of what an optional holds, if every extent is a number; else None."""
    if isinstance(type_, OptionalType):
        return concrete(type_.element)
    if not isinstance(type_, TensorType) or type_.dims is None:
        return None
    numbers = tuple([dim for dim in type_.dims if type(dim) is int])
    return numbers if len(numbers) == len(type_.dims) else None


def is_tensor(type_: Type | None) -> bool:
    """True if a type is that of a dense tensor, or no type is stated."""
    return type_ is None or (isinstance(type_, TensorType) and not isinstance(type_, SparseType))


def tensor_type(type_: Type | None) -> TensorType | None:
    """The type of a tensor, also of one that is optional; None for a sequence or map."""
    if isinstance(type_, OptionalType):
        return tensor_type(type_.element)
    return type_ if isinstance(type_, TensorType) else None


def dims_of(type_: Type | None) -> tuple[int | str | None, ...] | None:
    """The dimensions of a tensor as the file states them; None where it states none."""
    return type_.dims if isinstance(type_, TensorType) else None


def dtype_of(type_: Type | None) -> str | None:
    """The element type of a tensor as the file states it."""
    return type_.dtype if isinstance(type_, TensorType) else None


def bound(type_: Type | None, symbols: Mapping[str, int]) -> Type | None:
    """A tensor type with numbers in place of symbols."""
    if not isinstance(type_, TensorType) or type_.dims is None or symbols.keys().isdisjoint(map(str, type_.dims)):
        return type_
    dims = tuple([symbols.get(dim, dim) if isinstance(dim, str) else dim for dim in type_.dims])
    return type(type_)(type_.dtype, dims)


def fact_of(facts: Facts, type_: Type | None, symbols: Mapping[str, int] = _NO_SYMBOLS) -> Fact:
    """The fact about a value that its type states.

    Args:
        facts: where facts come from.
        type_: the type; None where the file states none.
        symbols: sizes of symbols.
    """
    if isinstance(type_, TensorType):
        if type_.dims is None:
            return facts.tensor(type_.dtype, None)
        dims = [symbols.get(dim) if isinstance(dim, str) else dim for dim in type_.dims]
        return facts.tensor(type_.dtype, tuple([OPEN if dim is None else dim for dim in dims]))
    if isinstance(type_, SequenceType):
        item = fact_of(facts, type_.element, symbols)
        return facts.sequence(item.dtype, None, item=item)
    if isinstance(type_, OptionalType):
        held = fact_of(facts, type_.element, symbols)
        if held.kind != "tensor":
            return facts.sequence(held.dtype, None, "optional sequence", held.item)
        return facts.optional(held.dtype, held.shape)
    if isinstance(type_, MapType):
        return facts.sequence(fact_of(facts, type_.value, symbols).dtype, None)
    return NOTHING


def one_line(text: str) -> str:
    """A message as one line that a terminal can show: names in a file may hold anything, and be of any length."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in " ".join(text.split()))
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}..."
