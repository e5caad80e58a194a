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
from typing import Any, Literal, TypeAlias, cast

#: An integer, or a polynomial that is none.
Term: TypeAlias = "int | Polynomial"

#: Atoms and their powers, in the order of the atoms' texts.
Monomial: TypeAlias = "tuple[tuple[Atom, int], ...]"

#: What an atom is.
Kind: TypeAlias = Literal["symbol", "floor", "min", "max", "bits", "unknown"]

#: Results of arithmetic that are remembered.
REMEMBERED = 1 << 15


class Atom(str):
    """What polynomials are made of; the text says what it is, and equal texts are equal atoms.

    A "symbol" has no parts; a "floor" has a numerator and a denominator, "min" and "max" have two terms, "bits" has one
    term, of which it is the number of binary digits; an "unknown" is a size that follows no formula.
    """

    __slots__ = ("kind", "parts")
    kind: Kind
    parts: tuple[Term, ...]

    @classmethod
    def of(cls, kind: Kind, text: str, *parts: Term) -> Atom:
        """An atom of that kind."""
        made = cls(text)
        made.kind, made.parts = kind, parts
        return made


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


def unknown(name: str) -> Polynomial:
    """A size that follows no formula, under a name that tells it from others."""
    return single(Atom.of("unknown", f"unknown({name})"))


@functools.lru_cache(REMEMBERED)
def _sum(left: Polynomial, right: Term) -> Term:
    return add_up((left, right))


@functools.lru_cache(REMEMBERED)
def _product(left: Polynomial, right: Term) -> Term:
    if isinstance(right, int):
        return Polynomial({m: c * right for m, c in left.terms.items()}) if right else 0
    made: dict[Monomial, int] = {}
    for one, a in left.terms.items():
        for two, b in right.terms.items():
            both = _times(one, two)
            made[both] = made.get(both, 0) + a * b
    return _settled(made)


@functools.lru_cache(REMEMBERED)
def floor(numerator: Term, denominator: Term) -> Term:
    """The numerator divided by the denominator, rounded down; what divides without a rest stands outside the floor.

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
    rest = {m: c - whole.get(m, 0) * denominator for m, c in numerator.terms.items() if m}
    rest = {m: c for m, c in rest.items() if c}
    if not rest:
        return add_up((_settled(whole), constant // denominator))
    common = math.gcd(denominator, *rest.values())
    sign = 1 if rest[min(rest)] > 0 else -1
    denominator //= common
    constant = constant // common if sign > 0 else denominator - 1 - constant // common
    inside = add_up((Polynomial({m: sign * c // common for m, c in rest.items()}), constant))
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
                rest = _settled({m: c for m, c in numerator.terms.items() if m != monomial})
                return floor(inner + rest * by, by * denominator)
    return single(Atom.of("floor", f"floor({_over(numerator)}/{denominator})", numerator, denominator))


def _over(numerator: Term) -> str:
    """A numerator as text, in brackets where it is more than a name or a number."""
    text = written(numerator)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _quotient(numerator: Term, denominator: Polynomial) -> Term:
    """A quotient by a polynomial: whole where the division leaves no rest, else a floor."""
    exact = _divided(numerator, denominator)
    if exact is not None:
        return exact
    under = f"({written(denominator)})"
    return single(Atom.of("floor", f"floor({_over(numerator)}/{under})", numerator, denominator))


def _divided(numerator: Term, denominator: Polynomial) -> Term | None:
    """The quotient of two polynomials that leaves no rest; None where there is one."""
    if isinstance(numerator, int):
        return 0 if numerator == 0 else None
    lead = max(denominator.terms, key=_order)
    rest: Term = numerator
    parts: list[Term] = []
    for _ in range(4 * len(numerator.terms)):
        if isinstance(rest, int):
            break
        high = max(rest.terms, key=_order)
        left = dict(high)
        for atom, power in lead:
            left[atom] = left.get(atom, 0) - power
        if min(left.values(), default=0) < 0 or rest.terms[high] % denominator.terms[lead]:
            return None
        part = Polynomial({tuple((a, p) for a, p in left.items() if p): rest.terms[high] // denominator.terms[lead]})
        part_term = _settled(part.terms)
        parts.append(part_term)
        rest = rest - denominator * part_term
    return add_up(parts) if rest == 0 and isinstance(rest, int) else None


def _order(monomial: Monomial) -> tuple[tuple[str, int], ...]:
    """A monomial's place in an order that products keep: by degree, then by atoms."""
    return (("", sum(p for _, p in monomial)), *((a, p) for a, p in monomial))


def bits(term: Term) -> Term:
    """The number of binary digits."""
    if isinstance(term, int):
        return term.bit_length()
    return single(Atom.of("bits", f"bits({written(term)})", term))


def least(left: Term, right: Term) -> Term:
    """The smaller of two terms."""
    return _extreme("min", left, right)


def largest(left: Term, right: Term) -> Term:
    """The larger of two terms."""
    return _extreme("max", left, right)


def _extreme(kind: Literal["min", "max"], left: Term, right: Term) -> Term:
    apart = left - right
    if isinstance(apart, int):
        return left if (apart < 0) == (kind == "min") else right
    lowest, highest = bounds(apart)
    if lowest is not None and lowest >= 0:
        return right if kind == "min" else left
    if highest is not None and highest <= 0:
        return left if kind == "min" else right
    return single(Atom.of(kind, f"{kind}({written(left)}, {written(right)})", left, right))


