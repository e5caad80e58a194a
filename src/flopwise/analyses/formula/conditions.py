"""From guards to a domain: symbols that follow from others, steps between sizes, and the least and largest sizes."""

from __future__ import annotations

import contextlib
import functools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from flopwise._arguments import checked
from flopwise.analyses.formula.domains import Domain, OutsideError, Point, edge
from flopwise.analyses.formula.expressions import identifiers
from flopwise.analyses.formula.terms import (
    Atom,
    Polynomial,
    Term,
    add_up,
    bounds,
    single,
    substituted,
    symbol,
    symbols,
    value,
    written,
)
from flopwise.errors import InputError, did_you_mean

# Conditions on sizes: what holds wherever something was computed as it was.


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


#: Steps between sizes up to this are sought.
LARGEST_STEP = 5040

#: Sizes this large stand for all larger ones, where a bound is sought.
FAR = 1 << 20

#: Larger ones, of which none is a multiple of what sizes are divided by.
BEYOND = (FAR + 1, 2 * FAR + 37, 5 * FAR + 3)

#: Sizes up to this much above the least one count as small.
SMALL = 64

#: Random points at which conditions are tried.
TRIALS = 24


@dataclass(slots=True)
class Scales:
    """Sizes by the symbols' places: ``offset`` + ``step`` × place, or a term in other symbols."""

    names: Sequence[str]
    steps: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: Symbol -> its size in terms of the sizes of others.
    tied: dict[str, Term] = field(default_factory=dict)

    @property
    def free(self) -> list[str]:
        """The symbols that may be chosen."""
        return [n for n in self.names if n not in self.tied]

    def step(self, name: str) -> tuple[int, int]:
        """Step and offset of a symbol."""
        return self.steps.get(name, (1, 0))

    def terms(self) -> dict[str, Term]:
        """The size of each symbol as a term in places."""
        own: dict[str, Term] = {n: self.step(n)[0] * symbol(n) + self.step(n)[1] for n in self.free}
        return {**own, **{n: substituted(t, own) for n, t in self.tied.items()}}

    def trivial(self) -> bool:
        """True if every symbol has step 1 and offset 0, and none follows from others."""
        return not self.tied and all(s == (1, 0) for s in self.steps.values())


def scales(names: Sequence[str], guards: Iterable[Guard], hint: Point) -> Scales:
    """Steps, ties and only sizes that make equalities hold.

    Args:
        names: the symbols.
        guards: in the symbols' sizes.
        hint: sizes at which they hold.
    """
    scaling = Scales(names)
    equalities = [g.expression for g in guards if g.relation == "=="]
    chance = random.Random(1)
    for _ in range(2 * len(equalities) + 2):
        period = {n: _period(equalities, n, scaling) for n in names}
        scaling.steps = {n: (p, hint[n] % p) for n, p in period.items() if p > 1}
        broken = next((e for e in equalities if not _zero(e, scaling, hint, chance)), None)
        if broken is None:
            break
        if not _solve(broken, scaling, hint):
            equalities.remove(broken)  # stays a condition
    for name in list(scaling.steps):
        largest, _ = scaling.steps[name]
        for step in (d for d in range(1, largest + 1) if largest % d == 0):
            scaling.steps[name] = (step, hint[name] % step)
            if all(_zero(e, scaling, hint, random.Random(2)) for e in equalities):
                break
    scaling.steps = {n: s for n, s in scaling.steps.items() if s[0] > 1 and n in scaling.free}
    return scaling


def _period(equalities: Iterable[Polynomial], name: str, scaling: Scales) -> int:
    """The least common multiple of the denominators over a symbol."""
    period = 1
    for expression in equalities:
        for atom in _floors(expression):
            denominator = atom.parts[1]
            if isinstance(denominator, int) and name in symbols(single(atom)):
                both = math.lcm(period, denominator)
                period = both if both <= LARGEST_STEP else period
    return period


def _floors(expression: Term) -> Iterator[Atom]:
    """The quotients in an expression, those inside other atoms included."""
    if isinstance(expression, Polynomial):
        for atom in expression.atoms():
            if atom.kind == "floor":
                yield atom
            for part in atom.parts:
                yield from _floors(part)


