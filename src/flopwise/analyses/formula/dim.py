"""Sizes that are numbers and expressions at once, and the conditions under which what was computed with them holds.

A ``Dim`` is an integer, its *hint*: the size that it has in one concrete run of a model. Beside it stands its
expression in the symbols, which arithmetic carries along. So code for integers runs unchanged. Where it compares sizes,
it takes the hint's way, and a ``Guard`` records under which condition that way is the right one.
"""

from __future__ import annotations

import functools
import math
import operator
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol, TypeAlias, cast

from flopwise.analyses.formula.conditions import Relation, recorded
from flopwise.analyses.formula.terms import Polynomial, Term, bits, floor, gcd, largest, least
from flopwise.operators.size import MisfitError, UnresolvedError

# Fractions that scales stand for, and where floating-point arithmetic with them misses whole numbers.
#
# A side says where the floating-point value may lie while the fraction is whole: 0 there as well, 1 above it, -1 on
# both sides.


#: Element type -> up to which number it has all whole ones; beyond, what models round was rounded before.
WHOLE = {"float32": 1 << 24, "float16": 1 << 11, "bfloat16": 1 << 8}

#: Denominators up to this large are what a scale such as 0.33333334 stands for.
DENOMINATOR = 4096

#: Multiples of a denominator at which a scale is tried.
MULTIPLES = 4096


class Quotient(Protocol):
    """A size divided by a number."""

    over: Term
    by: int
    #: Its side.
    apart: int

    @property
    def rounded(self) -> bool: ...
    @property
    def shifts(self) -> bool: ...


def scale(number: float, double: bool) -> tuple[Fraction, int]:
    """The fraction that a scale stands for, and the side on which its products miss those of the fraction.

    Args:
        number: the scale.
        double: whether products with it have 64 bits though it has 32.
    """
    exact = Fraction(number)
    near = exact.limit_denominator(DENOMINATOR)
    fraction = near if abs(near - exact) <= abs(exact) / 1_000_000 else exact
    return fraction, _side(exact, fraction, double)


@functools.lru_cache(maxsize=256)
def _side(exact: Fraction, fraction: Fraction, double: bool) -> int:
    """The side on which a scale's products miss those of its fraction, whole or half."""
    if exact == fraction:
        return 0
    scale = float(exact)
    single = not double and _single(scale) == scale  # a number of ONNX's float, as its products are
    half = 2 - fraction.denominator % 2
    errors = set()
    for k in range(MULTIPLES):
        product = fraction.denominator // half * k * scale
        errors.add((_single(product) if single else product) - fraction.numerator * k / half)
    return -1 if min(errors) < 0 else int(max(errors) > 0)


