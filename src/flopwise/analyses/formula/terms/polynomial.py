"""Polynomials with whole coefficients in symbols, floors, minima and maxima: the expression behind an open size.

They add, multiply and divide downwards as integers do. What would need their value (comparing, converting to a number)
raises TypeError. Sums, products and quotients are remembered: a model repeats its layers, and so its sizes.

The normal form keeps one spelling for one size: a quotient of quotients is one quotient, signs and whole parts stand
outside, and a constant beside a single quotient stands inside: ``floor((H - 3)/2) + 1`` is ``floor((H - 1)/2)``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
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