def _zero(expression: Polynomial, scaling: Scales, hint: Point, chance: random.Random) -> bool:
    """True if an expression is 0 at random points that meet the steps and ties."""
    for _ in range(TRIALS):
        point = {n: hint[n] for n in scaling.names}
        for name in scaling.free:
            step, offset = scaling.step(name)
            point[name] = offset + step * chance.randint(1, 4000)
        for name, term in scaling.tied.items():
            point[name] = value(term, point)
        if value(expression, point):
            return False
    return True


def _solve(expression: Polynomial, scaling: Scales, hint: Point) -> bool:
    """Tie or fix a symbol so that the expression is zero; False where none is found."""
    own = substituted(expression, scaling.tied)
    if not isinstance(own, Polynomial):
        return own == 0
    inside = sorted(symbols(own), key=lambda n: -list(scaling.names).index(n))
    for name in inside if len(inside) > 1 else ():
        monomial = ((Atom.of("symbol", name), 1),)
        factor = own.terms.get(monomial, 0)
        others = add_up([own, Polynomial({monomial: -factor})]) if factor else own
        common = math.gcd(*others.terms.values()) if isinstance(others, Polynomial) else abs(others)
        if factor and common % factor == 0 and name not in symbols(others):
            sign = -1 if factor > 0 else 1
            term = others * sign // abs(factor) if isinstance(others, Polynomial) else sign * others // abs(factor)
            for other in scaling.tied:
                scaling.tied[other] = substituted(scaling.tied[other], {name: term})
            scaling.tied[name] = term
            return True
    product = _common_factor(own)
    if product is not None:
        return _solve(product, scaling, hint)
    return False


