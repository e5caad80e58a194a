"""Which sizes a model takes: a first point, the steps between sizes, their bounds, and samples of the model's graph."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flopwise.analyses.formula.candidates import FIRST, different, equal, single, ties
from flopwise.analyses.formula.domains import Domain
from flopwise.analyses.formula.polynomial import Term, value, written
from flopwise.errors import FlopwiseError, InputError, ModelError
from flopwise.graph import Graph

#: Symbol -> size.
Point = Mapping[str, int]

#: Steps between sizes that are tried, smallest first, where a multiple of all of them leads to another size.
STEPS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 320)

#: Distances at least one of which such a step has in common.
LEAPS = (6720, 384, 64)

#: How far a symbol goes from the first point when all are large; with many symbols less, as extents are multiplied.
FAR, NEARER, MANY = (49999, 51001, 53003), (1999, 2203, 2411, 2609, 2801, 3001), 3

#: A model that is read more often than this follows no rule that could be found.
MOST_READS = 160

#: After so many refusals for the same reason, before any size was taken, no further one is tried.
MOST_ALIKE = 3

#: How often a new point is sought, and how far the nearer ones are from the first point.
TRIES, CLOSE = 8, 24

#: Symbols of which nothing is a size, too: what a cache of earlier tokens is called.
MAY_BE_ZERO = re.compile("past|cache|prefix|history", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sample:
    """The graph of the model at one point."""

    point: Point
    graph: Graph
    #: Whether a size is the least that is possible, where shapes may be degenerate: no formula is fitted to it.
    edge: bool = False


@dataclass(frozen=True, order=True, slots=True)
class Fault:
    """What is wrong with a model at a point; less is better."""

    unresolved: int
    odd: int


#: The fault of a point at which the model cannot be read.
REFUSED = Fault(1 << 60, 1)


def fault(graph: Graph) -> Fault:
    """Shapes that are missing or cannot be, and the kinds of warnings."""
    tensors = [t for node in graph.nodes for t in node.known_outputs]
    missing = sum(not t.resolved for t in tensors)
    negative = sum(any(isinstance(d, int) and d < 0 for d in t.shape or ()) for t in tensors)
    kinds = {re.sub(r"\d+", "#", warning) for warning in graph.warnings if "has a dimension of 0" not in warning}
    return Fault(missing, negative + len(kinds))


def unknown_loops(names: Sequence[str], read: Callable[[Point], Graph], hints: Mapping[str, int]) -> list[str]:
    """The loops of a model of which nobody knows how often they run, by name.

    Args:
        names: the symbols.
        read: the graph at a point.
        hints: sizes that the model is known to take.
    """
    for size in FIRST:
        try:
            graph = read({**{n: size(i) for i, n in enumerate(names)}, **hints})
        except FlopwiseError:
            continue
        owners = [b.owner for node in graph.nodes for b in node.within if b.trips is None]
        return list(dict.fromkeys(graph.nodes[owner].name for owner in owners))
    return []


@dataclass
class Explorer:
    """Reads a model at one point after the other and learns where it can be read."""

    names: Sequence[str]
    #: The graph at a point; raises FlopwiseError where the model cannot have these sizes.
    read: Callable[[Point], Graph]
    #: Sizes that the model is known to take.
    hints: Mapping[str, int] = field(default_factory=dict)
    #: Graphs by point, None for one that the model does not take.
    seen: dict[tuple[int, ...], Graph | None] = field(default_factory=dict)
    #: Why the model did not take the last point that it did not take.
    refusal: str = ""
    #: How often in a row it was the same reason.
    alike: int = 0
    #: Symbol -> why it cannot have just any size.
    refusals: dict[str, str] = field(default_factory=dict)
    domains: dict[str, Domain] = field(default_factory=dict)
    #: Symbol -> what it always is in terms of others.
    tied: dict[str, Term] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    #: What is wrong with the model at its best point, and whether that is as good as it gets.
    best: Fault = REFUSED
    sound: bool = False
    #: Points that the model does not take although each size may occur.
    gaps: list[Point] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(0)

    @property
    def free(self) -> list[str]:
        """The symbols that may be chosen."""
        return [n for n in self.names if n not in self.tied]

    def graph(self, point: Point) -> Graph | None:
        """The graph at a point of the free symbols, None where the model refuses it.

        Raises:
            InputError: the model was read too often already.
        """
        whole = {n: value(self.tied[n], point) if n in self.tied else point[n] for n in self.names}
        key = tuple(whole.values())
        if key not in self.seen:
            if len(self.seen) >= MOST_READS:
                raise InputError(f"no rule was found for the sizes that the model takes{self._why()}")
            try:
                self.seen[key] = self.read(whole) if min(key, default=0) >= 0 else None
            except FlopwiseError as error:
                self.alike = self.alike + 1 if str(error) == self.refusal else 0
                if isinstance(error, ModelError) and self.alike > MOST_ALIKE and not any(self.seen.values()):
                    raise  # whatever the sizes, the model cannot be read
                self.refusal = str(error)
                self.seen[key] = None
        return self.seen[key]

    def _why(self) -> str:
        return f" ({self.refusal})" if self.refusal else ""

    def takes(self, point: Point, edge: bool = False) -> bool:
        """Whether the model takes a point as well as the first; if so, the point becomes a sample."""
        graph = self.graph(point)
        if graph is None or len(graph.nodes) != len(self.samples[0].graph.nodes):
            return False
        found = fault(graph)
        if found.unresolved > self.best.unresolved or found.odd > self.best.odd:
            self.refusal = next(iter(graph.warnings), "")
            return False
        if not any(s.point == point for s in self.samples):
            self.samples.append(Sample(dict(point), graph, edge))
        return True

    def explore(self, lower: bool = True) -> None:
        """Find a first point, then the step and the bounds of each symbol.

        Args:
            lower: whether the least sizes are sought as well.

        Raises:
            InputError: no point was found that the model takes, or only one.
        """
        first = self._first()
        self.samples = [Sample(first, self._sure(first))]
        for name in self.free:
            self.domains[name] = self._domain(name, first)
        if all(d.low == d.high for d in self.domains.values()):
            sizes = ", ".join(f"{n} = {s}" for n, s in first.items())
            raise InputError(f"the model takes {sizes} and no other size that was tried{self._why()}")
        self._bounds(first, far=True)
        if lower:
            self._bounds(first, far=False)

    def _sure(self, point: Point) -> Graph:
        graph = self.graph(point)
        assert graph is not None
        return graph

    def _grade(self, point: Point) -> Fault:
        graph = self.graph(point)
        return REFUSED if graph is None else fault(graph)

    def _first(self) -> dict[str, int]:
        """The point that the model takes best; the search ends at one without any fault."""
        best: dict[str, int] = self._better(different(self.names, self.hints, large=True)) or {}
        if not self.sound:
            best = self._tie() or best
        if not self.sound:
            best = self._better(single(self.free, best, self.hints)) or best
        if not self.sound:
            best = self._better(equal(self.free)) or best
        if not best:
            raise InputError(f"no sizes were found that the model takes; fix one with --dim{self._why()}")
        return best

    def _better(self, points: Iterable[dict[str, int]]) -> dict[str, int] | None:
        """The best of the points if it is better than all before."""
        found = None
        for point in points:
            grade = self._grade(point)
            # shapes that are missing without a warning at two points alike are missing everywhere
            self.sound = grade == Fault(0, 0) or (grade == self.best and not grade.odd)
            if grade < self.best:
                self.best, found = grade, point
            if self.sound:
                break
        return found

    def _tie(self) -> dict[str, int] | None:
        """A better point with one symbol tied to others."""
        found, tied = None, dict(self.tied)
        for name, term in ties(self.names):
            self.tied = {name: term}
            point = self._better([{n: FIRST[0](i) for i, n in enumerate(self.names) if n != name}])
            if point:
                found, tied = point, self.tied
            if self.sound:
                break
        self.tied = tied
        return found

    def _domain(self, name: str, first: Point) -> Domain:
        """The smallest step between the sizes of a symbol; a single size where there is none."""
        base = first[name]
        self.refusals[name] = ""

        def takes(*distances: int) -> bool:
            return all(self.takes({**first, name: base + distance}) for distance in distances)

        if takes(17) or takes(1, 2, 5):
            return Domain(name, low=base, high=base + 17)
        self.refusals[name] = self.refusal
        leap = next((leap for leap in LEAPS if takes(leap)), 0)
        for step in STEPS if leap else ():
            if leap % step == 0 and takes(step, 3 * step):
                return Domain(name, step, base % step, low=base, high=base + 3 * step)
        return Domain(name, 1, 0, base, base)

    def _bounds(self, first: Point, far: bool) -> None:
        """Set the lower or upper bound of each symbol: a far or the least size, all at once, or else one by one."""
        movable = [n for n in self.free if self.domains[n].low != self.domains[n].high]
        ends = {n: self._end(self.domains[n], i, first[n], far) for i, n in enumerate(movable)}
        together = self.takes({**first, **ends}, not far)
        for name, end in ends.items():
            if together or self.takes({**first, name: end}, not far):
                bound = None if far else end
            else:
                if far:
                    self.refusals[name] = self.refusals[name] or self.refusal
                bound = self.edge(name, first, end, not far)
            domain = self.domains[name]
            self.domains[name] = replace(domain, high=bound) if far else replace(domain, low=bound or 0)

    def _end(self, domain: Domain, index: int, base: int, far: bool) -> int:
        if far:
            distances = FAR if len(self.free) <= MANY else NEARER
            return base + domain.step * max(distances[index % len(distances)] // domain.step, 999)
        zero = domain.offset == 0 and MAY_BE_ZERO.search(domain.name)
        return domain.offset or (0 if zero else domain.step)

    def edge(self, name: str, first: Point, end: int, low: bool, holds: Callable[[Point], bool] | None = None) -> int:
        """The size nearest to ``end`` that the model takes, between the first point and there.

        Args:
            name: the symbol.
            first: a point that is taken.
            end: a size that is not.
            low: whether ``end`` is below.
            holds: what else must hold.
        """
        domain = self.domains[name]
        good, bad = domain.place(first[name]), domain.place(end)
        stored = (d for n in self.samples[0].graph.nodes for t in n.known_inputs for d in t.shape or ())
        likely = sorted({p for d in stored if isinstance(d, int) and _between(p := domain.place(d), good, bad)})

        def fine(place: int) -> bool:
            point = {**first, name: domain.size(place)}
            return self.takes(point, low) and (holds is None or holds(point))

        while abs(bad - good) > 1:
            inside = [p for p in likely if _between(p, good, bad)]
            middle = inside[len(inside) // 2] if inside else (good + bad) // 2
            if not fine(middle):
                bad = middle
                continue
            good, beyond = middle, middle + (1 if bad > middle else -1)
            if inside and beyond != bad and not fine(beyond):
                bad = beyond
        return domain.size(good)

    def places(self, point: Point) -> dict[str, int]:
        """The point on the symbols' own scales."""
        return {n: d.place(point[n]) for n, d in self.domains.items()}

    def fresh(self, wishes: Mapping[str, tuple[int, int]] | None = None) -> Sample | None:
        """A sample at a new random point; None when none was found.

        Args:
            wishes: symbol -> residue and modulus that its place should have.
        """
        for attempt in range(TRIES):
            near = attempt >= TRIES // 2  # with many symbols, large sizes make tensors that cannot be
            point = {n: self._random(d, (wishes or {}).get(n), near) for n, d in self.domains.items()}
            known = any(s.point == point for s in self.samples)
            if not known and self.takes(point):
                return self.samples[-1]
            if not known:
                self.gaps.append(point)
        return None

    def _random(self, domain: Domain, wish: tuple[int, int] | None, near: bool) -> int:
        """A size from the first on, a small one as likely as one ten times as large."""
        low = domain.place(self.samples[0].point[domain.name])
        high = domain.place(FAR[0] if domain.high is None else domain.high)
        if high < low + 8:
            low = domain.place(domain.low)
        high = min(high, low + CLOSE) if near else high
        place = min(low + int(math.exp(self.random.uniform(0, math.log(max(high - low, 1) + 1)))) - 1, high)
        if wish is not None:
            below = place - (place - wish[0]) % wish[1]
            place = below if below >= low else below + wish[1]
        return domain.size(min(place, high))

    def below(self) -> Sample | None:
        """A sample between the least sizes and the first point; None where the model does not take it."""
        first, point = self.samples[0].point, {}
        for name, domain in self.domains.items():
            ends = domain.place(domain.low), domain.place(first[name])
            point[name] = domain.size(self.random.randint(min(ends), max(ends)))
        if not self.takes(point, True):
            return None
        return next(s for s in self.samples if s.point == point)

    def conditions(self) -> Iterator[str]:
        """Where formulas hold, one line each."""
        for name, term in self.tied.items():
            yield f"{name} = {written(term)}"
        for domain in self.domains.values():
            why = f" ({self.refusals[domain.name]})" if self.refusals.get(domain.name) else ""
            for number, condition in enumerate(domain.conditions()):
                yield condition if number else condition + why


def _between(place: int, one: int, other: int) -> bool:
    return min(one, other) < place < max(one, other)
