"""Conditions on sizes: what holds wherever something was computed as it was."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from flopwise.analyses.formula.terms.bounds import bounds
from flopwise.analyses.formula.terms.evaluation import value
from flopwise.analyses.formula.terms.polynomial import Atom, Polynomial, Term, add_up, single, written

#: What a guard says of its expression: that it is zero, is not, or is not negative.
Relation: TypeAlias = Literal["==", "!=", ">="]


class Guard(NamedTuple):
    """A condition on sizes: the expression compared with zero."""

    expression: Polynomial
    relation: Relation

    def holds(self, at: Mapping[str, int], atoms: dict[str, int] | None = None) -> bool:
        """True if the condition is met for the given value of each symbol."""
        number = value(self.expression, at, atoms)
        return number == 0 if self.relation == "==" else number != 0 if self.relation == "!=" else number >= 0

    def __str__(self) -> str:
        """The condition with positive terms on both sides."""
        left = Polynomial({m: c for m, c in self.expression.terms.items() if c > 0})
        right = Polynomial({m: -c for m, c in self.expression.terms.items() if c < 0})
        return f"{written(left) or 0} {self.relation} {written(right) or 0}"


@dataclass(slots=True)
class Guards:
    """The guards of a computation, each with what it was needed for first."""

    reasons: dict[Guard, str] = field(default_factory=dict)
    #: What is being computed, or what finds it out.
    reason: str | Callable[[], str] = ""

    def require(self, expression: Term, relation: Relation) -> None:
        """Record a condition, unless it holds for all values of the symbols."""
        if not isinstance(expression, Polynomial) or decided(expression, relation) is not None:
            return
        shared, rest = factored(expression)
        less = isinstance(rest, tuple)
        each_factor = relation == (">=" if less else "!=")
        divisible = not less and isinstance(rest, Polynomial) and decided(rest, relation) is not False
        if shared is not None and (each_factor or divisible):
            for atom in shared if each_factor else ():
                self.require(single(atom) - int(relation == ">="), relation)
            self.require(rest[0] - 1 if isinstance(rest, tuple) else rest, relation)
            return
        if relation == ">=":
            expression = _without_floor(expression)
        elif len(expression.terms) == 1 and len(next(iter(expression.terms))) == 1:  # a multiple of a power
            expression = single(next(expression.atoms()))
        elif expression.terms[max(expression.terms)] < 0:
            expression = -expression
        guard = Guard(expression, relation)
        if guard not in self.reasons:
            self.reasons[guard] = self.reason if isinstance(self.reason, str) else self.reason()

    def add(self, others: Guards) -> None:
        """Record the guards of a part of the computation, too."""
        for guard, why in others.reasons.items():
            self.reasons.setdefault(guard, why)


def factored(expression: Polynomial) -> tuple[list[Atom] | None, Any]:
    """The atoms that all terms share, and the sum without them; in a tuple where 1 was taken off their product.

    Only atoms that are never negative are taken out; None in place of them where there are none.
    """
    terms = {m: c for m, c in expression.terms.items() if m}
    constant = expression.terms.get((), 0)
    if constant not in (0, -1) or not terms:
        return None, expression
    powers = [dict(m) for m in terms]
    shared = [a for a in powers[0] if all(a in p for p in powers) and decided(single(a), ">=")]
    if not shared or (len(terms) == 1 and len(powers[0]) == 1):
        return None, expression
    least = {a: min(p[a] for p in powers) for a in shared}
    remainder = {tuple((a, p - least.get(a, 0)) for a, p in m if p > least.get(a, 0)): c for m, c in terms.items()}
    factor = add_up([Polynomial(remainder)]) if set(remainder) != {()} else remainder[()]
    return shared, factor if constant == 0 else (factor,)


def _without_floor(expression: Polynomial) -> Polynomial:
    """The numerator where the expression is one quotient: both are negative at the same sizes."""
    if len(expression.terms) == 1:
        ((monomial, factor),) = expression.terms.items()
        if factor > 0 and len(monomial) == 1 and monomial[0][0].kind == "floor" and monomial[0][1] == 1:
            numerator, denominator = monomial[0][0].parts
            if isinstance(denominator, int) and isinstance(numerator, Polynomial):
                return _without_floor(numerator)
    common = math.gcd(*(c for m, c in expression.terms.items() if m))
    if common == 1:
        return expression
    return Polynomial({m: c // common for m, c in expression.terms.items() if c // common})


def decided(expression: Term, relation: Relation) -> bool | None:
    """The truth of a condition if it is one for all values of the symbols; None where the bounds leave it open."""
    low, high = bounds(expression)
    if relation == ">=":
        return True if low is not None and low >= 0 else False if high is not None and high < 0 else None
    if (low is not None and low > 0) or (high is not None and high < 0):
        return relation == "!="
    return None if low != 0 or high != 0 else relation == "=="


_RECORDED: ContextVar[Guards | None] = ContextVar("recorded", default=None)


def recorded() -> Guards | None:
    """The guards into which conditions are recorded now; None for none."""
    return _RECORDED.get()


@contextlib.contextmanager
def recording(guards: Guards | None) -> Iterator[None]:
    """Record into these guards the conditions that comparisons of sizes set up; None: into none."""
    token = _RECORDED.set(guards)
    try:
        yield
    finally:
        _RECORDED.reset(token)
