"""Sizes for which there is no rule: expressions in the sizes of the operator's own inputs that fit several points."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from flopwise.analyses.formula.dim import dim, term
from flopwise.analyses.formula.points import Point
from flopwise.analyses.formula.terms.bounds import least
from flopwise.analyses.formula.terms.evaluation import value
from flopwise.analyses.formula.terms.polynomial import Polynomial, Term, add_up, floor, symbol
from flopwise.graph import Graph
from flopwise.operators.size import Dims

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
