"""The value of a term, and the term with others in place of its symbols."""

from __future__ import annotations

import math
from collections.abc import Mapping

from flopwise.analyses.formula.terms.bounds import largest, least
from flopwise.analyses.formula.terms.polynomial import Atom, Term, add_up, bits, floor, gcd, single


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

    >>> from flopwise.analyses.formula.terms.polynomial import symbol
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

    >>> from flopwise.analyses.formula.terms.polynomial import symbol
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
