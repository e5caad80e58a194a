"""Sizes followed through a model from one reading: rows with expressions, and the domain in which they hold."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flopwise.analyses.formula.conditions import Conditions, Scales, scales
from flopwise.analyses.formula.derivation.explain import Explainer
from flopwise.analyses.formula.derivation.first import Readings, fault
from flopwise.analyses.formula.dim import dim, term
from flopwise.analyses.formula.domains import Domain
from flopwise.analyses.formula.following.followed import Followed
from flopwise.analyses.formula.following.loops import Loops, collapsed
from flopwise.analyses.formula.guards import recording
from flopwise.analyses.formula.points import Point
from flopwise.analyses.formula.rows import Counting, termed
from flopwise.analyses.formula.subject import Request
from flopwise.analyses.formula.terms.evaluation import substituted, symbols, value
from flopwise.analyses.formula.terms.polynomial import Term
from flopwise.graph import Graph
from flopwise.profiles.profile import Profile

#: Points to which sizes without a rule are fitted, and points to compare such a fit with.
FITTED = 5

#: How often another point is tried where the model does not take one.
TRIES = 6

#: Turns of a loop over a size from which on fewer are followed, and how large the size is then.
MOST_TURNS, FEW_TURNS = 100, 13


class LoopError(Exception):
    """A loop over a size whose turns differ, so that it has to run as often as it does at one size."""


@dataclass
class Tracing:
    """A model with sizes that carry expressions."""

    readings: Readings
    first: dict[str, int]
    counting: Counting
    #: Whether loops over sizes run as often as they do at the first point.
    fixed: bool = True
    #: Points at which sizes that were fitted were found to be others.
    counterexamples: list[tuple[Point, Graph]] = field(default_factory=list)
    compared: list[Point] = field(default_factory=list)
    gaps: list[Point] = field(default_factory=list)
    notes: list[tuple[str, ...]] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(0))

    # Following the sizes.

    def follow(self) -> None:
        """Rows with expressions, and the domain."""
        self.scales = Scales(list(self.names))
        self.needs: dict[str, str] = {}
        self.followed = self.trace(None, self.fixed)
        self.base = self.followed.base
        self.fault = fault(self.base)
        loops = self.followed.loops
        #: The loops of the program over sizes; None where it has none.
        self.loops: Loops | None = loops if loops is not None and loops.turns else None
        self.propagate(None)
        self.scales = scales(self.names, self.guards.reasons, self.first)
        for guard, names, why in self.conditions.guards:
            if guard.relation == "==":
                self.needs.update((n, why) for n in names if n in self.scales.steps and n not in self.needs)
        if not self.scales.trivial():
            self.propagate(None)
        self.bound()
        if self.open:
            self.propagate(self.explainer())
            self.bound()

    def fewer_turns(self) -> dict[str, int] | None:
        """A point at which the loops of the program take fewer turns; None where they take few."""
        if self.loops is None or max(map(int, self.loops.turns)) < MOST_TURNS:
            return None
        long = [t for t in self.loops.turns if int(t) >= MOST_TURNS]
        names = set().union(*(symbols(term(turns)) for turns in long))
        return {n: FEW_TURNS if n in names else size for n, size in self.first.items()}

    @property
    def names(self) -> Sequence[str]:
        """The symbols."""
        return self.readings.subject.names

    def expressed(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the open inputs, in sizes that carry expressions."""
        own = self.scales.terms()
        shapes = self.readings.subject.shapes
        return {name: tuple(dim(value(t, self.first), substituted(t, own)) for t in dims) for name, _, dims in shapes}

    def trace(self, explainer: Explainer | None, fixed: bool) -> Followed:
        """The model with sizes that carry expressions, in the places of the symbols."""
        subject, own = self.readings.subject, self.scales.terms()
        trips = {name: dim(self.first[name], own[name]) for name in subject.loops}
        return subject.follow(Request(self.first, self.expressed(), trips, explainer, fixed))

    def propagate(self, explainer: Explainer | None) -> None:
        """Follow the sizes from the inputs on, and count."""
        own = self.scales.terms()
        if explainer is not None or not (self.followed.slow or self.scales.trivial()):  # in the places of the symbols
            self.followed, own = self.trace(explainer, True), {}
            self.base = self.followed.base
            self.fault = fault(self.base)
        self.fits = explainer is not None
        self.explain = explainer
        graph, self.guards = self.followed.substitute(own)
        self.open = self.followed.open
        with recording(self.guards):
            self.guards.reason = ""
            self.profile: Profile = self.counting.profile(graph)
        self.rows = termed(self.profile.rows)
        if self.loops is not None:
            self.join_turns(own)
        self.conditions = Conditions.of(self.guards.reasons)

    def join_turns(self, own: Mapping[str, Term]) -> None:
        """One row for all turns of a loop between the first and the last.

        Raises:
            LoopError: they differ.
        """
        assert self.loops is not None
        rows = collapsed(self.rows, self.profile.graph, self.loops, own)
        if rows is None:
            raise LoopError
        self.rows = rows

    def bound(self) -> None:
        """The least and largest size of each symbol."""
        self.domains: dict[str, Domain] = {}
        self.reasons: dict[str, str] = {}
        hint = self.places(self.first)
        for name in self.scales.free:
            self.domains[name], why = self.conditions.domain(name, self.scales.step(name), hint)
            self.reasons[name] = self.needs.get(name, "") or why

    def places(self, point: Point) -> dict[str, int]:
        """The place of each free symbol on its scale."""
        return {n: (point[n] - self.scales.step(n)[1]) // self.scales.step(n)[0] for n in self.scales.free}

    def sizes(self, places: Point) -> dict[str, int]:
        """The size of each symbol."""
        own = self.scales.terms()
        return {n: value(own[n], places) for n in self.names}

    # Points.

    def random_place(self, domain: Domain, near: bool) -> int:
        """A place inside a domain, a small one as likely as one ten times as large."""
        low, first = domain.place(domain.low), domain.place(self.first[domain.name])
        high = domain.place(domain.high) if domain.high is not None else max(4 * first, low + 40)
        if near:
            high = min(high, max(first, low) + 12)
        return low + int((high - low + 1) * self.chance.random() ** 2) if high > low else low

    def fresh(self, near: bool = False) -> tuple[Point, Graph] | None:
        """The model at a new point inside the domain; None where none was found."""
        for attempt in range(TRIES if self.domains else 0):
            places = {n: self.random_place(d, near or attempt > 1) for n, d in self.domains.items()}
            if attempt >= TRIES // 2:  # conditions on several symbols leave one of them free
                free = list(places)[attempt % len(places)]
                places = {**self.places(self.first), free: places[free]}
            point = self.sizes(places)
            if point in self.compared or point == self.first or self.conditions.broken(places):
                continue
            reading = self.take(point)
            if reading is not None:
                return point, reading
            self.gaps.append(point)
        return None

    def take(self, point: Point) -> Graph | None:
        """The model at a point; None where it does not take the sizes as well as the first ones."""
        if min(point.values(), default=0) < 0:
            return None
        reading = self.readings.at(point)
        if reading is None or (not self.loops and len(reading.nodes) != len(self.base.nodes)):
            return None
        grade, best = fault(reading), self.fault
        if grade.unresolved > best.unresolved or grade.odd > best.odd:
            self.readings.refusal = next(iter(reading.warnings), "")
            return None
        return reading

    def explainer(self) -> Explainer:
        """The finder of sizes for which there is no rule, with readings at several points.

        Raises:
            LoopError: the turns of a loop are one row here, and many in a profile.
        """
        if self.loops:
            raise LoopError
        graphs: list[Graph] = [self.base]
        points: list[Point] = [self.first]
        for point, reading in self.counterexamples:
            points.append(point)
            graphs.append(reading)
        for _ in range(max(FITTED + 1 - len(points), 0 if self.counterexamples else 1)):
            more = self.fresh(near=True)
            if more is not None and more[0] not in points:
                points.append(more[0])
                graphs.append(more[1])
        return Explainer(graphs, [self.places(p) for p in points])