#: The least and the largest value of a term, None where it has no bound.
Bounds: TypeAlias = "tuple[int | None, int | None]"


@functools.lru_cache(REMEMBERED)
def bounds(term: Term) -> Bounds:
    """Between which values a term lies, whatever its symbols are: 0 or more.

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
    above: _Line = ({}, Fraction(0))
    for monomial, coefficient in term.terms.items():
        if not monomial:
            below, above = _moved(below, ({}, Fraction(1)), coefficient), _moved(above, ({}, Fraction(1)), coefficient)
            continue
        ((atom, power),) = monomial[:1]
        if len(monomial) > 1 or power > 1:
            return None
        ends = _atom_lines(atom)
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
    if atom.kind in ("symbol", "unknown", "bits"):
        return 0, None
    one, two = map(bounds, atom.parts)
    if atom.kind == "floor":
        if one[0] is None or two[0] is None or two[0] <= 0:
            return (0, None) if one[0] is not None and one[0] >= 0 else (None, None)
        if one[0] >= 0:
            return (0 if two[1] is None else one[0] // two[1]), None if one[1] is None else one[1] // two[0]
        return one[0] // two[0], None if one[1] is None else one[1] // two[0]
    choose = min if atom.kind == "min" else max
    ends = []
    for a, b, sure in ((one[0], two[0], atom.kind == "min"), (one[1], two[1], atom.kind == "max")):
        known = [x for x in (a, b) if x is not None]
        ends.append(choose(known) if len(known) == 2 or (known and not sure) else None)
    return ends[0], ends[1]


def add_up(terms: Iterable[Term]) -> Term:
    """The sum."""
    made: dict[Monomial, int] = {}
    for term in terms:
        if isinstance(term, int):
            made[()] = made.get((), 0) + term
        else:
            for monomial, coefficient in term.terms.items():
                made[monomial] = made.get(monomial, 0) + coefficient
    return _settled(made)


def _settled(terms: dict[Monomial, int]) -> Term:
    """The terms without zeros as a polynomial in normal form, or the integer that is left."""
    kept = {m: c for m, c in terms.items() if c}
    if not kept:
        return 0
    if () in kept:
        if len(kept) == 1:
            return kept[()]
        if len(kept) == 2:
            return _absorbed(kept)
    elif len(kept) == 2:
        return _joined(kept)
    return Polynomial(kept)


def _absorbed(terms: dict[Monomial, int]) -> Term:
    """A multiple of one quotient and a constant: as much as goes of the constant moves inside."""
    (monomial, factor), constant = next((m, c) for m, c in terms.items() if m), terms[()]
    whole = constant // abs(factor) * (1 if factor > 0 else -1)
    if not whole or len(monomial) != 1 or monomial[0][1] != 1 or monomial[0][0].kind != "floor":
        return Polynomial(terms)
    numerator, denominator = monomial[0][0].parts
    moved = floor(numerator + whole * denominator, denominator) * factor
    rest = constant - whole * factor
    return moved + rest if rest else moved


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
            apart = numerator - inner
            if isinstance(by, int) and denominator == 2 * by and isinstance(apart, int) and apart % by == 0:
                return floor(inner + by - apart, denominator) * -factor  # halves of what was divided already
    return Polynomial(terms)


def _times(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items()))


def value(term: Term, at: Mapping[str, int], known: dict[str, int] | None = None) -> int:
    """The term's value.

    Args:
        term: what to evaluate; it must be free of unknowns.
        at: value of each symbol.
        known: values of atoms that were met, shared between terms that are evaluated at the same place.
    """
    if isinstance(term, int):
        return term
    known = {} if known is None else known
    total = 0
    for monomial, coefficient in term.terms.items():
        for atom, power in monomial:
            if atom not in known:
                known[atom] = _atom_value(atom, at, known)
            coefficient *= known[atom] ** power if power > 1 else known[atom]
        total += coefficient
    return total


def _atom_value(atom: Atom, at: Mapping[str, int], known: dict[str, int]) -> int:
    if atom.kind == "symbol":
        return at[atom]
    if atom.kind == "unknown":
        raise KeyError(atom)
    if atom.kind == "bits":
        return value(atom.parts[0], at, known).bit_length()
    left, right = (value(part, at, known) for part in atom.parts)
    if atom.kind == "floor" and right == 0:
        return 0  # what is divided by nothing is nothing
    return left // right if atom.kind == "floor" else min(left, right) if atom.kind == "min" else max(left, right)


def substituted(term: Term, by: Mapping[str, Term]) -> Term:
    """The term with other terms in place of symbols.

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
    if atom.kind in ("symbol", "unknown"):
        return by.get(atom, single(atom))
    if atom.kind == "bits":
        return bits(substituted(atom.parts[0], by))
    left, right = (substituted(part, by) for part in atom.parts)
    if atom.kind == "floor":
        return floor(left, right)
    return least(left, right) if atom.kind == "min" else largest(left, right)


def closed(term: Any) -> bool:
    """Whether the term is an integer or a polynomial free of unknowns."""
    if isinstance(term, Polynomial):
        return all(a.kind == "symbol" or (a.kind != "unknown" and all(map(closed, a.parts))) for a in term.atoms())
    return isinstance(term, int)


def symbols(term: Term) -> set[str]:
    """The names of the symbols in it, those inside other atoms included."""
    if isinstance(term, int):
        return set()
    found: set[str] = set()
    for atom in term.atoms():
        found |= {str(atom)} if atom.kind == "symbol" else set().union(*map(symbols, atom.parts))
    return found


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
