"""Facts about tensors and sequences; equal facts are one object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

from flopwise.operators.shape import Element
from flopwise.operators.size import OPEN, Dims, Most, identity, larger, product, smaller

#: The largest rank: a file may claim any, and a shape takes memory for each axis.
LARGEST_RANK = 64

#: Elements of a tensor that are followed, and of one that the user gives.
LARGEST_VALUE, LARGEST_INPUT = 1024, 8192

#: Members of sequences that are looked at in all operators together.
MEMBERS = 1 << 23

Kind: TypeAlias = Literal["tensor", "sequence", "optional", "optional sequence"]


class Fact:
    """The facts about a tensor, sequence or optional, as far as they are known."""

    __slots__ = (
        "bound", "dtype", "elements", "extents", "item", "kind", "members", "partial", "parts", "plain", "shape"
    )  # fmt: skip

    #: Element type; None where it is not known.
    dtype: str | None
    #: Sizes of any kind; None where not even the rank is known.
    shape: Dims | None
    #: The elements in row-major order, None for one that is not known; None where none is.
    elements: tuple[Element, ...] | None
    #: The members of a sequence, or what an optional holds; None where they are not known.
    members: tuple[Fact, ...] | None
    #: The tensor of which the members are parts, as many as a size with an expression says; None for all others.
    parts: Any
    kind: Kind
    #: What holds for all members of a sequence; None where nothing is known of them.
    item: Fact | None
    #: The same without elements.
    plain: Fact
    #: The shape in numbers, upper bounds for sizes that data decide; None where one is open.
    extents: tuple[int, ...] | None
    #: Whether the data decide a size.
    bound: bool
    #: Whether a size is open, or decided by the data.
    partial: bool

    def __repr__(self) -> str:
        shape = "?" if self.shape is None else str(self.shape)
        return f"<{self.kind} {self.dtype} {shape if self.members is None else self.members} {self.elements or ''}>"

    @property
    def sized(self) -> bool:
        """True if the shape, or that of every member, is known; an upper bound counts as known."""
        if self.extents is not None or self.parts is not None:
            return True
        return self.members is not None and all(member.extents is not None for member in self.members)


def _fact(
    dtype: str | None,
    shape: Dims | None,
    elements: tuple[object, ...] | None = None,
    members: tuple[Fact, ...] | None = None,
    kind: Kind = "tensor",
) -> Fact:
    fact = Fact()
    fact.dtype, fact.shape, fact.elements, fact.members, fact.kind = dtype, shape, elements, members, kind
    fact.item = fact.parts = None
    fact.plain, fact.extents, fact.bound, fact.partial = fact, shape, False, shape is None and members is None
    if shape is not None and not _PLAIN.issuperset(map(type, shape)):
        if any(type(n) is Most for n in shape):
            fact.bound = fact.partial = True
            fact.extents = tuple([n.high if type(n) is Most else n for n in shape])
        if any(n is OPEN for n in shape):
            fact.partial, fact.extents = True, None
    return fact


#: Kinds of sizes that are numbers and nothing else.
_PLAIN = frozenset({int})


#: Of what nothing is known.
NOTHING = _fact(None, None)

#: Of an input that is left out.
ABSENT = _fact(None, None)


class Facts:
    """All facts that a program needs, each once."""

    def __init__(self) -> None:
        #: How many more members of sequences may be looked at.
        self.room = MEMBERS
        self._tensors: dict[Any, Fact] = {}
        self._constants: dict[object, Fact] = {}
        self._sequences: dict[object, Fact] = {}

    def tensor(self, dtype: str | None, shape: Dims | None) -> Fact:
        """A tensor of this element type and shape."""
        key: Any = (dtype, shape)
        if shape is not None and not _PLAIN.issuperset(map(type, shape)):
            key = (dtype, tuple(map(identity, shape)), 0)
        fact = self._tensors.get(key)
        if fact is None:
            if shape is not None and len(shape) > LARGEST_RANK:
                return self.tensor(dtype, None)
            fact = self._tensors[key] = _fact(dtype, shape)
        return fact

    def constant(self, plain: Fact, elements: tuple[Element, ...]) -> Fact:
        """A small tensor with these elements; without them if it is large along some axes and empty along others."""
        if bulk(plain.shape or ()) > LARGEST_INPUT:
            return plain
        kinds = tuple(map(type, elements))
        if not _ELEMENTS.issuperset(kinds):
            key: Any = (id(plain), tuple(map(identity, elements)))
        else:
            key = (id(plain), elements, kinds)
        fact = self._constants.get(key)
        if fact is None:
            fact = self._constants[key] = _fact(plain.dtype, plain.shape, elements)
            fact.plain = plain
        return fact

    def sequence(
        self,
        dtype: str | None,
        members: Sequence[Fact] | None,
        kind: Kind = "sequence",
        item: Fact | None = None,
        bound: bool = False,
        parts: Any = None,
    ) -> Fact:
        """A sequence or optional.

        Args:
            dtype: element type of its members.
            members: its members; None where nobody knows how many there are.
            kind: what it is.
            item: what holds for all members, where these are not known.
            bound: whether there may be fewer members.
            parts: the tensor of which the members are parts, where a size with an expression says how many.
        """
        held = None if members is None else tuple(members)
        if held is not None:
            self.room -= len(held)
            if self.room < 0:
                held = None
        key = (dtype, kind, item and id(item), bound, None if held is None else tuple(map(id, held)), id(parts))
        fact = self._sequences.get(key)
        if fact is None:
            shape = held[0].shape if kind == "optional" and held and held[0].kind == "tensor" else None
            fact = self._sequences[key] = _fact(dtype, shape, None, held, kind)
            fact.item, fact.bound, fact.parts = item, bound, parts
            if held and kind != "optional":
                fact.item = held[0].plain
                for one in held[1:]:
                    if one.plain is not fact.item:
                        fact.item = wider(self, fact.item, one)
        return fact

    def optional(self, dtype: str | None, shape: Dims | None) -> Fact:
        """An optional tensor of this shape of which nobody knows whether it is there."""
        key = (dtype, shape and tuple(map(identity, shape)), "optional")
        fact = self._sequences.get(key)
        if fact is None:
            fact = self._sequences[key] = _fact(dtype, shape, None, None, "optional")
        return fact

    def stored(self, dtype: str, dims: tuple[int, ...], elements: Callable[[], tuple[Element, ...] | None]) -> Fact:
        """A stored tensor, with its elements if it is small."""
        plain = self.tensor(dtype, dims)
        if plain.shape is None or bulk(dims) > LARGEST_VALUE:
            return plain
        held = elements()
        return plain if held is None else self.constant(plain, held)


#: Kinds of elements that are keys by themselves.
_ELEMENTS = frozenset({int, float, bool, str, type(None)})


def bulk(dims: Iterable[int]) -> int:
    """The number of elements if every axis had one at least: what has none may still be long along other axes.

    >>> bulk((0, 3)), bulk((0, 1 << 40))
    (3, 1099511627776)
    """
    return product([n if type(n) is not int or n else 1 for n in dims])


def wider(facts: Facts, one: Fact, other: Fact) -> Fact:
    """The fact that covers both: extents that differ are open; the first without elements where nothing differs."""
    if one.plain is other.plain:
        return one.plain
    if one.members is not None or other.members is not None or one.kind != "tensor":
        same = one.kind == other.kind and _plain(one) == _plain(other) is not None
        item = (
            one.item if other.item is None else other.item if one.item is None else wider(facts, one.item, other.item)
        )
        return one if same else facts.sequence(one.dtype, None, one.kind, item)
    if one.shape is None or other.shape is None or len(one.shape) != len(other.shape):
        return facts.tensor(one.dtype, None)
    return facts.tensor(
        one.dtype, tuple([a if _same(a, b) else OPEN for a, b in zip(one.shape, other.shape, strict=True)])
    )


def _plain(sequence: Fact) -> list[Fact] | None:
    """The members of a sequence without their elements."""
    return None if sequence.members is None else [one.plain for one in sequence.members]


def _same(one: int, other: int) -> bool:
    return one is other or identity(one) == identity(other)


def either(facts: Facts, one: Fact, other: Fact) -> Fact:
    """The fact that covers one or the other: sizes that differ lie between both."""
    if one.plain is other.plain:
        return one.plain
    if one.members is not None or other.members is not None or one.kind != "tensor":
        return wider(facts, one, other)
    if one.shape is None or other.shape is None or len(one.shape) != len(other.shape):
        return facts.tensor(one.dtype, None)
    return facts.tensor(one.dtype, tuple(_between(one.shape, other.shape)))


def _between(one: Dims, other: Dims) -> Iterable[int]:
    for a, b in zip(one, other, strict=True):
        if _same(a, b):
            yield a
        else:
            high = larger(*(n.high if type(n) is Most else n for n in (a, b)))
            yield Most(high, smaller(*(n.low if type(n) is Most else n for n in (a, b))))
