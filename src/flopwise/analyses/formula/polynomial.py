"""Polynomials with whole coefficients in symbols, floors, minima and maxima: what stands in for an open size.

They add, multiply and divide downwards as integers do, so that the rules of operators take them for extents. What would
need their value (comparing, converting to a number) raises TypeError.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, cast

#: An integer, or a polynomial that is none.
Term: TypeAlias = "int | Polynomial"

#: Atoms and their powers, in the order of the atoms' texts.
Monomial: TypeAlias = "tuple[tuple[Atom, int], ...]"


class Atom(str):
    """What polynomials are made of; the text says what it is, and equal texts are equal atoms.

    A "symbol" has no parts; a "floor" has a numerator and a denominator, "min" and "max" have two terms; an "unknown"
    is a size that follows no formula.
    """

    __slots__ = ("kind", "parts")
    kind: Literal["symbol", "floor", "min", "max", "unknown"]
    parts: tuple[Term, ...]

    @classmethod
    def of(cls, kind: Literal["symbol", "floor", "min", "max", "unknown"], text: str, *parts: Term) -> Atom:
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
        if not isinstance(other, int | Polynomial):
            return NotImplemented
        return add_up((self, other))

    __radd__ = __add__

    def __neg__(self) -> Polynomial:
        return Polynomial({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: object) -> Term:
        return add_up((self, -other)) if isinstance(other, int | Polynomial) else NotImplemented

    def __rsub__(self, other: object) -> Term:
        return add_up((-self, other)) if isinstance(other, int) else NotImplemented

    def __mul__(self, other: object) -> Term:
        if isinstance(other, int):
            return Polynomial({m: c * other for m, c in self.terms.items()}) if other else 0
        if not isinstance(other, Polynomial):
            return NotImplemented
        made: dict[Monomial, int] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                both = _times(left, right)
                made[both] = made.get(both, 0) + a * b
        return _settled(made)

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Term:
        return cast(Term, math.prod([self] * power)) if isinstance(power, int) and power >= 0 else NotImplemented

    def __floordiv__(self, by: object) -> Term:
        return floor(self, by) if isinstance(by, int) and by > 0 else NotImplemented

    def __mod__(self, by: object) -> Term:
        return self - floor(self, by) * by if isinstance(by, int) and by > 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

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


def floor(numerator: Term, denominator: int) -> Term:
    """The numerator divided by the denominator, rounded down; what divides without a rest stands outside the floor."""
    if isinstance(numerator, int):
        return numerator // denominator
    constant = numerator.terms.get((), 0)
    whole = {m: c // denominator for m, c in numerator.terms.items() if m and c // denominator}
    rest = {m: c % denominator for m, c in numerator.terms.items() if m and c % denominator}
    if not rest:
        return add_up((_settled(whole), constant // denominator))
    common = math.gcd(denominator, *rest.values())
    inside = add_up((Polynomial({m: c // common for m, c in rest.items()}), constant // common))
    denominator //= common
    down = _floor_of_floor(inside, denominator) if isinstance(inside, Polynomial) else None
    if down is None:
        down = single(Atom.of("floor", f"floor(({written(inside)})/{denominator})", inside, denominator))
    return add_up((_settled(whole), down))


def _floor_of_floor(numerator: Polynomial, denominator: int) -> Polynomial | None:
    """floor((floor(a/b) + c)/d) as floor((a + b·c)/(b·d)); None where the numerator is not of that form."""
    constant = numerator.terms.get((), 0)
    rest = [(m, c) for m, c in numerator.terms.items() if m]
    (monomial, coefficient), *others = rest
    (atom, power), *more = monomial
    if others or more or coefficient != 1 or power != 1 or atom.kind != "floor":
        return None
    inner, by = atom.parts
    return cast(Polynomial, floor(inner + by * constant, cast(int, by) * denominator))


def least(left: Term, right: Term) -> Term:
    """The smaller of two terms."""
    return _extreme("min", left, right)


def largest(left: Term, right: Term) -> Term:
    """The larger of two terms."""
    return _extreme("max", left, right)


def _extreme(kind: Literal["min", "max"], left: Term, right: Term) -> Term:
    if isinstance(left, int) and isinstance(right, int):
        return min(left, right) if kind == "min" else max(left, right)
    return single(Atom.of(kind, f"{kind}({written(left)}, {written(right)})", left, right))


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
    """The terms without zeros as a polynomial, or the integer that is left."""
    kept = {m: c for m, c in terms.items() if c}
    if not kept:
        return 0
    return kept[()] if len(kept) == 1 and () in kept else Polynomial(kept)


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
    left, right = (value(part, at, known) for part in atom.parts)
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
    left, right = (substituted(part, by) for part in atom.parts)
    if atom.kind == "floor":
        return floor(left, cast(int, right))
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
