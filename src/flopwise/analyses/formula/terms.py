"""Polynomials with whole coefficients in symbols, floors, minima and maxima: the expression behind an open size.

They add, multiply and divide downwards as integers do. What would need their value (comparing, converting to a number)
raises TypeError. Sums, products and quotients are remembered: a model repeats its layers, and so its sizes.

The normal form keeps one spelling for one size: a quotient of quotients is one quotient, signs and whole parts stand
outside, and a constant beside a single quotient stands inside: ``floor((H - 3)/2) + 1`` is ``floor((H - 1)/2)``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Literal, TypeAlias, cast

#: An integer, or a polynomial that is none.
Term: TypeAlias = "int | Polynomial"

#: Atoms and their powers, in the order of the atoms' texts.
Monomial: TypeAlias = "tuple[tuple[Atom, int], ...]"

#: What an atom is.
Kind: TypeAlias = Literal["symbol", "floor", "min", "max", "bits", "gcd"]

#: Results of arithmetic that are remembered.
REMEMBERED = 1 << 15


class Atom(str):
    """A factor in a polynomial; its text says what it is, and equal texts are equal atoms.

    A "symbol" has no parts; a "floor" has a numerator and a denominator, "min" and "max" have two terms, and so has
    "gcd", their greatest common divisor; "bits" has one term, of which it is the number of binary digits.
    """

    __slots__ = ("kind", "parts")
    kind: Kind
    parts: tuple[Term, ...]

    @classmethod
    def of(cls, kind: Kind, text: str, *parts: Term) -> Atom:
        """An atom of that kind."""
        atom = cls(text)
        atom.kind, atom.parts = kind, parts
        return atom


class Polynomial:
    """A sum of monomials. Frozen.

    >>> h = symbol("H")
    >>> (h + 1) * (h - 1), (8 * h + 7) // 8, (h + 1) // 2
    (H**2 - 1, H, floor((H + 1)/2))
    >>> ((h + 1) // 2 + 1) // 2
    floor((H + 3)/4)
    """

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: dict[Monomial, int]) -> None:
        self.terms = terms
        self._hash: int | None = None

    def __add__(self, other: object) -> Term:
        return _sum(self, other) if isinstance(other, int | Polynomial) else NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Polynomial:
        return cast(Polynomial, self * -1)

    def __sub__(self, other: object) -> Term:
        return _sum(self, -other) if isinstance(other, int | Polynomial) else NotImplemented

    def __rsub__(self, other: object) -> Term:
        return _sum(-self, other) if isinstance(other, int) else NotImplemented

    def __mul__(self, other: object) -> Term:
        return _product(self, other) if isinstance(other, int | Polynomial) else NotImplemented

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Term:
        return cast(Term, math.prod([self] * power)) if isinstance(power, int) and power >= 0 else NotImplemented

    def __floordiv__(self, by: object) -> Term:
        return floor(self, by) if isinstance(by, Polynomial) or (isinstance(by, int) and by > 0) else NotImplemented

    def __rfloordiv__(self, number: object) -> Term:
        return floor(number, self) if isinstance(number, int) else NotImplemented

    def __mod__(self, by: object) -> Term:
        return self - (self // by) * by if isinstance(by, int | Polynomial) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Polynomial) and self.terms == other.terms)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __bool__(self) -> bool:
        raise TypeError(f"whether {self} is zero depends on its symbols")

    def __repr__(self) -> str:
        return written(self)

    def atoms(self) -> Iterator[Atom]:
        """The atoms in it, those inside other atoms not included; one may come more than once."""
        return (atom for monomial in self.terms for atom, _ in monomial)


def symbol(name: str) -> Polynomial:
    """The polynomial that is one symbol."""
    return single(Atom.of("symbol", name))


def single(atom: Atom) -> Polynomial:
    """The polynomial that is one atom."""
    return Polynomial({((atom, 1),): 1})


@functools.lru_cache(REMEMBERED)
def _sum(left: Polynomial, right: Term) -> Term:
    return add_up((left, right))


@functools.lru_cache(REMEMBERED)
def _product(left: Polynomial, right: Term) -> Term:
    if isinstance(right, int):
        return Polynomial({m: c * right for m, c in left.terms.items()}) if right else 0
    terms: dict[Monomial, int] = {}
    for one, a in left.terms.items():
        for two, b in right.terms.items():
            both = _times(one, two)
            terms[both] = terms.get(both, 0) + a * b
    return _settled(terms)


@functools.lru_cache(REMEMBERED)
def floor(numerator: Term, denominator: Term) -> Term:
    """The numerator divided by the denominator, rounded down; what divides evenly stands outside the floor.

    >>> h = symbol("H")
    >>> -(-h // 2), h - h // 2, (h * h + h) // h, (h * 8) // (h + 1)
    (floor((H + 1)/2), floor((H + 1)/2), H + 1, floor((8*H)/(H + 1)))
    """
    if isinstance(denominator, Polynomial):
        return _quotient(numerator, denominator)
    if isinstance(numerator, int):
        return numerator // denominator
    if denominator < 0:
        return floor(-numerator, -denominator)
    constant = numerator.terms.get((), 0)
    whole = {m: math.trunc(c / denominator) for m, c in numerator.terms.items() if m and abs(c) >= denominator}
    remainder = {m: c - whole.get(m, 0) * denominator for m, c in numerator.terms.items() if m}
    remainder = {m: c for m, c in remainder.items() if c}
    if not remainder:
        return add_up((_settled(whole), constant // denominator))
    common = math.gcd(denominator, *remainder.values())
    sign = 1 if remainder[min(remainder)] > 0 else -1
    denominator //= common
    constant = constant // common if sign > 0 else denominator - 1 - constant // common
    inside = add_up((Polynomial({m: sign * c // common for m, c in remainder.items()}), constant))
    if denominator == 1:
        down: Term = inside
    else:
        down = _floor_of_floor(inside, denominator) if isinstance(inside, Polynomial) else inside // denominator
    return add_up((_settled(whole), down * sign))


def _floor_of_floor(numerator: Polynomial, denominator: int) -> Term:
    """The quotient, where a quotient in the numerator joins it: floor((floor(a/b) + c)/d) = floor((a + b*c)/(b*d))."""
    for monomial, coefficient in numerator.terms.items():
        if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1 and monomial[0][0].kind == "floor":
            inner, by = monomial[0][0].parts
            if isinstance(by, int):
                remainder = _settled({m: c for m, c in numerator.terms.items() if m != monomial})
                return floor(inner + remainder * by, by * denominator)
    return single(Atom.of("floor", f"floor({_over(numerator)}/{denominator})", numerator, denominator))


def _over(numerator: Term) -> str:
    """A numerator as text, in brackets where it is more than a name or a number."""
    text = written(numerator)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _quotient(numerator: Term, denominator: Polynomial) -> Term:
    """A quotient by a polynomial: whole where the division leaves no remainder, else a floor."""
    exact = _divided(numerator, denominator)
    if exact is not None:
        return exact
    under = f"({written(denominator)})"
    return single(Atom.of("floor", f"floor({_over(numerator)}/{under})", numerator, denominator))


def _divided(numerator: Term, denominator: Polynomial) -> Term | None:
    """The quotient of two polynomials that leaves no remainder; None where there is one."""
    if isinstance(numerator, int):
        return 0 if numerator == 0 else None
    lead = max(denominator.terms, key=_order)
    remainder: Term = numerator
    parts: list[Term] = []
    for _ in range(4 * len(numerator.terms)):
        if isinstance(remainder, int):
            break
        high = max(remainder.terms, key=_order)
        left = dict(high)
        for atom, power in lead:
            left[atom] = left.get(atom, 0) - power
        if min(left.values(), default=0) < 0 or remainder.terms[high] % denominator.terms[lead]:
            return None
        part = Polynomial(
            {tuple((a, p) for a, p in left.items() if p): remainder.terms[high] // denominator.terms[lead]}
        )
        part_term = _settled(part.terms)
        parts.append(part_term)
        remainder = remainder - denominator * part_term
    return add_up(parts) if remainder == 0 and isinstance(remainder, int) else None


def _order(monomial: Monomial) -> tuple[tuple[str, int], ...]:
    """A monomial's place in an order that products keep: by degree, then by atoms."""
    return (("", sum(p for _, p in monomial)), *((a, p) for a, p in monomial))


def bits(term: Term) -> Term:
    """The number of binary digits."""
    if isinstance(term, int):
        return term.bit_length()
    return single(Atom.of("bits", f"bits({written(term)})", term))


def gcd(left: Term, right: Term) -> Term:
    """The greatest common divisor.

    >>> gcd(7 * symbol("H") + 14, 7), gcd(symbol("H") + 9, 6), gcd(6, symbol("H"))
    (7, gcd(H + 3, 6), gcd(H, 6))
    """
    if isinstance(left, int) and isinstance(right, int):
        return math.gcd(left, right)
    if isinstance(left, int):
        left, right = right, left
    if isinstance(right, int):
        if right == 1:
            return 1
        if right:
            left = _settled({m: c % abs(right) for m, c in cast(Polynomial, left).terms.items()})
            if isinstance(left, int):
                return math.gcd(left, right)
    elif written(cast(Polynomial, left)) > written(right):
        left, right = right, left
    return single(Atom.of("gcd", f"gcd({written(left)}, {written(right)})", left, right))


def add_up(terms: Iterable[Term]) -> Term:
    """The sum."""
    sums: dict[Monomial, int] = {}
    for term in terms:
        if isinstance(term, int):
            sums[()] = sums.get((), 0) + term
        else:
            for monomial, coefficient in term.terms.items():
                sums[monomial] = sums.get(monomial, 0) + coefficient
    return _settled(sums)


def _settled(terms: dict[Monomial, int]) -> Term:
    """The terms without zeros as a polynomial in normal form, or the integer that is left."""
    nonzero = {m: c for m, c in terms.items() if c}
    if not nonzero:
        return 0
    if () in nonzero:
        if len(nonzero) == 1:
            return nonzero[()]
        if len(nonzero) == 2:
            return _absorbed(nonzero)
    elif len(nonzero) == 2:
        return _joined(nonzero)
    return Polynomial(nonzero)


def _absorbed(terms: dict[Monomial, int]) -> Term:
    """A multiple of one quotient and a constant: as much as goes of the constant moves inside."""
    (monomial, factor), constant = next((m, c) for m, c in terms.items() if m), terms[()]
    whole = constant // abs(factor) * (1 if factor > 0 else -1)
    if not whole or len(monomial) != 1 or monomial[0][1] != 1 or monomial[0][0].kind != "floor":
        return Polynomial(terms)
    numerator, denominator = monomial[0][0].parts
    moved = floor(numerator + whole * denominator, denominator) * factor
    remainder = constant - whole * factor
    return moved + remainder if remainder else moved


def _joined(terms: dict[Monomial, int]) -> Term:
    """A size less a part of itself is the other part: ``H - floor(H/2)`` is ``floor((H + 1)/2)``."""
    for monomial, factor in terms.items():
        other = next(m for m in terms if m != monomial)
        if terms[other] != -factor or factor > 0 or len(monomial) != 1 or monomial[0][1] != 1:
            continue
        if monomial[0][0].kind != "floor":
            continue
        numerator, denominator = monomial[0][0].parts
        if not isinstance(numerator, Polynomial) or not isinstance(denominator, int):
            continue
        if set(numerator.terms) - {()} == {other} and 0 < numerator.terms[other] < denominator:
            return floor(Polynomial({other: denominator}) - numerator + denominator - 1, denominator) * -factor
        if len(other) == 1 and other[0][1] == 1 and other[0][0].kind == "floor":
            inner, by = other[0][0].parts
            difference = numerator - inner
            if isinstance(by, int) and denominator == 2 * by and isinstance(difference, int) and difference % by == 0:
                return floor(inner + by - difference, denominator) * -factor  # halves of what was divided already
    return Polynomial(terms)


def _times(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items()))


def written(term: Term) -> str:
    """The term as text, expanded, the highest powers first."""
    if isinstance(term, int):
        return str(term)
    ordered = sorted(term.terms.items(), key=lambda mc: (-sum(p for _, p in mc[0]), mc[0]))
    text = ""
    for monomial, coefficient in ordered:
        factors = [str(abs(coefficient))] if abs(coefficient) != 1 or not monomial else []
        factors += [f"{a}**{p}" if p > 1 else str(a) for a, p in monomial]
        sign = " - " if coefficient < 0 else " + "
        text += (sign if text else sign.strip(" +")) + "*".join(factors)
    return text


# The range of a term over all values of its symbols, and the smaller and larger of two terms.


#: The least and the largest value of a term, None where it has no bound.
Bounds: TypeAlias = "tuple[int | None, int | None]"


@functools.lru_cache(REMEMBERED)
def bounds(term: Term) -> Bounds:
    """The range of a term over all values of its symbols, which are 0 or more.

    >>> from flopwise.analyses.formula.terms import symbol
    >>> bounds((symbol("H") + 3) // 2), bounds(least(symbol("H"), 5) - 1)
    ((1, None), (-1, 4))
    """
    if isinstance(term, int):
        return term, term
    low, high = _interval(term)
    if low is None or high is None:
        straight = _straight_bounds(term)
        low = straight[0] if low is None else low
        high = straight[1] if high is None else high
    return low, high


def _straight_bounds(term: Polynomial) -> Bounds:
    """The bounds of a sum in which every quotient lies between two straight lines over the symbols."""
    lines = _lines(term)
    if lines is None:
        return None, None
    (lower, below), (upper, above) = lines
    low = math.ceil(below) if all(slope >= 0 for slope in lower.values()) else None
    high = math.floor(above) if all(slope <= 0 for slope in upper.values()) else None
    return low, high


#: Slope over each symbol, and the value where all are 0.
_Line: TypeAlias = "tuple[dict[str, Fraction], Fraction]"


@functools.lru_cache(REMEMBERED)
def _lines(term: Term) -> tuple[_Line, _Line] | None:
    """A line below and a line above a term; None where it is no sum of multiples of symbols and quotients."""
    if isinstance(term, int):
        return ({}, Fraction(term)), ({}, Fraction(term))
    below: _Line = ({}, Fraction(0))
    above = below
    for monomial, coefficient in term.terms.items():
        if sum(power for _, power in monomial) > 1:
            return None
        ends = _atom_lines(monomial[0][0]) if monomial else _lines(1)
        if ends is None:
            return None
        lower, upper = ends if coefficient > 0 else ends[::-1]
        below, above = _moved(below, lower, coefficient), _moved(above, upper, coefficient)
    return below, above


def _atom_lines(atom: Atom) -> tuple[_Line, _Line] | None:
    if atom.kind == "symbol":
        line: _Line = ({str(atom): Fraction(1)}, Fraction(0))
        return line, line
    if atom.kind != "floor" or not isinstance(atom.parts[1], int):
        return None
    inner, by = _lines(atom.parts[0]), atom.parts[1]
    if inner is None:
        return None
    zero: _Line = ({}, Fraction(0))
    lower = _moved(zero, inner[0], Fraction(1, by))
    return (lower[0], lower[1] - Fraction(by - 1, by)), _moved(zero, inner[1], Fraction(1, by))


def _moved(line: _Line, other: _Line, factor: int | Fraction) -> _Line:
    """A line plus a multiple of another one."""
    slopes = dict(line[0])
    for name, slope in other[0].items():
        slopes[name] = slopes.get(name, Fraction(0)) + slope * factor
    return slopes, line[1] + other[1] * factor


def _interval(term: Polynomial) -> Bounds:
    """The bounds that the bounds of its parts give."""
    low: int | None = 0
    high: int | None = 0
    for monomial, coefficient in term.terms.items():
        product: Bounds = (1, 1)
        for atom, power in monomial:
            for _ in range(power):
                product = _multiplied(product, _atom_bounds(atom))
        if coefficient < 0:
            product = product[1], product[0]
        low = None if low is None or product[0] is None else low + coefficient * product[0]
        high = None if high is None or product[1] is None else high + coefficient * product[1]
    return low, high


def _multiplied(left: Bounds, right: Bounds) -> Bounds:
    """The bounds of a product of factors, of which nothing is said where one may be negative."""
    if left[0] is None or right[0] is None or left[0] < 0 or right[0] < 0:
        return None, None
    return left[0] * right[0], None if left[1] is None or right[1] is None else left[1] * right[1]


def _atom_bounds(atom: Atom) -> Bounds:
    if atom.kind in ("symbol", "bits"):
        return 0, None
    one, two = map(bounds, atom.parts)
    if atom.kind == "floor":
        return _quotient_bounds(one, two)
    if atom.kind == "gcd":
        positive = [end for end in (one, two) if end[0] is not None and end[0] > 0]
        return int(bool(positive)), min((end[1] for end in positive if end[1] is not None), default=None)
    lows, highs = ([end for end in ends if end is not None] for ends in zip(one, two, strict=True))
    if atom.kind == "min":
        return min(lows) if len(lows) == 2 else None, min(highs, default=None)
    return max(lows, default=None), max(highs) if len(highs) == 2 else None


def _quotient_bounds(numerator: Bounds, denominator: Bounds) -> Bounds:
    """The bounds of a quotient rounded down, of which little is said where it may be divided by 0 or less."""
    (low, high), (least, most) = numerator, denominator
    if low is None or least is None or least <= 0:
        return 0 if low is not None and low >= 0 else None, None
    divisor = most if low >= 0 else least
    return 0 if divisor is None else low // divisor, None if high is None else high // least


def least(left: Term, right: Term) -> Term:
    """The smaller of two terms."""
    return _extreme("min", left, right)


def largest(left: Term, right: Term) -> Term:
    """The larger of two terms."""
    return _extreme("max", left, right)


def _extreme(kind: Literal["min", "max"], left: Term, right: Term) -> Term:
    difference = left - right
    if isinstance(difference, int):
        return left if (difference < 0) == (kind == "min") else right
    lowest, highest = bounds(difference)
    if lowest is not None and lowest >= 0:
        return right if kind == "min" else left
    if highest is not None and highest <= 0:
        return left if kind == "min" else right
    return single(Atom.of(kind, f"{kind}({written(left)}, {written(right)})", left, right))


# The value of a term, and the term with others in place of its symbols.


def value(term: Term, at: Mapping[str, int], values: dict[str, int] | None = None) -> int:
    """The term's value.

    Args:
        term: what to evaluate.
        at: value of each symbol.
        values: those of atoms that were met, shared between terms that are evaluated at the same place.
    """
    if isinstance(term, int):
        return term
    values = {} if values is None else values
    total = 0
    for monomial, coefficient in term.terms.items():
        for atom, power in monomial:
            if atom not in values:
                values[atom] = _atom_value(atom, at, values)
            coefficient *= values[atom] ** power if power > 1 else values[atom]
        total += coefficient
    return total


def _atom_value(atom: Atom, at: Mapping[str, int], values: dict[str, int]) -> int:
    if atom.kind == "symbol":
        return at[atom]
    if atom.kind == "bits":
        return value(atom.parts[0], at, values).bit_length()
    left, right = (value(part, at, values) for part in atom.parts)
    if atom.kind == "gcd":
        return math.gcd(left, right)
    if atom.kind == "floor" and right == 0:
        return 0  # what is divided by nothing is nothing
    return left // right if atom.kind == "floor" else min(left, right) if atom.kind == "min" else max(left, right)


def magnitude(term: Term, at: Mapping[str, int]) -> int:
    """A bound on the size of all numbers on the way to the term's value, where no symbol exceeds the given values.

    >>> from flopwise.analyses.formula.terms import symbol
    >>> magnitude((symbol("H") * symbol("W") - 3) // 2, {"H": 10, "W": 20})
    203
    """
    if isinstance(term, int):
        return abs(term)
    total = 0
    for monomial, coefficient in term.terms.items():
        product = abs(coefficient)
        for atom, power in monomial:
            inside = abs(at[atom]) if atom.kind == "symbol" else max(magnitude(part, at) for part in atom.parts)
            product *= inside**power
        total += product
    return total


def substituted(term: Term, by: Mapping[str, Term]) -> Term:
    """The term with other terms in place of symbols.

    >>> from flopwise.analyses.formula.terms import symbol
    >>> substituted((symbol("H") + 1) // 2, {"H": 32 * symbol("k")})
    16*k
    """
    if isinstance(term, int):
        return term
    parts = []
    for monomial, coefficient in term.terms.items():
        part: Term = coefficient
        for atom, power in monomial:
            part = part * _substituted(atom, by) ** power
        parts.append(part)
    return add_up(parts)


def _substituted(atom: Atom, by: Mapping[str, Term]) -> Term:
    if atom.kind == "symbol":
        return by.get(atom, single(atom))
    if atom.kind == "bits":
        return bits(substituted(atom.parts[0], by))
    left, right = (substituted(part, by) for part in atom.parts)
    if atom.kind in ("floor", "gcd"):
        return floor(left, right) if atom.kind == "floor" else gcd(left, right)
    return least(left, right) if atom.kind == "min" else largest(left, right)


def symbols(term: Term) -> set[str]:
    """The names of the symbols in it, those inside other atoms included."""
    if isinstance(term, int):
        return set()
    names: set[str] = set()
    for atom in term.atoms():
        names |= {str(atom)} if atom.kind == "symbol" else set().union(*map(symbols, atom.parts))
    return names
