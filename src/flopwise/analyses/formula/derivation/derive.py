"""From one reading of a model to its formula: sizes are followed through the graph, counted, compared with profiles."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from flopwise.analyses.formula.derivation.first import Readings, fault, first_point
from flopwise.analyses.formula.derivation.tracing import MOST_TURNS, LoopError
from flopwise.analyses.formula.derivation.verification import Verification
from flopwise.analyses.formula.extras.ways import with_ways
from flopwise.analyses.formula.formula import Formula
from flopwise.analyses.formula.points import Point
from flopwise.analyses.formula.rows import (
    NO_FORMULA,
    Counting,
)
from flopwise.analyses.formula.subject import Subject
from flopwise.analyses.formula.terms.evaluation import substituted
from flopwise.analyses.formula.terms.polynomial import Polynomial, Term, symbol, written
from flopwise.analyses.formula.values import OutsideError
from flopwise.errors import FlopwiseError, InputError
from flopwise.profiles.profile import Profile

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
