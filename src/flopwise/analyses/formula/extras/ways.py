"""Programs that take another way at other sizes: a formula for each way, and which figures they share."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from flopwise.analyses.formula.domains import Domain, OutsideError, Point
from flopwise.analyses.formula.formula import Formula
from flopwise.analyses.formula.rows import NO_FORMULA
from flopwise.errors import FlopwiseError

#: Formulas that are derived for one program, and sizes at which one is sought and not found.
MOST_WAYS, MOST_MISSES = 24, 4

#: Points of a way at which its figures are compared with those of another.
COMPARED = 16


def with_ways(main: Formula, tried: Mapping[str, Sequence[int]], derive: Callable[[Point], Formula]) -> Formula:
    """The formula with one more for each other way that the program takes.

    Args:
        main: the formula of one way.
        tried: sizes of each symbol at which programs may take other ways, ordinary ones first.
        derive: the formula of the way at a point, perhaps with numbers in place of some symbols; raises OutsideError
            where the model does not take these sizes.
    """
    if main.tied:  # one of the symbols follows from others on this way, and has no sizes of its own
        return main
    ways, misses, closed = [main], 0, True
    seen: set[tuple[int, ...]] = set()
    refused: list[Point] = []

    def is_open(point: Point) -> bool:
        """True if no formula holds at a point, and the model did not refuse smaller sizes."""
        larger = any(all(point[n] >= size for n, size in smaller.items()) for smaller in refused)
        return not larger and holding(ways, point) is None

    while point := next(filter(is_open, _points(ways, tried, seen)), None):
        try:
            way = derive(point)
        except OutsideError:
            refused.append(point)
            continue
        except FlopwiseError:
            way = None
        if way is not None and not way.tied and not any(row.note == NO_FORMULA for row in way.rows):
            ways.append(_spread(way, main, point))
        else:
            misses, closed = misses + 1, False
        if len(ways) == MOST_WAYS or misses == MOST_MISSES:
            closed = False
            break
    return replace(main, ways=tuple(ways[1:]), closed=closed)


def _spread(way: Formula, main: Formula, point: Point) -> Formula:
    """A formula in which some symbols are numbers as one in all symbols."""
    own = {domain.name: domain for domain in way.domains}
    fixed = {name: size for name, size in point.items() if name not in own}
    return replace(
        way,
        domains=tuple(
            own.get(d.name) or Domain(d.name, low=point[d.name], high=point[d.name])
            for d in main.domains
            if d.name in own or d.name in fixed
        ),
        conditions=(*(f"{name} = {size}" for name, size in fixed.items()), *way.conditions),
        verified_at=tuple({name: {**fixed, **p}[name] for name in point} for p in way.verified_at),
    )


def holding(ways: Iterable[Formula], sizes: Point) -> Formula | None:
    """The first of several formulas that holds at a point; None where none does."""
    for way in ways:
        try:
            way.own_point(sizes)
        except OutsideError:
            continue
        if way.everywhere:
            return way
    return None


def _points(ways: Sequence[Formula], tried: Mapping[str, Sequence[int]], seen: set[tuple[int, ...]]) -> Iterator[Point]:
    """Points that were not seen yet: at the sizes that are tried and those beside the ends of the domains."""
    sizes = {}
    for name, usual in tried.items():
        ends = [end for way in ways for d in way.domains if d.name == name for end in (d.low - 1, d.high)]
        near = [size for end in ends if end is not None for size in (end, end + 1) if size >= min(usual)]
        sizes[name] = dict.fromkeys((*usual, *near))
    for key in itertools.product(*sizes.values()):
        if key not in seen:
            seen.add(key)
            yield dict(zip(sizes, key, strict=True))


def pieces(formula: Formula, figure: str) -> list[tuple[Formula, list[Formula]]]:
    """The ways of a formula by what a figure is on them: one whose term is right on all beside it, with these."""
    groups: list[tuple[Formula, list[Formula]]] = []
    for way in (formula, *formula.ways):
        for first, others in groups:
            if _agrees(first, way, figure):
                others.append(way)
                break
        else:
            groups.append((way, [way]))
    return groups


def _agrees(one: Formula, other: Formula, figure: str) -> bool:
    """True if a figure's term in one formula is right at points where another one holds."""
    first, second = one.term(figure), other.term(figure)
    if first is None or second is None or one.whole.exact(figure) != other.whole.exact(figure):
        return first is second
    return all(one.evaluated(first, p) == other.evaluated(second, p) for p in _points_of(other))


def _points_of(formula: Formula) -> Iterator[Point]:
    """Points at which a formula holds."""
    yield from formula.verified_at
    chance = random.Random(5)
    for _ in range(COMPARED):
        point = {d.name: _some(d, chance) for d in formula.domains}
        if holding([formula], point) is not None:
            yield point


def _some(domain: Domain, chance: random.Random) -> int:
    low = domain.place(domain.low)
    high = low + 10 ** chance.randint(1, 5) if domain.high is None else domain.place(domain.high)
    return domain.size(chance.randint(low, max(low, high)))


def regions(formula: Formula, ways: Sequence[Formula]) -> list[str]:
    """Where several ways of a formula are taken, in words, one region each; regions side by side are one."""
    lows = {
        d.name: min(o.low for w in (formula, *formula.ways) for o in w.domains if o.name == d.name)
        for d in formula.domains
    }
    boxes = [({d.name: d for d in way.domains}, frozenset(_others(way))) for way in ways]
    merged = True
    while merged:
        merged = False
        for i, j in itertools.permutations(range(len(boxes)), 2):
            both = _together(boxes[i], boxes[j])
            if both is not None:
                boxes = [both, *(box for k, box in enumerate(boxes) if k not in (i, j))]
                merged = True
                break
    return [" and ".join((*_bounds(box, lows), *sorted(others))) for box, others in boxes]


_Box = tuple[dict[str, Domain], frozenset[str]]


def _together(one: _Box, other: _Box) -> _Box | None:
    """Two regions as one, where they are beside each other; None where they are not."""
    symbols = [name for name, domain in one[0].items() if domain != other[0][name]]
    if one[1] != other[1] or len(symbols) > 1:
        return None
    if not symbols:
        return one
    low, high = one[0][symbols[0]], other[0][symbols[0]]
    if low.step != 1 or high.step != 1 or low.high is None or not low.low <= high.low <= low.high + 1:
        return None
    top = None if high.high is None else max(low.high, high.high)
    return {**one[0], symbols[0]: replace(low, high=top)}, one[1]


def _bounds(box: Mapping[str, Domain], lows: Mapping[str, int]) -> Iterator[str]:
    """The sizes of the symbols in a region."""
    for name, domain in box.items():
        if domain.low == domain.high:
            yield f"{name} = {domain.low}"
            continue
        conditions = list(domain.conditions())
        if domain.low > lows[name] and not any(f"{name} >=" in text for text in conditions):
            conditions.append(f"{name} >= {domain.low}")
        yield from conditions


def _others(way: Formula) -> Iterator[str]:
    """The conditions that are not on one symbol alone, without what they are needed for."""
    own = {text for domain in way.domains for text in domain.conditions()}
    for condition in way.conditions:
        bare = re.sub(r" \((?!.* \().*\)$", "", condition)
        if bare not in own:
            yield bare
