"""The range of a term over all values of its symbols, and the smaller and larger of two terms."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Literal, TypeAlias

from flopwise.analyses.formula.terms.polynomial import REMEMBERED, Atom, Polynomial, Term, single, written

#: The least and the largest value of a term, None where it has no bound.
Bounds: TypeAlias = "tuple[int | None, int | None]"


@functools.lru_cache(REMEMBERED)
def bounds(term: Term) -> Bounds:
    """The range of a term over all values of its symbols, which are 0 or more.

    >>> from flopwise.analyses.formula.terms.polynomial import symbol
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
