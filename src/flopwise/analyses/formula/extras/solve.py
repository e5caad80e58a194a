"""The largest size within a budget."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from flopwise.analyses.formula.domains import Domain, edge
from flopwise.analyses.formula.expressions import identifiers
from flopwise.analyses.formula.extras.source import evaluated, monotone
from flopwise.analyses.formula.terms import Term
from flopwise.analyses.quantities import quantity
from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.analyses.formula.formula import Formula

# Points written as texts: ``batch=1,2,4 seq=128:4096:128``.


#: More points than these are refused.
MOST_POINTS = 100_000

#: How points are written, for messages.
FORM = "NAME=VALUES, where VALUES are whole numbers with commas between them or a range START:STOP:STEP"


def grid(texts: Sequence[str]) -> Iterator[dict[str, int]]:
    """Every combination of the values in the texts, the last name changing fastest.

    Args:
        texts: each of one or more ``name=values`` with spaces between them. A range holds its stop if a step leads
            there; its step is 1 unless it is given.

    Raises:
        InputError: a text is not of that form, a name comes twice, or there are too many combinations.

    >>> list(grid(["batch=1,2 seq=128:256:64"]))[1:3]
    [{'batch': 1, 'seq': 192}, {'batch': 1, 'seq': 256}]
    """
    values: dict[str, Sequence[int]] = {}
    for text in itertools.chain.from_iterable(map(str.split, texts)):
        name, equals, spec = text.rpartition("=")
        if not equals or not name:
            raise InputError(f"cannot understand {text!r}; write {FORM}")
        if name in values:
            raise InputError(f"{name} is given twice")
        values[name] = _values(spec, text)
    if math.prod(map(len, values.values())) > MOST_POINTS:
        raise InputError(f"these are more than {MOST_POINTS:,} points; take larger steps")
    return (dict(zip(values, point, strict=True)) for point in itertools.product(*values.values()))


def _values(spec: str, text: str) -> Sequence[int]:
    sizes: list[int] = []
    for part in spec.split(","):
        numbers = part.split(":")
        if not all(n.isascii() and n.isdigit() and len(n) < 19 for n in numbers) or len(numbers) > 3:
            raise InputError(f"cannot understand {text!r}; write {FORM}")
        start, stop, step = (*map(int, numbers), 1)[:3] if len(numbers) > 1 else (int(part), int(part), 1)
        if step == 0 or stop < start:
            raise InputError(f"the range {part!r} in {text!r} is empty; write {FORM}")
        if (stop - start) // step >= MOST_POINTS:
            raise InputError(f"these are more than {MOST_POINTS:,} points; take larger steps")
        sizes.extend(range(start, stop + 1, step))
    return list(dict.fromkeys(sizes))


#: Largest place that is tried, and how many places are tried one by one where a cost may fall again.
LARGEST, SCANNED = 1 << 40, 200_000

#: How many sizes below those for which the formula holds, or beside them, are tried, each with a profile.
BELOW = 64

_FIGURE = r"(?:\d+\s*\*\s*)?\w+"
_FORM = re.compile(
    rf"\s*(?P<figure>{_FIGURE}(?:\s*\+\s*{_FIGURE})*)\s*(?P<sign><=?|≤)\s*(?P<bound>\S.*?)(\s+for\s+(?P<symbol>\S+))?\s*"
)


class Budget(NamedTuple):
    """A figure, or a sum of figures, and what it may be at most, and the symbol that is sought."""

    figure: str
    most: int
    symbol: str | None = None

    @property
    def figures(self) -> tuple[tuple[int, str], ...]:
        """The factor of each figure in the sum.

        >>> Budget("4*weight_bytes + saved_bytes", 24).figures
        ((4, 'weight_bytes'), (1, 'saved_bytes'))
        """
        parts = (part.replace(" ", "").rpartition("*") for part in self.figure.split("+"))
        return tuple((int(times or 1), figure) for times, _, figure in parts)


def budget(text: str) -> Budget:
    """A budget from a text such as ``macs <= 10G for H`` or ``weight_bytes + peak_activation_bytes <= 24G for N``.

    Raises:
        InputError: the text is not of that form.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise InputError(f"cannot understand {text!r}; write for example 'macs <= 10G for H'")
    figures = [figure for _, figure in Budget(match["figure"], 0).figures]
    if len({figure.endswith("bytes") for figure in figures}) > 1:
        raise InputError(f"{match['figure']}: bytes are added to what is no bytes")
    most = quantity(match["bound"], figures[0].endswith("bytes"))
    whole = int(most) if match["sign"] != "<" else -(-most.numerator // most.denominator) - 1
    return Budget(" ".join(match["figure"].split()), whole, match["symbol"])


class Solution(NamedTuple):
    """The largest size of a symbol within a budget, and the figure there; None where every size is too large."""

    symbol: str
    size: int | None
    value: int | None
    #: Whether every larger size was tried or is known to cost more.
    certain: bool
    #: Where the formula does not hold, and the smallest size that was tried with profiles; None where it was not asked.
    profiled: int | None = None


def solve(formula: Formula, limit: Budget, sizes: Mapping[str, int]) -> Solution:
    """The largest size of a symbol at which a figure stays within a budget.

    Args:
        formula: what the model costs.
        limit: the budget.
        sizes: the sizes of the other symbols.

    Raises:
        InputError: a symbol is missing or unknown, or the figure grows with none.
    """
    name, domain = _symbol(formula, limit, sizes)
    terms = [_term(formula, figure) for _, figure in limit.figures]
    search = _Search(formula, limit, sizes, name, domain)
    low = domain.place(domain.low)
    high = LARGEST if domain.high is None else domain.place(domain.high)
    formula.require_symbols({**sizes, name: domain.size(low)})
    rises = all(monotone(term, domain.name) for term in terms)
    best, certain = (search.halved(low, high), True) if rises else search.scanned(low, high)
    profiled = None
    if best < low:
        best, profiled = search.below(low)
    elif best >= LARGEST:
        raise InputError(f"{limit.figure} does not grow with {domain.name}: every size is within the budget")
    if best < 0:
        return Solution(domain.name, None, None, certain, profiled)
    return Solution(domain.name, domain.size(best), search.cost(best), certain, profiled)


class _Search(NamedTuple):
    """The places of a symbol's sizes in its domain, and the cost at each."""

    formula: Formula
    limit: Budget
    sizes: Mapping[str, int]
    name: str
    domain: Domain

    def cost(self, place: int) -> int | None:
        """The figure, None where the formulas do not hold."""
        point = {**self.sizes, self.name: self.domain.size(place)}
        try:
            return _sum(self.limit, [self.formula.value(figure, **point) for _, figure in self.limit.figures])
        except InputError:
            return None

    def fits(self, place: int) -> bool:
        """True where the figure is known and within the budget."""
        return (value := self.cost(place)) is not None and value <= self.limit.most

    def halved(self, low: int, high: int) -> int:
        """The last place that fits, of a cost that never falls; below ``low`` for none."""
        best = _last(lambda place: (self.cost(place) or 0) <= self.limit.most, low, high)
        return next(filter(self.fits, range(best, max(best - SCANNED, low - 1), -1)), low - 1)

    def scanned(self, low: int, high: int) -> tuple[int, bool]:
        """The last place that fits, of those that are tried one by one; and whether these are all."""
        places = range(low, min(high, low + SCANNED) + 1)
        along = [_along(self.formula, figure, self.domain, places, self.sizes) for _, figure in self.limit.figures]
        costs = {place: _sum(self.limit, each) for place, *each in zip(places, *along, strict=True)}
        best = max((p for p, value in costs.items() if value is not None and value <= self.limit.most), default=low - 1)
        holes = [p for p, value in costs.items() if value is None and p > best]
        return max(filter(self.fits, holes[:BELOW]), default=best), high - low < SCANNED and len(holes) <= BELOW

    def below(self, low: int) -> tuple[int, int | None]:
        """The last place before the formulas hold that fits, -1 for none; and the smallest size that was profiled."""
        least = max(low - BELOW, self.domain.place(0), 0)
        best = next(filter(self.fits, range(low - 1, least - 1, -1)), -1)
        return best, self.domain.size(least) if low > least else None


def _term(formula: Formula, figure: str) -> Term:
    """The formula of a figure.

    Raises:
        InputError: it has none.
    """
    term = formula.term(figure)
    if term is None:
        raise InputError(f"{figure} has no formula")
    return term


def _sum(limit: Budget, values: Sequence[int | None]) -> int | None:
    """The values of a budget's figures, added up; None where one is not known."""
    known = [times * value for (times, _), value in zip(limit.figures, values, strict=True) if value is not None]
    return sum(known) if len(known) == len(values) else None


def _symbol(formula: Formula, limit: Budget, sizes: Mapping[str, int]) -> tuple[str, Domain]:
    """The symbol that is sought, as the caller names it, and its domain."""
    free = [d.name for d in formula.domains if d.low != d.high and d.name not in sizes]
    name = limit.symbol or (free[0] if len(free) == 1 else "")
    if not name:
        raise InputError(f"name the symbol to solve for, such as 'for {free[0] if free else 'H'}', and give the others")
    domain = next((d for d in formula.domains if d.name == formula.own_name(name)), None)
    if domain is None:
        raise formula.no_symbol(name)
    return name, domain


def _along(
    formula: Formula, figure: str, domain: Domain, places: Sequence[int], sizes: Mapping[str, int]
) -> list[int | None]:
    """A figure at several places of one symbol, with the others' sizes; None where no formula holds."""
    import numpy

    names = identifiers([d.name for d in formula.domains])
    fixed = {**{d.name: d.low for d in formula.domains if d.low == d.high}, **formula.named(sizes)}
    arrays = {names[name]: numpy.full(len(places), size, object) for name, size in fixed.items()}
    arrays[names[domain.name]] = numpy.array([domain.size(place) for place in places], object)
    ways = [way for way in (formula, *formula.ways) if way.everywhere and way.term(figure) is not None]
    values, outside = evaluated([way.pieces([figure])[figure] for way in ways], arrays)
    costs: list[int | None] = [int(value) for value in values.tolist()]
    for place in outside.tolist():
        costs[place] = None
    return costs


def _last(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The last place up to which a condition holds that does not come back; below ``low`` where it never holds."""
    if not holds(low):
        return low - 1
    step, good = 1, low
    while good + step <= high and holds(good + step):
        good, step = good + step, step * 2
    return edge(holds, good, min(good + step, high + 1))