def _common_factor(expression: Polynomial) -> Polynomial | None:
    """The expression without the symbols that all its terms share; None where they share none."""
    monomials = [dict(m) for m in expression.terms]
    shared = {a: min(m.get(a, 0) for m in monomials) for a in monomials[0]}
    if not any(shared.values()):
        return None
    others: dict[tuple[tuple[Atom, int], ...], int] = {}
    for monomial, factor in expression.terms.items():
        left = tuple((a, p - shared.get(a, 0)) for a, p in monomial if p > shared.get(a, 0))
        others[left] = factor
    numbers = math.gcd(*others.values())
    return Polynomial({m: c // numbers for m, c in others.items()})


@dataclass(frozen=True, slots=True)
class Conditions:
    """Where formulas hold: guards in places, each with the symbols in it and what it was needed for."""

    guards: tuple[tuple[Guard, frozenset[str], str], ...]

    @classmethod
    def of(cls, guards: Mapping[Guard, str]) -> Conditions:
        """The conditions that guards state."""
        return cls(tuple((g, frozenset(symbols(g.expression)), why) for g, why in guards.items()))

    def broken(
        self, places: Point, about: str | None = None, relations: Sequence[str] = ("==", "!=", ">=")
    ) -> tuple[Guard, str] | None:
        """The first guard that does not hold, and what it was needed for.

        Args:
            places: the place of each symbol.
            about: only the guards with this symbol and no other in them.
            relations: only the guards that say this.
        """
        atoms: dict[str, int] = {}
        for guard, names, why in self.guards:
            relevant = guard.relation in relations and (about is None or names == {about})
            if relevant and not guard.holds(places, atoms):
                return guard, why
        return None

    def domain(self, name: str, scale: tuple[int, int], hint: Point) -> tuple[Domain, str]:
        """The places that a symbol may have as far as it alone decides, and what bounds them.

        Args:
            name: the symbol.
            scale: its step and offset.
            hint: a place for each symbol, at which all guards hold.
        """

        def holds(place: int) -> bool:
            return self.broken({**hint, name: place}, name, ("==", ">=")) is None

        low, high = _end(holds, hint[name], 0), _end(holds, hint[name], max(FAR, 4 * hint[name]))
        step, offset, why = *scale, ""
        if low is not None:  # sizes beyond those that are left out are no end: the condition stays
            low = next((place for place in range(min(low, SMALL)) if holds(place)), low) or None
        if high is not None and any(map(holds, BEYOND)):
            high = None
        bottom = low or 0
        for start in range(bottom, bottom + SMALL):  # what small sizes alone must not be
            if all(self.broken({**hint, name: p}, name, ("!=",)) is None for p in range(start, start + 2 * SMALL)):
                low = start if start > bottom else low
                break
        if low is not None:
            broken = self.broken({**hint, name: low - 1}, name)
            why = broken[1] if broken else ""
        if high is not None:
            broken = self.broken({**hint, name: high + 1}, name)
            why = broken[1] if broken else why
        first = 0 if low is None else low
        return Domain(name, step, offset, first * step + offset, None if high is None else high * step + offset), why


def _end(holds: Callable[[int], bool], start: int, end: int) -> int | None:
    """The place nearest to the end up to which a condition holds from the start on; None where it holds there too."""
    sign = 1 if end > start else -1
    near = [start + sign * d for d in range(1, 65) if (end - start - sign * d) * sign >= 0]
    far = [start + (end - start) * i // 64 for i in range(1, 65)]
    near_end = [end - sign * d for d in range(64) if (end - sign * d - start) * sign > 0]
    good = start
    for place in sorted({*near, *far, *near_end, end}, key=lambda p: abs(p - start)):
        if not holds(place):
            return edge(holds, good, place)
        good = place
    return None


# The symbols of a formula: their names in the model and in code, and the sizes at which the formula holds.


class Symbols:
    """The open sizes of a model."""

    domains: tuple[Domain, ...]
    conditions: tuple[str, ...]
    guards: Conditions

    @functools.partial(checked, name="Formula.named")
    def named(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes by the model's own names of the symbols.

        Raises:
            InputError: a symbol is unknown.
        """
        point = {self.own_name(name): size for name, size in sizes.items()}
        for name in point:
            if name not in self._names:
                raise self.no_symbol(name)
        return {d.name: point[d.name] for d in self.domains if d.name in point}

    def no_symbol(self, name: str) -> InputError:
        """The error that there is no symbol of a name, with the nearest."""
        symbols = [d.name for d in self.domains]
        return InputError(
            f"no symbol {name!r}{did_you_mean(name, symbols) or ';'} the symbols are {', '.join(symbols) or 'none'}"
        )

    def own_name(self, name: str) -> str:
        """The symbol that is called so in the formulas or in the model."""
        return self._names.get(name, name)

    def require_symbols(self, sizes: Mapping[str, int]) -> None:
        """Refuse a point that lacks a size for a symbol.

        Raises:
            InputError: a symbol is missing or unknown.
        """
        with contextlib.suppress(OutsideError):
            self.own_point(sizes)

    def places(self, point: Mapping[str, int]) -> dict[str, int]:
        """The places of sizes in their domains."""
        return {d.name: d.place(point[d.name]) for d in self.domains}

    @functools.cached_property
    def _names(self) -> dict[str, str]:
        """Spelling of a symbol -> its name."""
        names = [d.name for d in self.domains]
        written = (*identifiers(names, code=True).items(), *identifiers(names).items())
        return {**{clean: name for name, clean in written}, **{n: n for n in names}}

    def own_point(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The same of this way alone.

        Args:
            sizes: by the symbol's name, or as it is written in the formulas.

        Raises:
            InputError: a symbol is missing or unknown, or the formulas do not hold there.
        """
        point = {self._names.get(name, name): size for name, size in sizes.items()}
        if strange := [n for n in point if n not in self._names]:
            raise self.no_symbol(strange[0])
        for domain in self.domains:
            if domain.low == domain.high:
                point.setdefault(domain.name, domain.low)
            if domain.name not in point:
                raise InputError(f"a size for {domain.name} is missing")
            if not isinstance(point[domain.name], int) or not domain.holds(point[domain.name]):
                own = [c for c in self.conditions if c.startswith(f"{domain.name} ")]
                conditions = " and ".join(own or domain.conditions()) or f"{domain.name} >= {domain.low}"
                raise OutsideError(
                    f"the formulas do not hold for {domain.name} = {point[domain.name]}; they need {conditions}", point
                )
        point = {d.name: point[d.name] for d in self.domains}
        if broken := self.guards.broken(self.places(point)):
            guard, why = broken
            place = ", ".join(f"{n} = {s}" for n, s in point.items())
            message = f"the formulas do not hold for {place}; they need {guard}" + (f" ({why})" if why else "")
            raise OutsideError(message, point)
        return point
