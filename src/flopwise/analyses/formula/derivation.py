"""From one reading of a model to its formula: sizes are followed through the graph, counted, compared with profiles."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from flopwise.analyses.formula.conditions import Conditions, Scales, scales
from flopwise.analyses.formula.dim import Guards, dim, recording, term
from flopwise.analyses.formula.domains import Domain
from flopwise.analyses.formula.explain import Explainer
from flopwise.analyses.formula.first import Readings, fault, first_point
from flopwise.analyses.formula.following.loops import Loops, collapsed
from flopwise.analyses.formula.following.loops import differing as of_turns
from flopwise.analyses.formula.following.program import Followed, ProgramFacts
from flopwise.analyses.formula.formula import Formula
from flopwise.analyses.formula.propagation.engine import Explain, Propagation
from flopwise.analyses.formula.rows import (
    CLASSES,
    FIGURES,
    NO_FORMULA,
    Counting,
    Known,
    differing,
    unknown_row,
    with_figures,
)
from flopwise.analyses.formula.subject import Point, Reading, Sizes, Subject
from flopwise.analyses.formula.terms.evaluation import substituted, symbols, value
from flopwise.analyses.formula.terms.polynomial import Polynomial, Term, symbol, written
from flopwise.analyses.formula.values import OutsideError
from flopwise.analyses.formula.ways import with_ways
from flopwise.errors import FlopwiseError, InputError
from flopwise.graph import Graph
from flopwise.operators.counts import Counts
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

#: Points at which formulas are compared beside the smallest; of a model with more layers one.
COMPARED, MANY = 2, 2000

#: How far above the smallest sizes formulas are compared, too: at 0 a product hides what its factors are.
NEAR = (1, 3)

#: Points to which sizes without a rule are fitted, and points to compare such a fit with.
FITTED = 5

#: Points that are added to those, where a fit was wrong.
LEARNED = 6

#: How often another point is tried where the model does not take one.
TRIES = 6

#: Sizes that are multiples of what programs cut sequences and images into.
ROUND_SIZES = (64, 100, 128, 256, 512, 1000, 4096)

#: Turns of a loop over a size from which on fewer are followed, and how large the size is then.
MOST_TURNS, FEW_TURNS = 100, 13

#: Symbols that are never 0 unless they are asked about: a model is not run on images without rows.
ROUNDS = 8


def derive(subject: Subject, counting: Counting, progress: Callable[[str], None] = lambda step: None) -> Formula:
    """The formula of a model.

    Args:
        subject: the model.
        counting: how to count.
        progress: called with the name of each step.

    Raises:
        InputError: no sizes were found that the model takes.
        ModelError: the model cannot be read.
    """
    formula, slow = _derived(subject, counting, progress)
    if subject.way is None:
        return formula
    way = subject.way
    tried = {
        n: [s for s in sizes if s <= MOST_TURNS or s == sizes[0] or not slow] for n, sizes in subject.tried.items()
    }
    return with_ways(formula, tried, lambda point: _derived(way(point), counting, progress)[0])


def _derived(subject: Subject, counting: Counting, progress: Callable[[str], None]) -> tuple[Formula, bool]:
    """The formula of one way through a model, and whether a loop takes as many turns as a size says."""
    progress("finding sizes that the model takes")
    readings = Readings(subject)
    first = first_point(readings) if subject.start is None else dict(subject.start)
    slow = False
    for fixed in (False, True):
        progress("following the sizes")
        derivation = Derivation(readings, first, counting, subject.follow, fixed)
        try:
            derivation.follow()
            if not fixed and (few := derivation.fewer_turns()):
                first, slow = few, True
                derivation = Derivation(readings, first, counting, subject.follow, fixed)
                derivation.follow()
            progress("comparing with profiles")
            derivation.verify()
        except LoopError:
            continue
        except FlopwiseError as error:
            if subject.start is None:
                raise
            raise OutsideError(f"the model does not take these sizes ({error})", subject.start) from error
        break
    if not derivation.general and (other := derivation.other()):
        progress("following the sizes once more")
        derivation = Derivation(readings, dict(other), counting)
        derivation.follow()
        derivation.verify()
    derivation.refuse_one_size()
    return derivation.formula(), slow


class LoopError(Exception):
    """A loop over a size whose turns differ, so that it has to run as often as it does at one size."""


@dataclass
class Derivation:
    """A formula in the making."""

    readings: Readings
    first: dict[str, int]
    counting: Counting
    #: Reads a program with sizes that carry expressions.
    run: Callable[[Point, Sizes, Explain | None, bool], Reading] | None = None
    #: Whether loops over sizes run as often as they do at the first point.
    fixed: bool = True
    #: Points at which sizes that were fitted were found to be others.
    counterexamples: list[tuple[Point, Reading]] = field(default_factory=list)
    compared: list[Point] = field(default_factory=list)
    gaps: list[Point] = field(default_factory=list)
    notes: list[tuple[str, ...]] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(0))

    # Following the sizes.

    def follow(self) -> None:
        """Rows with expressions, and the domain."""
        self.scales = Scales(list(self.names))
        self.needs: dict[str, str] = {}
        run, first = self.run, self.first
        reading = self.readings.at(first) if run is None else run(first, self.expressed(), None, self.fixed)
        assert reading is not None
        self.base = reading
        held = reading.facts.loops if isinstance(reading.facts, Followed) else None
        #: The loops of the program over sizes; None where it has none.
        self.loops: Loops | None = held if held is not None and held.turns else None
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

    def refuse_one_size(self) -> None:
        """Nothing, where the model takes several sizes.

        Raises:
            InputError: it takes one.
        """
        single = all(d.low == d.high for d in self.domains.values())
        if (single and self.readings.subject.start is None) or (not single and not self.general):
            sizes = ", ".join(f"{n} = {s}" for n, s in self.first.items())
            why = next((f" ({w})" for w in self.reasons.values() if w), self.readings.why())
            if single and self.run is not None:
                raise InputError(
                    f"no formula holds at other sizes than {sizes}, of which the program takes the numbers{why}"
                )
            raise InputError(f"the model takes {sizes} and no other size that was tried{why}")

    def other(self) -> Point | None:
        """A point that the model takes with more faults than the first one, as it takes all others; None if none."""
        for point in self.gaps:
            reading = self.readings.at(point)
            if reading is not None and len(reading.graph.nodes) == len(self.base.graph.nodes):
                return point
        return None

    @property
    def names(self) -> Sequence[str]:
        """The symbols."""
        return self.readings.subject.names

    def expressed(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the open inputs, in sizes that carry expressions."""
        own = self.scales.terms()
        shapes = self.readings.subject.shapes
        return {name: tuple(dim(value(t, self.first), substituted(t, own)) for t in dims) for name, _, dims in shapes}

    def propagate(self, explainer: Explainer | None) -> None:
        """Follow the sizes from the inputs on, and count."""
        own = self.scales.terms()
        if self.run is not None and explainer is not None:  # in the places of the symbols from the start
            self.base, own = self.run(self.first, self.expressed(), explainer, True), {}
        trips = {n: dim(self.first[n], self.scales.terms()[n]) for n in self.readings.subject.loops}
        self.fits = explainer is not None
        self.explain = explainer
        walk = Propagation(self.base.graph, self.base.facts, self.expressed(), trips, explainer)
        if isinstance(self.base.facts, Followed):
            self.base.facts.give(walk, own)
        else:
            walk.run()
        self.open: Sequence[Any] = self.base.facts.open if isinstance(self.base.facts, ProgramFacts) else walk.open
        self.guards: Guards = walk.guards
        with recording(self.guards):
            self.guards.reason = ""
            self.profile: Profile = self.counting.profile(walk.expressed())
        self.rows = [_termed(row) for row in self.profile.rows]
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

    def fresh(self, near: bool = False) -> tuple[Point, Reading] | None:
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

    def take(self, point: Point) -> Reading | None:
        """The model at a point; None where it does not take the sizes as well as the first ones."""
        if min(point.values(), default=0) < 0:
            return None
        reading = self.readings.at(point)
        if reading is None or (not self.loops and len(reading.graph.nodes) != len(self.base.graph.nodes)):
            return None
        grade, best = fault(reading.graph), fault(self.base.graph)
        if grade.unresolved > best.unresolved or grade.odd > best.odd:
            self.readings.refusal = next(iter(reading.graph.warnings), "")
            return None
        return reading

    def explainer(self) -> Explainer:
        """What finds sizes for which there is no rule.

        Raises:
            LoopError: the turns of a loop are one row here, and many in a profile.
        """
        if self.loops:
            raise LoopError
        graphs: list[Graph] = [self.base.graph]
        points: list[Point] = [self.first]
        for point, reading in self.counterexamples:
            points.append(point)
            graphs.append(reading.graph)
        for _ in range(max(FITTED + 1 - len(points), 0 if self.counterexamples else 1)):
            more = self.fresh(near=True)
            if more is not None and more[0] not in points:
                points.append(more[0])
                graphs.append(more[1].graph)
        return Explainer(graphs, [self.places(p) for p in points])

    # Comparing.

    def verify(self) -> None:
        """Compare all figures with profiles: at the smallest sizes, and at others."""
        wrong: set[int] = set()
        left = COMPARED if len(self.rows) <= MANY and self.readings.subject.start is None else COMPARED - 1
        for _ in range(2 * COMPARED):
            more = self.fresh() if left else None
            if more is None:
                break
            left -= 1
            differing = self.differing(*more)
            if differing and (self.fits or self.run) and len(self.counterexamples) < LEARNED:
                self.learn(*more)
                left, differing = left + 1, self.differing(*more)
            wrong |= differing
        #: Whether the formulas were compared at another point than the first.
        self.general = bool(self.compared)
        if not self.compared:
            wrong |= self.differing(self.first, self.base)
        self.sized = not wrong
        if wrong:
            self.refit(wrong)
        self.lower()
        self.compared = [p for p in self.compared if self.inside(p)] or [self.first]

    def learn(self, point: Point, reading: Reading) -> None:
        """Follow the sizes once more, with a point at which those that were fitted are others."""
        self.counterexamples.append((point, reading))
        domains = self.domains
        self.propagate(self.explainer())
        self.bound()
        self.domains = {n: replace(d, low=max(d.low, domains[n].low)) for n, d in self.domains.items()}

    def explained(self, point: Point, reading: Reading) -> bool:
        """Whether following the sizes once more explains a point beside all before; if not, all stays as it was."""
        state = {**vars(self), "counterexamples": list(self.counterexamples)}
        self.learn(point, reading)
        readings = [(p, self.readings.at(p)) for p in (*self.compared, point) if p == point or self.inside(p)]
        if all(r is not None and not self.differing(p, r) for p, r in readings):
            return True
        vars(self).update(state)
        return False

    def refit(self, wrong: set[int]) -> None:
        """Fit the figures of rows to the sizes of their operators' own tensors; what follows none is unknown."""
        explainer = self.explainer()
        profiles = [self.counting.profile(graph) for graph in explainer.graphs]
        named = [row.name for row in self.rows]
        alike = all([row.name for row in profile.rows] == named for profile in profiles)
        for i in wrong:
            row = self.rows[i]
            self.rows[i] = _fitted(row, [p.rows[i] for p in profiles], explainer) if alike else unknown_row(row)
        more = self.fresh()
        for i in self.differing(*more) if more else ():
            self.rows[i] = unknown_row(self.rows[i])

    def inside(self, point: Point) -> bool:
        """Whether a point lies in the domain."""
        return all(d.holds(point[n]) for n, d in self.domains.items()) and not self.conditions.broken(
            self.places(point)
        )

    def differing(self, point: Point, reading: Reading) -> set[int]:
        """Positions of the rows that differ from a profile."""
        profile = self.counting.profile(reading.graph)
        if point not in self.compared:
            self.compared.append(point)
            self.notes.append(profile.notes)
            self.unresolved = profile.unresolved
        if self.loops:
            return of_turns(self.rows, profile.rows, self.places(point))
        return differing(self.rows, Known(point, profile), self.places(point))

    def lower(self) -> None:
        """Raise the least sizes until the formulas hold there."""

        def holds(places: Point) -> bool:
            point = self.sizes(places)
            if self.conditions.broken(places):
                return False
            reading = self.take(point)
            if reading is None:
                return False
            if not self.differing(point, reading):
                return True
            return self.fits and len(self.counterexamples) < LEARNED and self.explained(point, reading)

        hint = self.places(self.first)

        def failing(corner: Point, names: Sequence[str], near: bool) -> int:
            """The last of some places from the smallest on where the formulas are wrong; -1 where they are right."""
            if not holds({**hint, **{n: corner[n] for n in names}}):
                return 0
            last = -1
            for step in NEAR if near and len(self.rows) <= MANY and self.readings.subject.start is None else ():
                apart = enumerate(names, step)  # different ones, which tell what follows from which
                places = {**hint, **{n: min(corner[n] + more, max(hint[n], corner[n])) for more, n in apart}}
                taken = self.conditions.broken(places) is None and self.take(self.sizes(places)) is not None
                last = step if taken and not holds(places) else last
            return last

        for _ in range(ROUNDS):
            lowest = {n: d.place(d.low) for n, d in self.domains.items()}
            together = self.conditions.broken(lowest) is not None  # several symbols decide, which is a condition
            corner = self.small_corner(hint, lowest) if together else lowest
            if all(corner[n] >= hint[n] for n in corner):
                return
            joint = failing(corner, list(corner), near=True)
            if joint < 0 and not together:
                return
            raised = False
            for name, domain in list(self.domains.items()):
                alone = {**hint, name: lowest[name]}
                if domain.low == domain.high or lowest[name] >= hint[name] or self.conditions.broken(alone):
                    continue
                last = failing(lowest, [name], near=joint > 0)
                if last < 0:
                    continue
                raised = True
                low = self._least(name, hint, lowest[name] + last, holds)
                self.domains[name] = replace(domain, low=domain.size(low))
                self.reasons[name] = self.reasons[name] or self.readings.refusal
            if joint < 0 and not raised:
                return
            for name, domain in list(self.domains.items()) if not raised else ():
                if domain.low != domain.high and corner[name] < hint[name]:
                    place = (corner[name] + hint[name] + 1) // 2 if corner[name] else 1
                    self.domains[name] = replace(domain, low=domain.size(place))

    def small_corner(self, hint: dict[str, int], corner: dict[str, int]) -> dict[str, int]:
        """Small sizes that meet the conditions on several symbols, too."""
        for share in (32, 16, 8, 4, 2):
            places = {n: corner[n] + max(0, hint[n] - corner[n]) // share for n in corner}
            if not self.conditions.broken(places):
                return places
        return hint

    def _least(self, name: str, hint: Point, low: int, holds: Callable[[Point], bool]) -> int:
        """The least place of a symbol at which the formulas hold, between one where they do not and the first."""
        if holds({**hint, name: low + 1}):
            return low + 1
        bad, good = low + 1, hint[name]
        while good - bad > 1:
            middle = (good + bad) // 2
            if holds({**hint, name: middle}):
                good = middle
            else:
                bad = middle
        return good

    # The result.

    def formula(self) -> Formula:
        """The formula."""
        own, shapes = self.scales.terms(), self.readings.subject.shapes
        return Formula(
            graph=self.base.graph,
            convention=self.counting.convention,
            domains=tuple(self.domains.values()),
            inputs=tuple((name, dtype, tuple(substituted(t, own) for t in dims)) for name, dtype, dims in shapes),
            conditions=tuple(self.stated()),
            rows=tuple(self.rows),
            unresolved=self.unresolved,
            verified_at=tuple(dict(p) for p in self.compared),
            notes=tuple(self.remarks()),
            guards=self.conditions,
            tied=dict(self.scales.tied),
            elsewhere=self.elsewhere,
            sizes=self.profile.graph,
            sized=self.sized and not self.loops,
            everywhere=self.run is None or not any(map(self.inside, self.gaps)),
        )

    def elsewhere(self, point: Point) -> Profile | None:
        """The profile at a point outside the domain; None where the model does not take it."""
        if min(point.values(), default=0) < 0:
            return None
        reading = self.readings.at(point)
        if reading is None or fault(reading.graph) > fault(self.base.graph):
            return None
        return self.counting.profile(reading.graph)

    def stated(self) -> Iterator[str]:
        """Where the formulas hold, one line each."""
        for name, tie in self.scales.tied.items():
            yield f"{name} = {written(tie)}"
        for name, domain in self.domains.items():
            why = f" ({self.reasons[name]})" if self.reasons.get(name) else ""
            for number, condition in enumerate(domain.conditions()):
                yield condition if number else condition + why
        scaled: dict[str, Term] = {}
        for name in self.scales.free:
            step, offset = self.scales.step(name)
            if step > 1:
                over = f"({name} - {offset})" if offset else name
                scaled[name] = symbol(f"({over}/{step})")
        for guard, why in self.residual():
            expression = substituted(guard.expression, scaled)
            if isinstance(expression, Polynomial):
                yield f"{guard._replace(expression=expression)}" + (f" ({why})" if why else "")

    def residual(self) -> Iterator[tuple[Any, str]]:
        """The guards that do not hold everywhere inside the bounds of the symbols."""
        chance = random.Random(3)
        points = [{n: d.place(d.low) for n, d in self.domains.items()}]
        for _ in range(200):
            point = {}
            for name, d in self.domains.items():
                low = d.place(d.low)
                high = d.place(d.high) if d.high is not None else low + 10 ** chance.randint(1, 5)
                point[name] = chance.randint(low, max(low, high))
            points.append(point)
        domains = self.domains.items()
        points += [{**p, n: d.place(size)} for p in points[1:4] for n, d in domains for size in ROUND_SIZES]
        points = [p for p in points if all(d.holds(d.size(p[n])) for n, d in domains)]
        broken: dict[Any, set[int]] = {}
        for guard, names, why in self.conditions.guards:
            where = {i for i, p in enumerate(points) if not guard.holds({n: p.get(n, 0) for n in names})}
            if where and not any(where <= others for others in broken.values()):
                broken = {g: others for g, others in broken.items() if not others <= where}
                broken[guard, why] = where
        yield from broken

    def remarks(self) -> Iterator[str]:
        """What a reader should know, one line each."""
        first = self.notes[0] if self.notes else self.profile.notes
        elsewhere = set(self.notes[1]) if len(self.notes) > 1 else set(first)
        place = ", ".join(f"{n} = {s}" for n, s in self.compared[0].items())
        yield from (note if note in elsewhere else f"at {place}: {note}" for note in first)
        lacking = [row.name for row in self.rows if row.note == NO_FORMULA]
        if lacking:
            more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            yield f"uncounted: {lacking[0]!r}{more}: {NO_FORMULA}; totals are lower bounds"
        for gap in [g for g in self.gaps if self.inside(g)][:1]:
            sizes = ", ".join(f"{n} = {s}" for n, s in gap.items())
            yield f"the model does not take every combination of sizes, such as {sizes}"


def _fitted(row: Row, alike: Sequence[Row], explainer: Explainer) -> Row:
    """The row with figures that are right at several points: its own, else fitted ones; None where none is."""
    shapes = [tuple(map(term, t.shape)) for t in (*row.node.known_inputs, *row.node.known_outputs) if t.shape]

    def right(own: Term | None, figures: Sequence[Any]) -> Term | None:
        if None in figures:
            return None
        if own is not None and explainer.vector(own) == tuple(figures):
            return own
        return explainer.fit(tuple(figures), shapes)

    held = {key: [getattr(r, key) for r in alike] for key in (*FIGURES, *CLASSES)}
    made: dict[str, Any] = {key: right(getattr(row, key), held[key]) for key in FIGURES}
    for key in CLASSES:
        columns = [] if None in held[key] else list(zip(*held[key], strict=True))
        own = getattr(row, key) or [None] * len(columns)
        counts = [right(count, column) for count, column in zip(own, columns, strict=False)]
        made[key] = Counts(*[cast(int, count) for count in counts]) if counts and None not in counts else None
    return with_figures(row, made, lost=any(made[key] is None and None not in held[key] for key in made))


def _termed(row: Row) -> Row:
    """The row with terms for its figures."""
    figures: dict[str, Any] = {}
    for key in FIGURES:
        held = getattr(row, key)
        figures[key] = None if held is None else term(held)
    for key in CLASSES:
        classes = getattr(row, key)
        figures[key] = None if classes is None else Counts(*[cast(int, term(c)) for c in classes])
    return replace(row, **figures)
