"""The first point: sizes that a model takes without a fault."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from flopwise.analyses.formula.derivation.candidates import FIRST, different, equal, single, ties
from flopwise.analyses.formula.points import Point
from flopwise.analyses.formula.subject import Subject
from flopwise.analyses.formula.terms.evaluation import value
from flopwise.analyses.formula.terms.polynomial import Term
from flopwise.errors import FlopwiseError, InputError, ModelError
from flopwise.graph import Graph

#: After so many refusals for the same reason, before any size was taken, no further one is tried.
MOST_ALIKE, MOST_SIMILAR = 3, 6


@dataclass(frozen=True, order=True, slots=True)
class Fault:
    """The faults of a model at a point: shapes that are missing, then odd shapes and warnings; less is better."""

    unresolved: int
    odd: int


#: The fault of a point at which the model cannot be read.
REFUSED = Fault(1 << 60, 1)


def fault(graph: Graph) -> Fault:
    """Shapes that are missing or cannot be, and the kinds of warnings."""
    tensors = [t for node in graph.nodes for t in node.outputs if t is not None]
    missing = sum([t.shape is None and not t.resolved for t in tensors])
    shapes = {id(t.shape): t.shape for t in tensors if t.shape}  # many tensors share one
    below = {key for key, shape in shapes.items() if any(isinstance(d, int) and d < 0 for d in shape)}
    negative = sum([id(t.shape) in below for t in tensors]) if below else 0
    # a program that ran fits its sizes, and says other things
    odd = () if graph.program.recorded else graph.warnings
    return Fault(missing, negative + len({re.sub(r"\d+", "#", warning) for warning in odd}))


@dataclass
class Readings:
    """Readings of a model by point, each made once."""

    subject: Subject
    seen: dict[tuple[int, ...], Graph | None] = field(default_factory=dict)
    #: Why the model did not take the last point that it did not take.
    refusal: str = ""
    #: How often in a row it was the same reason.
    alike: int = 0

    def at(self, point: Point) -> Graph | None:
        """The model at a point; None where it does not take the sizes.

        Raises:
            ModelError: it cannot be read, whatever the sizes.
        """
        key = tuple(point[n] for n in self.subject.names)
        if key not in self.seen:
            try:
                self.seen[key] = self.subject.read(point)
            except FlopwiseError as error:
                text = re.sub(r"\d+", "#", str(error))
                self.alike = self.alike + 1 if text == re.sub(r"\d+", "#", self.refusal) else 0
                most = MOST_ALIKE if str(error) == self.refusal else MOST_SIMILAR
                if isinstance(error, ModelError) and self.alike >= most and not any(self.seen.values()):
                    raise  # whatever the sizes, the model cannot be read
                self.refusal = str(error)
                self.seen[key] = None
        return self.seen[key]

    def why(self) -> str:
        """The last refusal in brackets."""
        return f" ({self.refusal})" if self.refusal else ""


@dataclass
class _Search:
    """The search for the first point."""

    readings: Readings
    best: Fault = REFUSED
    sound: bool = False
    tied: dict[str, Term] = field(default_factory=dict)

    def grade(self, point: Point) -> Fault:
        graph = self.readings.at(self.whole(point))
        return REFUSED if graph is None else fault(graph)

    def whole(self, point: Point) -> dict[str, int]:
        names = self.readings.subject.names
        return {n: value(self.tied[n], point) if n in self.tied else point[n] for n in names}

    def better(self, points: Iterable[dict[str, int]]) -> dict[str, int] | None:
        """The best of the points if it is better than all before."""
        best = None
        for point in points:
            grade = self.grade(point)
            # shapes that are missing without a warning at two points alike are missing everywhere
            self.sound = grade == Fault(0, 0) or (grade == self.best and not grade.odd)
            if grade < self.best:
                self.best, best = grade, self.whole(point)
            if self.sound:
                break
        return best

    def tie(self) -> dict[str, int] | None:
        """A better point at which one symbol follows from others."""
        best = None
        names = self.readings.subject.names
        for name, term in ties(names):
            self.tied = {name: term}
            best = self.better([{n: FIRST[0](i) for i, n in enumerate(names) if n != name}]) or best
            if self.sound:
                break
        self.tied = {}
        return best

    def run(self) -> dict[str, int] | None:
        names, hints = self.readings.subject.names, self.readings.subject.hints
        best = self.better(different(names, hints, large=self.readings.subject.runs))
        if not self.sound:
            best = self.tie() or best
        if not self.sound:
            best = self.better(single(names, best or {}, hints)) or best
        if not self.sound:
            best = self.better(equal(names)) or best
        return best


def first_point(readings: Readings) -> dict[str, int]:
    """The point that the model takes best; the search ends at one without any fault.

    Raises:
        InputError: no point was found that the model takes.
    """
    best = _Search(readings).run()
    if not best:
        raise InputError(f"no sizes were found that the model takes; fix one with --dim{readings.why()}")
    return best


def unknown_loops(subject: Subject) -> list[str]:
    """The loops of a model that run an unknown number of times, by name."""
    for size in FIRST:
        try:
            graph = subject.read({**{n: size(i) for i, n in enumerate(subject.names)}, **subject.hints})
        except FlopwiseError:
            continue
        owners = [b.owner for node in graph.nodes for b in node.within if b.trips is None]
        return list(dict.fromkeys(graph.nodes[owner].name for owner in owners))
    return []
