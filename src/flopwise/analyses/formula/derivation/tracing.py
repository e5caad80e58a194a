"""Sizes followed through a model from one reading: rows with expressions, and the domain in which they hold."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from flopwise.analyses.formula.conditions import Conditions, Scales, recording, scales
from flopwise.analyses.formula.dim import dim, term
from flopwise.analyses.formula.domains import Domain, Point
from flopwise.analyses.formula.following.loops import Followed, Loops, collapsed
from flopwise.analyses.formula.rows import Counting, termed
from flopwise.analyses.formula.subject import Request, Subject
from flopwise.analyses.formula.terms import Polynomial, Term, add_up, floor, least, substituted, symbol, symbols, value
from flopwise.errors import FlopwiseError, InputError, ModelError
from flopwise.graph import Graph
from flopwise.operators.size import Dims
from flopwise.profiles.profile import Profile

# Points at which a model may be read first: the search for sizes that it takes.


PRIMES = (101, 103, 107, 109, 113, 127, 131, 137, 139, 149)

#: Larger ones, for programs that treat small sizes on their own.
LARGE_PRIMES = (307, 313, 317, 331, 347, 349, 353, 359, 373, 379)

#: First points that are tried: what the i-th symbol is. Different primes show which extent comes from which symbol.
FIRST: tuple[Callable[[int], int], ...] = (
    lambda i: PRIMES[i % 10],
    lambda i: (11, 13, 17, 19, 23, 29)[i % 6],
    lambda i: 32 * (5, 7, 11, 13)[i % 4],
    lambda i: (2, 3, 5, 7)[i % 4],
    lambda i: 64 * (3, 5, 7, 11)[i % 4],
    lambda i: (513, 257, 641, 129)[i % 4],
    lambda i: 96 * (3, 5, 7, 11)[i % 4],
)

#: Sizes that are tried for all symbols together where nothing else is taken.
EQUAL = (224, 256, 512, 128, 64, 1)

#: Sizes that are tried for one symbol where no first point suits all.
SINGLE = (1, 2, 32, 224, 256, 512, 8)


def different(names: Sequence[str], hints: Mapping[str, int], large: bool = False) -> Iterator[dict[str, int]]:
    """Sizes that differ from each other, those known to fit first.

    Args:
        names: the symbols.
        hints: sizes that the model is known to take.
        large: whether larger sizes come first.
    """
    if large:
        yield {n: LARGE_PRIMES[i % 10] for i, n in enumerate(names)}
    points = [{n: size(i) for i, n in enumerate(names)} for size in FIRST]
    if hints:
        yield {**points[0], **hints}
    yield from points


def single(names: Sequence[str], best: Mapping[str, int], hints: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Points with one size changed.

    Args:
        names: the symbols.
        best: the best point so far; empty when there is none.
        hints: sizes that the model is known to take.
    """
    starts = [best] if best else [{n: size(i) for i, n in enumerate(names)} for size in (FIRST[0], FIRST[2])]
    for start, name in itertools.product(starts, names if len(names) > 1 else ()):
        for size in dict.fromkeys((*(h for n, h in hints.items() if n == name), *SINGLE)):
            yield {**start, name: size}