def _single(number: float) -> float:
    """A number in 32 bits."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def side_of_sum(left: Quotient, right: Quotient) -> int:
    """The side of a sum, which is both as if the two were rounded."""
    if min(left.apart, right.apart) < 0 or (left.rounded and right.rounded):
        return -1
    return max(left.apart, right.apart)


def side_of_product(left: Quotient, right: Quotient) -> int:
    """The side of a product, which is both as if it were rounded more than once."""
    if min(left.apart, right.apart) < 0:
        return -1
    for one, other in ((left, right), (right, left)):
        if one.rounded and (other.by > 2 if isinstance(one.over, int) else not other.shifts):
            return -1
    return max(left.apart, right.apart)


#: A number or a size: what arithmetic with sizes takes and gives.
Number: TypeAlias = Any


def require(expression: Number, relation: Relation) -> None:
    """Record a condition on a size with what is being recorded."""
    guards = recorded()
    if guards is not None:
        guards.require(term(expression), relation)


def term(size: Number) -> Term:
    """The expression of a size: of a plain number the number."""
    if type(size) is Dim:
        return size.expression
    return size if type(size) is int or isinstance(size, Polynomial) else int(size)


def dim(hint: int, expression: Term) -> int:
    """A size with its expression; a plain integer where the expression is one."""
    if type(expression) is int:
        return expression
    size = int.__new__(Dim, hint)
    size.expression = cast(Polynomial, expression)
    return size


def smaller(left: int, right: int) -> int:
    """The smaller of two sizes, as an expression that holds whichever it is."""
    return dim(min(int(left), int(right)), least(term(left), term(right)))


def larger(left: int, right: int) -> int:
    """The larger of two sizes, as an expression that holds whichever it is."""
    return dim(max(int(left), int(right)), largest(term(left), term(right)))


class Dim(int):
    """A size: an integer, the hint, with its expression in the symbols.

    >>> from flopwise.analyses.formula.terms import symbol
    >>> h = dim(224, symbol("H"))
    >>> out = (h + 2 * 3 - 7) // 2 + 1
    >>> out == 112, term(out)
    (True, floor((H + 1)/2))
    """

    #: How it stands among the kinds of sizes, see ``flopwise.operators.size``.
    precedence = 1
    expression: Polynomial

    @property
    def identity(self) -> Polynomial:
        """The expression, which tells it from sizes that are the same number at the hint."""
        return self.expression

    smaller, larger = staticmethod(smaller), staticmethod(larger)

    @staticmethod
    def same(one: int, other: int) -> int:
        """The simpler of two sizes that must be one, which becomes a condition.

        Raises:
            MisfitError: they differ at the hint.
        """
        difference = term(one) - term(other)
        if isinstance(difference, int) and difference == 0:
            return one
        if int(one) != int(other):
            raise MisfitError(f"{int(one)} meets {int(other)}")
        require(difference, "==")
        return other if _simpler(other, one) else one

    @staticmethod
    def common(one: int, other: int) -> int:
        """The extent that two are broadcast to; that they are the same, or that one is 1, becomes a condition."""
        if int(one) != int(other):
            for extent, wide in ((one, other), (other, one)):
                if int(extent) == 1:
                    require(term(extent) - 1, "==")
                    return wide
        return Dim.same(one, other)

    @staticmethod
    def require(size: int, relation: Relation) -> None:
        """Record how a size must stand to 0."""
        require(size, relation)

    @staticmethod
    def settled(size: int) -> int:
        """A size as the number that it is at the hint, which it must be elsewhere, too."""
        require(term(size) - int(size), "==")
        return int(size)

    def require_size(self, extent: int | None) -> None:
        """Record that it is a size in the target of a Reshape: 0 would stand for an extent, -1 for what is left.

        Args:
            extent: what 0 would stand for; None where it stands for itself.
        """
        require(self.expression if extent is None else _no_place(extent, self), ">=")

    def scaled(self, factor: float) -> int:
        """The size times a factor, rounded down; extents become 32 bits wide floats before they are scaled."""
        require(WHOLE["float32"] - self.expression, ">=")
        product: Ratio = Ratio.of(self) * Ratio.of(factor, double=True)
        return product.floor()

    def ratio(self) -> Ratio:
        """The size as a floating-point number."""
        return Ratio.of(self)

    def __add__(self, other: Number) -> Number:
        if type(other) is Dim:
            return dim(int.__add__(self, other), self.expression + other.expression)
        if type(other) is int:
            return dim(int.__add__(self, other), self.expression + other) if other else self
        return _mixed(self, other, "__add__")

    __radd__ = __add__

    def __sub__(self, other: Number) -> Number:
        if type(other) is Dim or type(other) is int:
            return dim(int.__sub__(self, other), self.expression - term(other))
        return _mixed(self, other, "__sub__")

    def __rsub__(self, other: Number) -> Number:
        if type(other) is int:
            return dim(int.__sub__(other, self), other - self.expression)
        return _mixed(self, other, "__rsub__")

    def __mul__(self, other: Number) -> Number:
        if type(other) is int:
            return dim(int.__mul__(self, other), self.expression * other) if other != 1 else self
        if type(other) is Dim:
            return dim(int.__mul__(self, other), self.expression * other.expression)
        return _mixed(self, other, "__mul__")

    __rmul__ = __mul__

    def __neg__(self) -> Number:
        return dim(int.__neg__(self), -self.expression)

    def __pos__(self) -> Dim:
        return self

    __trunc__ = __floor__ = __ceil__ = __pos__

    def __round__(self, digits: Number = None) -> int:
        return self if digits is None or digits >= 0 else int.__round__(self, digits)

    def __abs__(self) -> Number:
        return self if self >= 0 else -self

    def __pow__(self, power: Number, modulo: Number = None) -> Number:
        if modulo is None and type(power) is int and power >= 0:
            return dim(int.__pow__(self, power), self.expression**power)
        if modulo is None and power == 0.5 and int(self) >= 0:
            return Root(self)
        return int.__pow__(self, power, modulo)

    def __floordiv__(self, other: Number) -> Number:
        if (type(other) is Dim or type(other) is int) and other:
            return dim(int.__floordiv__(self, other), floor(self.expression, term(other)))
        return _mixed(self, other, "__floordiv__")

    def __rfloordiv__(self, other: Number) -> Number:
        if type(other) is int and self:
            return dim(int.__floordiv__(other, self), floor(other, self.expression))
        return _mixed(self, other, "__rfloordiv__")

    def __mod__(self, other: Number) -> Number:
        if type(other) is Dim or type(other) is int:
            return self - self // other * other
        return _mixed(self, other, "__mod__")

    def __rmod__(self, other: Number) -> Number:
        return other - other // self * self if type(other) is int else _mixed(self, other, "__rmod__")

    def __divmod__(self, other: Number) -> Number:
        return self // other, self % other

    def __truediv__(self, other: Number) -> Number:
        plain = isinstance(other, int | float) and not _bounded(other)
        return Ratio.of(self) / other if plain else NotImplemented

    def __rtruediv__(self, other: Number) -> Number:
        return Ratio.of(other) / self if isinstance(other, int | float) else NotImplemented

    def __lshift__(self, other: Number) -> Number:
        return self * (1 << int(other))

    def __rshift__(self, other: Number) -> Number:
        return self // (1 << int(other))

    def common_divisor(self, other: int) -> int:
        """The greatest common divisor of two sizes."""
        return dim(math.gcd(int(self), int(other)), gcd(self.expression, term(other)))

    def bit_length(self) -> int:
        """The number of binary digits."""
        return dim(int.bit_length(self), bits(self.expression))

    def __index__(self) -> int:
        return int.__int__(self)

    def __float__(self) -> float:
        return int.__float__(self)

    def __eq__(self, other: object) -> bool:
        return False if _bounded(other) else _compared(self, other, "__eq__", "==", "!=")

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Number) -> bool:
        return NotImplemented if _bounded(other) else _ordered(other, self, 1)

    def __le__(self, other: Number) -> bool:
        return NotImplemented if _bounded(other) else _ordered(other, self, 0)

    def __gt__(self, other: Number) -> bool:
        return NotImplemented if _bounded(other) else _ordered(self, other, 1)

    def __ge__(self, other: Number) -> bool:
        return NotImplemented if _bounded(other) else _ordered(self, other, 0)

    def __bool__(self) -> bool:
        return not _compared(self, 0, "__eq__", "==", "!=")

    __hash__ = int.__hash__

    def __reduce__(self) -> Number:
        return dim, (int(self), self.expression)


def _simpler(one: int, other: int) -> bool:
    """True if a size is simpler than another one: a plain number, or the expression that is shorter as text."""
    if type(one) is not Dim or type(other) is not Dim:
        return type(one) is int and type(other) is Dim
    return len(str(one.expression)) < len(str(other.expression))


def _no_place(extent: int, size: Dim) -> Term:
    """The term that must not be negative for a size in a target to be one, where 0 would stand for this extent."""
    if _times(extent, size) is not None:  # the extent is 0 where the size is
        return 0
    more = _times(size, extent)
    return (size.expression if more is None else more) - 1


def _times(product: int, factor: int) -> Term | None:
    """By what a size is multiplied to be another one; None where that is no whole number."""
    if type(factor) is not Dim:
        return None
    other = floor(term(product), factor.expression)
    return other if term(product) - other * factor.expression == 0 else None


def _bounded(other: object) -> bool:
    """True if a size is of a kind that the data decide, which computes the result of both."""
    return getattr(other, "precedence", 0) > Dim.precedence


class Root(float):
    """The square root of a size: a plain number, but where it is rounded conditions say for which sizes it is that.

    >>> from flopwise.analyses.formula.terms import symbol
    >>> int(Root(dim(300, symbol("n"))))
    17
    """

    _of: int

    def __new__(cls, size: int) -> Root:
        root = super().__new__(cls, int(size) ** 0.5)
        root._of = size
        return root

    def _whole(self, number: int, least: int, most: int) -> int:
        require(term(self._of) - least, ">=")
        require(most - term(self._of), ">=")
        return number

    def floor(self) -> int:
        """The root rounded down, k where the size is k² to k² + 2k."""
        k = math.isqrt(int(self._of))
        return self._whole(k, k * k, k * k + 2 * k)

    def ceil(self) -> int:
        """The root rounded up, k where the size is k² - 2k + 2 to k²."""
        k = -math.floor(-float(self))
        return self._whole(k, k * k - 2 * k + 2 if k else 0, k * k)

    __int__ = __trunc__ = __floor__ = floor
    __ceil__ = ceil

    def __round__(self, digits: Number = None) -> Number:
        """The nearest whole number, k where the size is k² - k + 1 to k² + k."""
        if digits is not None:
            return float.__round__(self, digits)
        k = float.__round__(self)
        return self._whole(k, k * k - k + 1 if k else 0, k * k + k)


def _mixed(size: Dim, other: object, operation: str) -> object:
    """Arithmetic of a size with what is not a whole number: a ratio, while the other is one or a float."""
    if _bounded(other):
        return NotImplemented
    if isinstance(other, bool):
        return getattr(size, operation)(int(other))
    if isinstance(other, float | Ratio | Fraction):
        return getattr(Ratio.of(size), operation)(other)
    return getattr(int, operation)(size, other)


def _compared(size: Dim, other: object, operation: str, yes: Relation, no: Relation) -> bool:
    if not isinstance(other, int):
        return False
    truth = int.__eq__(size, other)
    guards = recorded()
    if guards is not None:
        guards.require(size.expression - term(other), yes if truth else no)
    return truth


def _ordered(large: object, small: object, least_margin: int) -> bool:
    """True if one number is larger than another, by so much at least; on integers this becomes a condition."""
    if not isinstance(large, int) or not isinstance(small, int):
        ends = Ratio.of(large), Ratio.of(small)
        return ends[0] > ends[1] if least_margin else ends[0] >= ends[1]
    margin = int(large) - int(small) - least_margin
    guards = recorded()
    if guards is not None:
        expression = term(large) - term(small) - least_margin
        guards.require(expression if margin >= 0 else -1 - expression, ">=")
    return margin >= 0


class Ratio(float):
    """A size divided by a number, as floating-point arithmetic on sizes makes it: exact until it is rounded."""

    #: The value at the hint.
    number: Fraction
    over: Term
    by: int
    #: What the floating-point value may be where this ratio is whole: 0 the same, 1 larger, -1 smaller as well.
    apart: int

    def __new__(cls, number: Fraction, over: Term, by: int, apart: int = 0) -> Ratio:
        ratio = float.__new__(cls, float(number))
        ratio.number, ratio.over, ratio.by, ratio.apart = number, over, by, apart
        return ratio

    @property
    def identity(self) -> tuple[Term, int, int]:
        """Numerator, denominator and rounding, which tell it from ratios that are the same number at the hint."""
        return self.over, self.by, self.apart

    def rounded_to(self, way: Callable[[Number], int], dtype: str) -> int:
        """The ratio made whole; that its element type has the whole numbers beside it becomes a condition.

        Args:
            way: how.
            dtype: its element type.

        Raises:
            UnresolvedError: the type does not have them at the hint.
        """
        most = WHOLE.get(dtype)
        if most is not None:
            most = most * 2 // 3 if self.rounded else most  # rounding stays away from the next whole number
            if self.number * self.by > most:
                raise UnresolvedError
            require(most - self.over, ">=")
        return way(self)

    def ratio(self) -> Ratio:
        """Itself."""
        return self

    @property
    def rounded(self) -> bool:
        """True if its denominator is no power of two, so that floating-point arithmetic has to round it."""
        return self.by & (self.by - 1) != 0

    @property
    def shifts(self) -> bool:
        """True if products with it are exact: it is plus or minus a power of two, or one over it."""
        over = abs(self.over) if isinstance(self.over, int) else 0
        return over > 0 and over & (over - 1) == 0 and not self.rounded

    @classmethod
    def of(cls, size: Number, double: bool = False) -> Ratio:
        """The ratio that a number or size is.

        Args:
            size: the number or size.
            double: whether products with it have 64 bits though it has 32.
        """
        if isinstance(size, Ratio):
            return size
        if _bounded(size):
            raise UnresolvedError
        if isinstance(size, int):
            return cls(Fraction(int(size)), term(size), 1)
        chosen, side = scale(size, double)
        return cls(chosen, chosen.numerator, chosen.denominator, side)

    def __add__(self, other: Number) -> Number:
        if not isinstance(other, int | float | Fraction):
            return NotImplemented
        that = Ratio.of(other)
        return Ratio(
            self.number + that.number,
            self.over * that.by + that.over * self.by,
            self.by * that.by,
            side_of_sum(self, that),
        )

    __radd__ = __add__

    def __neg__(self) -> Ratio:
        return Ratio(-self.number, -self.over, self.by, -1 if self.apart else 0)

    def __sub__(self, other: Number) -> Number:
        if not isinstance(other, int | float | Fraction):
            return NotImplemented
        return self + -Ratio.of(other)

    def __rsub__(self, other: Number) -> Number:
        return Ratio.of(other) - self

    def __mul__(self, other: Number) -> Number:
        if not isinstance(other, int | float | Fraction):
            return NotImplemented
        that = Ratio.of(other)
        side = side_of_product(self, that)
        return Ratio(self.number * that.number, self.over * that.over, self.by * that.by, side)

    __rmul__ = __mul__

    def __truediv__(self, other: Number) -> Number:
        if not isinstance(other, int | float | Fraction):
            return NotImplemented
        that = Ratio.of(other)
        if isinstance(that.over, int):
            sign = -1 if that.over < 0 else 1
            side = -1 if that.apart or that.rounded or (self.rounded and not that.shifts) else self.apart
            return Ratio(self.number / that.number, self.over * that.by * sign, self.by * abs(that.over), side)
        over = floor(self.over * that.by, that.over)
        if isinstance(over, Polynomial) and any(a.kind == "floor" and a.parts[1] == that.over for a in over.atoms()):
            return float(self.number / that.number)  # a quotient of sizes stays a plain number
        return Ratio(self.number / that.number, over, self.by)

    def __rtruediv__(self, other: Number) -> Number:
        return Ratio.of(other) / self

    def _leave_out_whole(self) -> None:
        """Record that the formula does not hold where the ratio is whole: 90 * 0.7 is 62.99999999999999."""
        if self.number.denominator == 1:
            require(self.over - int(self.number * self.by), "==")
        else:
            require(self.over - floor(self.over, self.by) * self.by, "!=")

    def floor(self) -> int:
        """The ratio rounded down."""
        if self.apart < 0:
            self._leave_out_whole()
        return dim(math.floor(self.number), floor(self.over, self.by))

    def ceil(self) -> int:
        """The ratio rounded up."""
        if self.apart:
            self._leave_out_whole()
        return dim(math.ceil(self.number), -floor(-self.over, self.by))

    __floor__ = floor
    __ceil__ = ceil

    def __trunc__(self) -> int:
        return self.floor() if self.number >= 0 else self.ceil()

    __int__ = __trunc__

    def __round__(self, digits: Number = None) -> int:
        """The nearest whole number; halves go to the even one."""
        up, by = self.over * 2 + self.by, 2 * self.by
        nearest = floor(up, by)
        if self.by % 2 == 0:  # halfway between two, and the larger one is odd
            nearest = nearest - (floor(up - by, 2 * by) - floor(up - by - 1, 2 * by))
        if self.apart:
            halfway = self + Fraction(1, 2)
            halfway._leave_out_whole()
        return dim(round(self.number), nearest)

    def __floordiv__(self, other: Number) -> Number:
        return Ratio.of((self / other).floor()) if isinstance(self / other, Ratio) else float(self) // other

    def _sides(self, other: object) -> tuple[int, int]:
        """Two sizes that compare as the ratios do."""
        that = Ratio.of(other)
        return (
            dim(int(self.number * self.by * that.by), self.over * that.by),
            dim(int(that.number * that.by * self.by), that.over * self.by),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | float | Ratio) and bool(operator.eq(*self._sides(other)))

    def __lt__(self, other: Number) -> bool:
        return bool(operator.lt(*self._sides(other)))

    def __le__(self, other: Number) -> bool:
        return bool(operator.le(*self._sides(other)))

    def __gt__(self, other: Number) -> bool:
        return bool(operator.gt(*self._sides(other)))

    def __ge__(self, other: Number) -> bool:
        return bool(operator.ge(*self._sides(other)))

    def __hash__(self) -> int:
        return hash(self.number)
