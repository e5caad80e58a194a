"""From one reading of a model to its formula: sizes are followed through the graph, counted, compared with profiles."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from flopwise.analyses.formula.derivation.tracing import (
    MOST_TURNS,
    Explainer,
    LoopError,
    Readings,
    Tracing,
    fault,
    first_point,
)
from flopwise.analyses.formula.dim import term
from flopwise.analyses.formula.domains import Domain, OutsideError, Point, edge
from flopwise.analyses.formula.extras.ways import with_ways
from flopwise.analyses.formula.following.loops import differing as of_turns
from flopwise.analyses.formula.formula import Formula
from flopwise.analyses.formula.rows import NO_FORMULA, Counting, Figures, Known, differing, unknown_row, with_figures
from flopwise.analyses.formula.rows import ROW_CLASSES as CLASSES
from flopwise.analyses.formula.rows import ROW_FIGURES as FIGURES
from flopwise.analyses.formula.subject import Subject
from flopwise.analyses.formula.terms import Polynomial, Term, add_up, substituted, symbol, written
from flopwise.errors import FlopwiseError, InputError
from flopwise.graph import Graph
from flopwise.operators.counts import Counts
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

# Figures with expressions compared with profiles: at the smallest sizes and at others.


#: Points at which formulas are compared beside the smallest; of a model with more layers one.
COMPARED, MANY = 2, 2000

#: How far above the smallest sizes formulas are compared, too: at 0 a product hides what its factors are.
NEAR = (1, 3)

#: How far from the first sizes those lie at which fits are compared once more.
DISTANT = 1000

#: Points that are added to those, where a fit was wrong.
LEARNED = 6

#: Symbols that are never 0 unless they are asked about: a model is not run on images without rows.
ROUNDS = 8


class Verification(Tracing):
    """A model whose expressions are compared with profiles."""

    def verify(self) -> None:
        """Compare all figures with profiles: at the smallest sizes, and at others."""
        wrong: set[int] = set()
        subject = self.readings.subject
        once = len(self.rows) > MANY or subject.start is not None or subject.way is not None
        left = COMPARED - 1 if once else COMPARED
        for _ in range(2 * COMPARED):
            more = self.fresh() if left else None
            if more is None:
                break
            learned = len(self.counterexamples)
            wrong = self.still_wrong(wrong, *more)
            if len(self.counterexamples) == learned:
                left -= 1
        for more in self.distant() if self.fits and not subject.runs else ():
            wrong = self.still_wrong(wrong, *more)
        #: Whether the formulas were compared at another point than the first.
        self.general = bool(self.compared)
        if not self.compared:
            wrong |= self.differing(self.first, self.base)
        self.sized = not wrong
        if wrong:
            self.refit(wrong)
        self.lower()
        self.compared = [p for p in self.compared if self.inside(p)] or [self.first]

    def distant(self) -> Iterator[tuple[Point, Graph]]:
        """The model where each symbol is large, and all are: what was fitted to small sizes may have a bound there."""
        names = list(self.domains)
        for chosen in ([[name] for name in names] if len(names) > 1 else []) + [names]:
            places = self.places(self.first)
            for name in chosen:
                domain = self.domains[name]
                far = DISTANT + places[name] if domain.high is None else domain.place(domain.high)
                places[name] = min(far, DISTANT + places[name])
            point = self.sizes(places)
            if point not in self.compared and not self.conditions.broken(places):
                reading = self.take(point)
                if reading is not None:
                    yield point, reading

    def still_wrong(self, wrong: set[int], point: Point, reading: Graph) -> set[int]:
        """Positions of the rows that differ from profiles with one more point, which is learned where it helps."""
        differing = self.differing(point, reading)
        learns = (self.fits or self.readings.subject.runs) and len(self.counterexamples) < LEARNED
        if not differing or not learns:
            return wrong | differing
        self.learn(point, reading)
        wrong = self.differing(point, reading)
        for other in self.compared:
            graph = self.readings.at(other) if other != point and self.inside(other) else None
            wrong |= self.differing(other, graph) if graph is not None else set()
        return wrong

    def learn(self, point: Point, reading: Graph) -> None:
        """Follow the sizes once more, with a point at which those that were fitted are others."""
        self.counterexamples.append((point, reading))
        domains = self.domains
        self.propagate(self.explainer())
        self.bound()
        self.domains = {n: replace(d, low=max(d.low, domains[n].low)) for n, d in self.domains.items()}

    def explained(self, point: Point, reading: Graph) -> bool:
        """True if following the sizes once more explains a point beside all before; if not, all stays as it was."""
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
        """True if a point lies in the domains of all symbols and meets the conditions."""
        return all(d.holds(point[n]) for n, d in self.domains.items()) and not self.conditions.broken(
            self.places(point)
        )

    def differing(self, point: Point, reading: Graph) -> set[int]:
        """Positions of the rows that differ from a profile."""
        profile = self.counting.profile(reading)
        if point not in self.compared:
            self.compared.append(point)
            self.notes.append(profile.notes)
            self.unresolved = profile.unresolved
        if self.loops:
            return of_turns(self.rows, profile.rows, self.places(point))
        return differing(self.rows, Known(point, profile), self.places(point))

    def lower(self) -> None:
        """Raise the least sizes until the formulas hold there."""
        hint = self.places(self.first)
        for _ in range(ROUNDS):
            lowest = {n: d.place(d.low) for n, d in self.domains.items()}
            together = self.conditions.broken(lowest) is not None  # several symbols decide, which is a condition
            corner = self.small_corner(hint, lowest) if together else lowest
            if all(corner[n] >= hint[n] for n in corner):
                return
            joint = self._failing(hint, corner, list(corner), near=True)
            if joint < 0 and not together:
                return
            raised = False
            for name, domain in list(self.domains.items()):
                least = corner[name] if self.conditions.broken({**hint, name: lowest[name]}) else lowest[name]
                raised = self._raised(domain, hint, least, near=joint > 0) or raised
            if joint < 0 and not raised:
                return
            for name, domain in list(self.domains.items()) if not raised else ():
                if domain.low != domain.high and corner[name] < hint[name]:
                    place = (corner[name] + hint[name] + 1) // 2 if corner[name] else 1
                    self.domains[name] = replace(domain, low=domain.size(place))

    def small_corner(self, hint: dict[str, int], corner: dict[str, int]) -> dict[str, int]:
        """Small sizes that meet the conditions on several symbols, too."""
        steps = [{n: min(more, max(0, hint[n] - corner[n])) for n in corner} for more in NEAR]
        shares = [{n: max(0, hint[n] - corner[n]) // share for n in corner} for share in (32, 16, 8, 4, 2)]
        for more in (*steps, *shares):
            places = {n: corner[n] + more[n] for n in corner}
            if not self.conditions.broken(places):
                return places
        return hint

    def _raised(self, domain: Domain, hint: Point, low: int, near: bool) -> bool:
        """Raise the least size of one symbol where the formulas fail there, with the others as at first; True if so."""
        name, alone = domain.name, {**hint, domain.name: low}
        if domain.low == domain.high or low >= hint[name] or self.conditions.broken(alone):
            return False
        last = self._failing(hint, alone, [name], near)
        if last >= 0:
            self.domains[name] = replace(domain, low=domain.size(self._least(name, hint, low + last)))
            self.reasons[name] = self.reasons[name] or self.readings.refusal
        return last >= 0

    def _holds(self, places: Point) -> bool:
        """True if the model takes the sizes and the formulas are right there, perhaps once more was learned."""
        point = self.sizes(places)
        reading = None if self.conditions.broken(places) else self.take(point)
        if reading is None or not self.differing(point, reading):
            return reading is not None
        return self.fits and len(self.counterexamples) < LEARNED and self.explained(point, reading)

    def _failing(self, hint: Point, corner: Point, names: Sequence[str], near: bool) -> int:
        """The last of some places from the smallest on where the formulas are wrong; -1 where they are right."""
        if not self._holds({**hint, **{n: corner[n] for n in names}}):
            return 0
        last = -1
        for step in NEAR if near and len(self.rows) <= MANY and self.readings.subject.start is None else ():
            steps = enumerate(names, step)  # different ones, which tell what follows from which
            places = {**hint, **{n: min(corner[n] + more, max(hint[n], corner[n])) for more, n in steps}}
            taken = self.conditions.broken(places) is None and self.take(self.sizes(places)) is not None
            last = step if taken and not self._holds(places) else last
        return last

    def _least(self, name: str, hint: Point, low: int) -> int:
        """The least place of a symbol at which the formulas hold, between one where they do not and the first."""
        if self._holds({**hint, name: low + 1}):
            return low + 1
        return edge(lambda place: self._holds({**hint, name: place}), hint[name], low + 1)


def _fitted(row: Row, alike: Sequence[Row], explainer: Explainer) -> Row:
    """The row with figures that are right at several points: its own, else fitted ones; None where none is."""
    shapes = [tuple(map(term, t.shape)) for t in (*row.node.known_inputs, *row.node.known_outputs) if t.shape]

    def right(own: Term | None, figures: Sequence[Any]) -> Term | None:
        if None in figures:
            return None
        if own is not None and explainer.vector(own) == tuple(figures):
            return own
        return explainer.fit(tuple(figures), shapes)

    figures = {key: [getattr(r, key) for r in alike] for key in (*FIGURES, *CLASSES)}
    terms: Figures = {key: right(getattr(row, key), figures[key]) for key in FIGURES}
    if terms["saved_bytes"] is None and None not in figures["saved_bytes"]:
        terms["saved_bytes"] = _saved(alike, shapes, explainer)
    for key in CLASSES:
        columns = [] if None in figures[key] else list(zip(*figures[key], strict=True))
        own = getattr(row, key) or [None] * len(columns)
        counts = [right(count, column) for count, column in zip(own, columns, strict=False)]
        terms[key] = Counts(*[cast(int, count) for count in counts]) if counts and None not in counts else None
    return with_figures(row, terms, lost=any(terms[key] is None and None not in figures[key] for key in terms))


def _saved(alike: Sequence[Row], shapes: Sequence[Sequence[Term]], explainer: Explainer) -> Term | None:
    """The bytes that a row keeps as the sum of all that it recorded, each fitted by itself; None where they are not."""
    recorded = [[nbytes for _, nbytes in row.node.attrs.get("saved", ())] for row in alike]
    if any(row.saved_bytes != sum(each) for row, each in zip(alike, recorded, strict=True)):
        return None
    if len({len(each) for each in recorded}) != 1:
        return None
    terms = [explainer.fit(column, shapes) for column in zip(*recorded, strict=True)]
    return None if None in terms else add_up([one for one in terms if one is not None])


#: Sizes that are multiples of what programs cut sequences and images into.
ROUND_SIZES = (64, 100, 128, 256, 512, 1000, 4096)


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
        derivation = Derivation(readings, first, counting, fixed)
        try:
            derivation.follow()
            if not fixed and (fewer := derivation.fewer_turns()):
                first, slow = fewer, True
                derivation = Derivation(readings, first, counting, fixed)
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


class Derivation(Verification):
    """A formula in the making."""

    def other(self) -> Point | None:
        """A point that the model takes with more faults than the first one, as it takes all others; None if none."""
        for point in self.gaps:
            reading = self.readings.at(point)
            if reading is not None and len(reading.nodes) == len(self.base.nodes):
                return point
        return None

    def refuse_one_size(self) -> None:
        """Refuse a model that takes a single size only.

        Raises:
            InputError: it takes one.
        """
        single = all(d.low == d.high for d in self.domains.values())
        if (single and self.readings.subject.start is None) or (not single and not self.general):
            sizes = ", ".join(f"{n} = {s}" for n, s in self.first.items())
            why = next((f" ({w})" for w in self.reasons.values() if w), self.readings.why())
            if single and self.readings.subject.runs:
                raise InputError(
                    f"no formula holds at other sizes than {sizes}, of which the program takes the numbers{why}"
                )
            raise InputError(f"the model takes {sizes} and no other size that was tried{why}")

    def formula(self) -> Formula:
        """The formula."""
        own, shapes = self.scales.terms(), self.readings.subject.shapes
        return Formula(
            graph=self.base,
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
            everywhere=not self.readings.subject.runs or not any(map(self.inside, self.gaps)),
        )

    def elsewhere(self, point: Point) -> Profile | None:
        """The profile at a point outside the domain; None where the model does not take it."""
        if min(point.values(), default=0) < 0:
            return None
        reading = self.readings.at(point)
        if reading is None or fault(reading) > self.fault:
            return None
        return self.counting.profile(reading)

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
        """Remarks on the formula, one line each: notes of the profile, layers without a formula, sizes refused."""
        first = self.notes[0] if self.notes else self.profile.notes
        elsewhere = set(self.notes[1]) if len(self.notes) > 1 else set(first)
        place = ", ".join(f"{n} = {s}" for n, s in self.compared[0].items())
        yield from (note if note in elsewhere else f"at {place}: {note}" for note in first)
        counted = self.profile.rows if len(self.profile.rows) == len(self.rows) else self.rows
        lacking = [(row, one) for row, one in zip(self.rows, counted, strict=True) if row.note == NO_FORMULA]
        if lacking:
            more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            row, one = lacking[0]
            why = f" ({one.note})" if one.counts is None and one.note not in ("", NO_FORMULA) else ""
            yield f"uncounted: {row.name!r}{more}: {NO_FORMULA}{why}; totals are lower bounds"
        for gap in [g for g in self.gaps if self.inside(g)][:1]:
            sizes = ", ".join(f"{n} = {s}" for n, s in gap.items())
            yield f"the model does not take every combination of sizes, such as {sizes}"