def equal(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """The same size for all symbols."""
    return (dict.fromkeys(names, size) for size in EQUAL)


def ties(names: Sequence[str]) -> Iterator[tuple[str, Term]]:
    """A symbol and what it may always be: the sum of two others, or the same as another."""
    for name in names:
        others = [n for n in names if n != name]
        for one, two in itertools.combinations(others, 2):
            yield name, symbol(one) + symbol(two)
        for one in others:
            yield name, symbol(one)


# The first point: sizes that a model takes without a fault.


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
        for name, tie in ties(names):
            self.tied = {name: tie}
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


# Sizes for which there is no rule: expressions in the sizes of the operator's own inputs that fit several points.


#: Denominators of quotients that are tried.
PARTS = (2, 3, 4, 5, 6, 7, 8, 12, 14, 16, 24, 32, 64)

#: One size at several points.
Vector = tuple[int, ...]


@dataclass(slots=True)
class Explainer:
    """Finds expressions that give the sizes of graphs at several points; the first point is the hint."""

    graphs: Sequence[Graph]
    #: The place of each symbol at each point.
    places: Sequence[Point]
    #: Terms that were sizes already, by their values at the points.
    seen: dict[Vector, Term] = field(default_factory=dict)

    #: Whether a size was a quotient or had a bound, of which several fit at any few points.
    guessed: bool = False
    _vectors: dict[Polynomial, Vector] = field(default_factory=dict)
    _atoms: list[dict[str, int]] = field(default_factory=list)
    _positions: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._atoms = [{} for _ in self.places]
        for name in self.places[0] if self.places else ():
            self.seen.setdefault(self.vector(symbol(name)), symbol(name))

    def position(self, name: str) -> tuple[int, int] | None:
        """The position of the node that makes a tensor, and the place of the output; None where none does."""
        if not self._positions:
            for position, node in enumerate(self.graphs[0].nodes):
                self._positions.update((t.name, (position, i)) for i, t in enumerate(node.outputs) if t is not None)
        return self._positions.get(name)

    def agrees(self, position: int, place: int, shape: Dims) -> bool:
        """True if a shape is that of an output at all points; its extents are then kept as known sizes."""
        terms = [term(extent) for extent in shape]
        vectors = [self.vector(t) for t in terms]
        for graph, extents in zip(self.graphs, zip(*vectors, strict=True) if vectors else (), strict=False):
            output = graph.nodes[position].outputs[place]
            if output is None or output.shape != extents:
                return False
        for own, one in zip(vectors, terms, strict=True):
            self.seen.setdefault(own, one)
        return True

    def __call__(self, position: int, place: int, inputs: Sequence[Dims | None]) -> Dims | None:
        """The shape of an output as expressions in the extents of the inputs; None where one follows none."""
        shapes = []
        for graph in self.graphs:
            node = graph.nodes[position] if position < len(graph.nodes) else None
            output = node.outputs[place] if node is not None and place < len(node.outputs) else None
            shapes.append(None if output is None else output.shape)
        ranks = {None if s is None else len(s) for s in shapes}
        if len(ranks) != 1 or None in ranks:
            return None
        sizes: list[int] = []
        for vector in zip(*(s or () for s in shapes), strict=True):
            fitted = self.fit(vector, [tuple(map(term, s)) for s in inputs if s is not None])
            if fitted is None:
                return None
            self.seen.setdefault(vector, fitted)
            sizes.append(dim(vector[0], fitted))
        return tuple(sizes)

    def vector(self, one: Term) -> Vector:
        """The values of a term at the points."""
        if isinstance(one, int):
            return (one,) * len(self.places)
        if one not in self._vectors:
            self._vectors[one] = tuple(value(one, p, a) for p, a in zip(self.places, self._atoms, strict=True))
        return self._vectors[one]

    def fit(self, target: Vector, shapes: Sequence[Sequence[Term]]) -> Term | None:
        """A simple term with these values: a constant, an extent, a product, a multiple, a sum, a quotient."""
        if len(set(target)) == 1:
            return target[0]
        if target in self.seen:
            return self.seen[target]
        vectors = {one: self.vector(one) for one in candidates(shapes)}
        for terms, guessed in (
            (_linear_terms(target, vectors), False),
            (_bounded_terms(target, vectors), True),
            (self._sums(target, shapes), False),
            (_quotients(target, vectors), True),
        ):
            for one in terms:
                self.guessed = self.guessed or guessed
                return one
        return None

    def _sums(self, target: Vector, shapes: Sequence[Sequence[Term]]) -> Iterator[Term]:
        """Sums of the extents of one axis, as in a concatenation."""
        if len({len(shape) for shape in shapes}) == 1:
            for extents in zip(*shapes, strict=True):
                if self.vector(whole := add_up(extents)) == target:
                    yield whole


def _linear_terms(target: Vector, vectors: Mapping[Term, Vector]) -> Iterator[Term]:
    """Terms, multiples of one term, and sums and multiples of products of two."""
    yield from (one for one, own in vectors.items() if own == target)
    for one, own in vectors.items():
        if (line := _linear(own, target)) is not None:
            yield _on_line(one, line)
    items = list(vectors.items())
    for i, (one, own) in enumerate(items):
        for two, other in items[:i]:
            rests = {t - a - b for t, a, b in zip(target, own, other, strict=True)}
            if len(rests) == 1:
                yield add_up((one, two, rests.pop()))
            both = tuple(a * b for a, b in zip(own, other, strict=True))
            if (line := _linear(both, target)) is not None:
                yield _on_line(one * two, line)


def _bounded_terms(target: Vector, vectors: Mapping[Term, Vector]) -> Iterator[Term]:
    """Terms up to a limit."""
    for one, own in vectors.items():
        for limit in {t for t, o in zip(target, own, strict=True) if t < o}:
            if all(t == min(o, limit) for t, o in zip(target, own, strict=True)):
                yield least(one, limit)


def _quotients(target: Vector, vectors: Mapping[Term, Vector]) -> Iterator[Term]:
    """m * floor((term + c) / d) + b."""
    whole = [(d, c) for d in PARTS for c in (0, d - 1)]
    for one, own in vectors.items():
        for parts, more in (*whole, *((d, c) for d in PARTS for c in range(1, d - 1))):
            for factor in (1, parts):
                remainder = {t - factor * ((o + more) // parts) for o, t in zip(own, target, strict=True)}
                if len(remainder) == 1:
                    yield add_up((floor(one + more, parts) * factor, remainder.pop()))


def _on_line(one: Term, line: tuple[int, int, int]) -> Term:
    factor, more, parts = line
    return add_up((floor(one * factor, parts), more))


def _linear(own: Vector, target: Vector) -> tuple[int, int, int] | None:
    """a, b and d so that target = floor(a * own / d) + b at all points; None where there are none."""
    pairs = sorted(set(zip(own, target, strict=True)))
    if len(pairs) < 3 or len({o for o, _ in pairs}) < len(pairs):
        return None
    (x0, y0), (x1, y1) = pairs[0], pairs[-1]
    common = math.gcd(y1 - y0, x1 - x0)
    a, d = (y1 - y0) // common, (x1 - x0) // common
    b, remainder = divmod(y0 * d - a * x0, d)
    straight = all((y - y0) * d == a * (x - x0) for x, y in pairs)
    return (a, b, d) if a and straight and not remainder else None


def candidates(shapes: Sequence[Sequence[Term]]) -> Iterator[Term]:
    """Extents of the inputs, and products of neighbouring ones."""
    for shape in shapes:
        yield from shape
    for shape in shapes:
        for first in range(len(shape)):
            product: Term = shape[first]
            for extent in shape[first + 1 :]:
                product = product * extent
                yield product


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
