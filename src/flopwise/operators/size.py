"""Sizes: numbers that rules compute with, whatever is known about them.

A size is an ``int``, or an int of another kind with its own arithmetic, so that a rule is written once:

====== ============================================ ==========================================================
kind   is                                           compared
====== ============================================ ==========================================================
int    certain                                      as Python does
Dim    an int with its expression (of the formulas) as the int, and the condition is recorded
Most   at most this, because the data decide        only where every number that it may be says the same
OPEN   an extent of which nothing is known          never
====== ============================================ ==========================================================

Rules ask through a few words: ``same``, ``common``, ``broadcast``, ``smaller``, ``larger``, ``require``, ``settled``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

#: Extents, each an integer of some kind.
Dims: TypeAlias = "tuple[int, ...]"

#: How a size stands to 0.
Relation: TypeAlias = Literal[">=", "==", "!="]


class UnresolvedError(ValueError):
    """Something that a rule needs is not known, or makes no sense."""


class MisfitError(UnresolvedError):
    """Inputs do not go together, or with the attributes."""


class Most(int):
    """A size that the data decide: from ``low`` to the number itself.

    >>> rows = Most(10)
    >>> rows + 2, (rows * 3).low, Most(4, 4)
    (at most 12, 0, 4)
    """

    precedence = 2
    high: int
    low: int

    def __new__(cls, high: int, low: int = 0) -> Any:
        if high is OPEN or low is OPEN:
            return OPEN
        if type(high) is Most:
            high = high.high
        if low is high or (type(high) is int and int(low) == high):
            return high
        bound = int.__new__(cls, high)
        bound.high, bound.low = high, _low(low)
        return bound

    def __add__(self, other: object) -> int:
        return NotImplemented if _foreign(other) else Most(self.high + _high(other), self.low + _low(other))

    __radd__ = __add__

    def __sub__(self, other: object) -> int:
        return NotImplemented if _foreign(other) else Most(self.high - _low(other), self.low - _high(other))

    def __rsub__(self, other: object) -> int:
        return NotImplemented if _foreign(other) else Most(_high(other) - self.low, _low(other) - self.high)

    def __neg__(self) -> Any:
        return Most(-self.low, -self.high)

    def __pos__(self) -> int:
        return self

    def __abs__(self) -> int:
        return self if self.low >= 0 else Most(larger(abs(self.low), abs(self.high)))

    def __mul__(self, other: object) -> Any:
        if _foreign(other):
            return NotImplemented
        if self.low >= 0 and _low(other) >= 0:
            return Most(self.high * _high(other), self.low * _low(other))
        return _between([one * two for one in (self.low, self.high) for two in (_low(other), _high(other))])

    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> int:
        return NotImplemented if _foreign(other) else _divided(self, other)

    def __rfloordiv__(self, other: object) -> int:
        return NotImplemented if _foreign(other) else _divided(other, self)

    def __mod__(self, other: object) -> Any:
        if _foreign(other):
            return NotImplemented
        if _low(other) <= 0:
            raise UnresolvedError
        return Most(_high(other) - 1)

    def __rmod__(self, other: object) -> Any:
        if self.low <= 0:
            raise UnresolvedError
        return Most(self.high - 1)

    def __pow__(self, power: Any, modulo: object = None) -> Any:
        if type(power) is not int or power < 0 or self.low < 0:
            raise UnresolvedError
        return Most(self.high**power, self.low**power)

    def __truediv__(self, other: object) -> Any:
        raise UnresolvedError

    __rtruediv__ = __divmod__ = __rdivmod__ = __lshift__ = __rshift__ = __truediv__

    def __rpow__(self, base: object, modulo: object = None) -> int:
        raise UnresolvedError

    def __eq__(self, other: object) -> bool:
        """True if the other is a size between the same bounds: nobody knows its number."""
        return type(other) is Most and (self.low, self.high) == (other.low, other.high)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: object) -> bool:
        return _certain(self.high < _low(other), self.low < _high(other))

    def __le__(self, other: object) -> bool:
        return _certain(self.high <= _low(other), self.low <= _high(other))

    def __gt__(self, other: object) -> bool:
        return _certain(self.low > _high(other), self.high > _low(other))

    def __ge__(self, other: object) -> bool:
        return _certain(self.low >= _high(other), self.high >= _low(other))

    def __bool__(self) -> bool:
        return _certain(self.low > 0 or self.high < 0, True)

    __hash__ = int.__hash__

    def __repr__(self) -> str:
        return f"at most {self.high}"

    @staticmethod
    def smaller(one: int, other: int) -> int:
        """See `smaller`."""
        bound: int = Most(smaller(_high(one), _high(other)), smaller(_low(one), _low(other)))
        return bound

    @staticmethod
    def larger(one: int, other: int) -> int:
        """See `larger`."""
        bound: int = Most(larger(_high(one), _high(other)), larger(_low(one), _low(other)))
        return bound

    @staticmethod
    def same(one: int, other: int) -> int:
        """See `same`."""
        if type(one) is not Most:
            return one
        if type(other) is not Most:
            return other
        bound: int = Most(smaller(one.high, other.high), larger(one.low, other.low))
        return bound

    @staticmethod
    def common(one: int, other: int) -> int:
        """See `common`: an extent that may be 1 gives way to the other."""
        if type(one) is Most and type(other) is Most:
            bound: int = Most(larger(one.high, other.high), smaller(one.low, other.low))
            return bound
        vague, certain = (one, other) if type(one) is Most else (other, one)
        return vague if type(certain) is int and certain == 1 else certain

    @staticmethod
    def require(size: int, relation: Relation) -> None:
        """See `require`: the data decide."""

    @staticmethod
    def settled(size: int) -> int:
        """See `settled`."""
        raise UnresolvedError


class _Open(int):
    """An extent of which nothing is known."""

    precedence = 3

    def _open(self, *_: object) -> int:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _open
    __mod__ = __rmod__ = __neg__ = __pos__ = __abs__ = _open

    def __pow__(self, power: object, modulo: object = None) -> Any:
        return self

    def _undecided(self, *_: object) -> Any:
        raise UnresolvedError

    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __truediv__ = __rtruediv__ = __rpow__ = _undecided
    __divmod__ = __rdivmod__ = __lshift__ = __rshift__ = __index__ = __int__ = __float__ = _undecided

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "?"

    def __reduce__(self) -> str:
        return "OPEN"

    @staticmethod
    def smaller(one: int, other: int) -> int:
        """See `smaller`: at most the one that is known."""
        certain = other if one is OPEN else one
        bound: int = OPEN if certain is OPEN else Most(certain)
        return bound

    @staticmethod
    def larger(one: int, other: int) -> int:
        """See `larger`."""
        bound: int = OPEN
        return bound

    @staticmethod
    def same(one: int, other: int) -> int:
        """See `same`."""
        return other if one is OPEN else one

    @staticmethod
    def common(one: int, other: int) -> int:
        """See `common`: the other one, unless that may give way to this."""
        certain = other if one is OPEN else one
        return certain if certain is not OPEN and type(certain) is not Most and certain != 1 else OPEN

    @staticmethod
    def require(size: int, relation: Relation) -> None:
        """See `require`."""

    @staticmethod
    def settled(size: int) -> int:
        """See `settled`."""
        raise UnresolvedError


#: An extent of which nothing is known.
OPEN: Any = int.__new__(_Open, 1)


def _high(size: Any) -> Any:
    return size.high if type(size) is Most else size


def _low(size: Any) -> Any:
    return size.low if type(size) is Most else size


def _foreign(other: object) -> bool:
    """True if arithmetic with bounds leaves the result to the other number: an open size, or no integer."""
    return other is OPEN or not isinstance(other, int)


def _certain(always: bool, perhaps: bool) -> bool:
    """The truth of a comparison of sizes.

    Raises:
        UnresolvedError: some of the numbers that the sizes may be say the one, others the other.
    """
    if always != perhaps:
        raise UnresolvedError
    return always


def _between(numbers: Sequence[int]) -> Any:
    """A size between the smallest and the largest of some numbers."""
    least = most = numbers[0]
    for number in numbers[1:]:
        least, most = smaller(least, number), larger(most, number)
    return Most(most, least)


def _divided(one: Any, other: Any) -> Any:
    if _low(other) <= 0:
        if _high(other) < 0:
            return _divided(-one, -other)
        if type(other) is not Most or other.high <= 0:
            raise UnresolvedError
        other = Most(other.high, 1)  # nothing is divided by 0
    return _between([n // by for n in (_low(one), _high(one)) for by in (_low(other), _high(other))])


def _kind(one: object, other: object) -> Any:
    """The class of the one of two sizes that says what comes of both; None for plain integers."""
    first, second = getattr(one, "precedence", 0), getattr(other, "precedence", 0)
    return type(one) if first > second else type(other) if second else type(one) if first else None


def smaller(one: int, other: int) -> int:
    """The smaller of two sizes.

    >>> smaller(3, 4), smaller(Most(5, 2), 3)
    (3, at most 3)
    """
    kind = _kind(one, other)
    least: int = min(one, other) if kind is None else kind.smaller(one, other)
    return least


def larger(one: int, other: int) -> int:
    """The larger of two sizes."""
    kind = _kind(one, other)
    largest: int = max(one, other) if kind is None else kind.larger(one, other)
    return largest


def same(one: int, other: int) -> int:
    """One size for two that must be equal, with all that is known of both.

    Raises:
        MisfitError: they are not.
    """
    kind = _kind(one, other)
    if kind is None:
        if one != other:
            raise MisfitError(f"{one} meets {other}")
        return one
    size: int = one if one is other else kind.same(one, other)
    return size


def differ(one: int, other: int) -> bool:
    """True if two sizes are plain numbers, and not the same.

    >>> differ(3, 4), differ(3, Most(4))
    (True, False)
    """
    return type(one) is int and type(other) is int and one != other


def common(one: int, other: int) -> int:
    """The extent that two are broadcast to: the one that is not 1.

    Raises:
        MisfitError: they differ, and neither is 1.
    """
    if type(one) is int and type(other) is int:
        if one == other or other == 1:
            return one
        if one == 1:
            return other
        raise MisfitError(f"{one} meets {other}")
    if one is other:
        return one
    for extent, wide in ((one, other), (other, one)):
        if type(extent) is int and extent == 1:
            return wide
    made: int = _kind(one, other).common(one, other)
    return made


def broadcast(*shapes: Dims) -> Dims:
    """The common shape, aligned at the last axis.

    Raises:
        MisfitError: the shapes do not fit together.

    >>> broadcast((8, 1, 3), (5, 1)), broadcast((2, OPEN), (2, 3))
    ((8, 5, 3), (2, 3))
    """
    whole = shapes[0]
    for shape in shapes[1:]:
        if shape is whole:
            continue
        first, second = whole, shape
        if len(first) != len(second):
            rank = max(len(first), len(second))
            first, second = (1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second
        try:
            whole = tuple([common(one, other) for one, other in zip(first, second, strict=True)])
        except MisfitError:
            raise MisfitError(f"{written(first)} and {written(second)} cannot be broadcast") from None
    return whole


def require(size: int, relation: Relation) -> None:
    """Record that a size must stand so to 0, where somebody records conditions."""
    if type(size) is not int and (kind := _kind(size, 0)) is not None:
        kind.require(size, relation)


def settled(size: int) -> int:
    """A size as a plain number, which it must keep where it has an expression.

    Raises:
        UnresolvedError: the data decide it.
    """
    kind = None if type(size) is int else _kind(size, 0)
    number: int = int(size) if kind is None else kind.settled(size)
    return number


def product(dims: Iterable[int]) -> int:
    """The number of elements.

    >>> product((2, 3)), product((2, OPEN)), product((0, OPEN))
    (6, ?, 0)
    """
    extents = list(dims)
    if OPEN in extents and any(type(n) is int and n == 0 for n in extents):
        return 0
    return math.prod(extents)


def identity(size: object) -> Any:
    """A size with its kind, so that no two of different kinds are taken for equal."""
    if type(size) is int:
        return size
    if type(size) is Most:
        return Most, identity(size.low), identity(size.high)
    return type(size), getattr(size, "identity", size)


def identities(shape: Dims | None) -> tuple[object, ...] | None:
    """A shape as a key: sizes with expressions are no numbers in it."""
    return shape if shape is None or {int}.issuperset(map(type, shape)) else tuple(map(identity, shape))


def is_certain(size: object) -> bool:
    """True if nothing about a size is left to the data."""
    return type(size) is not Most and size is not OPEN


def axis_of(axis: int | None, rank: int) -> int:
    """An axis counted from the front.

    Raises:
        MisfitError: there is no such axis.
        UnresolvedError: it is not known which one is meant.
    """
    if axis is None:
        raise UnresolvedError
    place = settled(axis) if type(axis) is not int and isinstance(axis, int) else axis
    if type(place) is not int or not -rank <= place < rank:
        raise MisfitError(f"there is no axis {axis} in {rank} dimensions")
    return place % rank


def written(shape: Iterable[object]) -> str:
    """A shape as messages write it.

    >>> written((1, Most(3), OPEN))
    '(1, at most 3, ?)'
    """
    return (
        f"({', '.join('at most ' + str(int(n)) if type(n) is Most else '?' if n is OPEN else str(n) for n in shape)})"
    )
