"""From the values that a size takes at a few points to the expression that gives them, in whole numbers throughout."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from flopwise.analyses.formula.polynomial import (
    Atom,
    Polynomial,
    Term,
    add_up,
    closed,
    floor,
    largest,
    least,
    single,
    symbol,
    symbols,
    value,
)

#: A quantity's values, one for each point.
Vector = tuple[int, ...]

#: Floors with a larger denominator are not looked for.
MOST_PARTS = 128

#: Products of more factors are not looked for.
MOST_FACTORS = 5

#: A system of equations has at least this many more points than unknowns, so that a wrong form shows.
SPARE = 2

#: A floor takes as many different sizes: with fewer, another form would fit them as well.
ENOUGH = 5


class Relation(NamedTuple):
    """v = floor((factor · u + shift) / parts) for every shift from ``low`` to ``high``."""

    factor: int
    parts: int
    low: int
    high: int


def relation(u: Sequence[int], v: Sequence[int]) -> Relation | None:
    """The simplest floor of a multiple of u that gives v at every point; None when there is none.

    >>> relation([10, 21, 64, 101], [5, 11, 32, 51])
    Relation(factor=1, parts=2, low=1, high=1)
    """
    low, high = Fraction(-(1 << 62)), Fraction(1 << 62)
    for (u1, v1), (u2, v2) in itertools.combinations(zip(u, v, strict=True), 2):
        if u1 == u2:
            if v1 != v2:
                return None
            continue
        run, rise = (u2 - u1, v2 - v1) if u2 > u1 else (u1 - u2, v1 - v2)
        low, high = max(low, Fraction(rise - 1, run)), min(high, Fraction(rise + 1, run))
        if low >= high:
            return None
    if high - low > MOST_PARTS:  # all points are one
        return None
    for parts in range(1, MOST_PARTS + 1):
        for factor in range(math.floor(low * parts) + 1, math.ceil(high * parts)):
            if not factor or math.gcd(factor, parts) > 1:
                continue
            least_shift = max(parts * y - factor * x for x, y in zip(u, v, strict=True))
            most_shift = min(parts * y + parts - 1 - factor * x for x, y in zip(u, v, strict=True))
            if least_shift <= most_shift:
                return Relation(factor, parts, least_shift, most_shift)
    return None


class Doubt(NamedTuple):
    """A shift that the points leave open, and a value of the symbol that would halve what is open."""

    symbol: str
    open: int
    residue: int
    parts: int


class Fitter:
    """Expressions for vectors over one list of points, each vector fitted once."""

    def __init__(self, points: Sequence[Mapping[str, int]]) -> None:
        """
        Args:
            points: value of each symbol at each point; a symbol that is the same at all is a constant.
        """
        self.points = points
        values = {name: tuple(p[name] for p in points) for name in points[0]}
        self.symbols = {name: vector for name, vector in values.items() if len(set(vector)) > 1}
        self.known: dict[Vector, Term] = {}
        #: What products and sums are made of: each symbol and what was found on the way, with its vector.
        self.atoms: dict[Atom, Vector] = {}
        #: What the points do not settle.
        self.doubts: list[Doubt] = []
        for name, vector in self.symbols.items():
            self._keep(symbol(name), vector)
            self.known[vector] = symbol(name)
        #: Symbol -> pairs of points that differ in it alone.
        self.pairs = {name: list(self._apart(name)) for name in self.symbols}

    def _apart(self, name: str) -> Iterator[tuple[int, int]]:
        for (i, one), (j, two) in itertools.combinations(enumerate(self.points), 2):
            if [n for n in one if one[n] != two[n]] == [name]:
                yield i, j

    def _free_of(self, vector: Vector) -> set[str]:
        """The symbols that the vector does not depend on, as far as points tell that differ in one symbol alone."""
        return {n for n, pairs in self.pairs.items() if pairs and all(vector[i] == vector[j] for i, j in pairs)}

    def vector(self, term: Term) -> Vector:
        """The values of a term at the points."""
        return tuple(value(term, point) for point in self.points)

    def fit(self, vector: Vector, near: Sequence[Term] = ()) -> Term | None:
        """The expression for a vector; None when no form fits.

        Args:
            vector: the values at each point.
            near: expressions that it may be made of, such as the extents of an operator's inputs.
        """
        if vector in self.known:
            return self.known[vector]
        if len(set(vector)) == 1:
            return vector[0]
        for form in (
            self._floor,
            self._product,
            self._sum,
            self._bounded,
            self._nested,
            self._larger_sum,
        ):
            found = form(vector, near)
            if found is not None:
                self.known[vector] = found
                self._keep(found, vector)
                return found
        return None

    def learn(self, term: Polynomial) -> None:
        """Take in an expression that was found elsewhere."""
        vector = self.vector(term)
        self.known.setdefault(vector, term)
        self._keep(term, vector)

    def _keep(self, term: Term, vector: Vector) -> None:
        if isinstance(term, int):
            return
        for atom in term.atoms():
            if atom not in self.atoms:
                self.atoms[atom] = self.symbols.get(atom) or self.vector(single(atom))

    def _floor(self, vector: Vector, near: Sequence[Term]) -> Term | None:
        """A multiple of a floor of one symbol, and a constant."""
        for name, values in self.symbols.items():
            found = self._related(values, vector, symbol(name))
            if found is not None:
                return found
        return None

    def _nested(self, vector: Vector, near: Sequence[Term]) -> Term | None:
        """A floor of an expression near by."""
        for term in near:
            if isinstance(term, Polynomial) and closed(term):
                found = self._related(self.vector(term), vector, term)
                if found is not None:
                    return found
        return None

    def _related(self, u: Vector, v: Vector, term: Term) -> Term | None:
        different = len(set(u))
        step = math.gcd(*(y - v[0] for y in v))
        for scale in dict.fromkeys((1, step)):
            offset = v[0] % scale
            found = relation(u, [(y - offset) // scale for y in v])
            if found is None or different < (ENOUGH if found.parts > 1 else SPARE + 1):
                continue
            name = next((n for n in self.symbols if term == symbol(n)), None)
            if name is not None and found.low < found.high:
                middle = (found.low + found.high + 1) // 2
                residue = -middle * pow(found.factor, -1, found.parts) % found.parts
                self.doubts.append(Doubt(name, found.high - found.low, residue, found.parts))
            return floor(found.factor * term + _simple(found), found.parts) * scale + offset
        return None

    def _product(self, vector: Vector, near: Sequence[Term]) -> Term | None:
        """A multiple of a product of atoms and known sums."""
        if 0 in vector:
            return None
        sums = ((t, v) for v, t in self.known.items() if isinstance(t, Polynomial) and len(t.terms) > 1)
        factors = [(t, v) for t, v in ((*((single(a), v) for a, v in self.atoms.items()), *sums)) if 0 not in v]

        def search(rest: Sequence[int], start: int, left: int) -> Term | None:
            if all(r == rest[0] for r in rest):
                return rest[0]
            for i in range(start, len(factors) if left else 0):
                term, values = factors[i]
                if any(r % v for r, v in zip(rest, values, strict=True)):
                    continue
                found = search([r // v for r, v in zip(rest, values, strict=True)], i, left - 1)
                if found is not None:
                    return found * term
            return None

        return search(vector, 0, MOST_FACTORS)

    def _sum(self, vector: Vector, near: Sequence[Term]) -> Term | None:
        """A sum of the atoms near by, or of all, and of their products."""
        return self._solved(vector, near, powers=(1, 2))

    def _larger_sum(self, vector: Vector, near: Sequence[Term]) -> Term | None:
        return self._solved(vector, near, powers=(3, 4))

    def _solved(self, vector: Vector, near: Sequence[Term], powers: Iterable[int]) -> Term | None:
        close = dict.fromkeys(a for term in near if isinstance(term, Polynomial) for a in term.atoms())
        most = len(self.points) - SPARE
        strange = self._free_of(vector)
        for power in powers:
            for group in (list(close), [a for a in self.atoms if a.kind == "symbol"], list(self.atoms)):
                group = [a for a in group if a in self.atoms and not symbols(single(a)) & strange]
                if not group or math.comb(len(group) + power, power) > most:
                    continue
                found = self._combination(vector, group, power)
                if found is not None:
                    return found
        return None

    def _combination(self, vector: Vector, group: Sequence[Atom], power: int) -> Term | None:
        """A sum of multiples of the products of up to ``power`` atoms."""
        monomials = [m for n in range(power + 1) for m in itertools.combinations_with_replacement(sorted(group), n)]
        columns = [[math.prod(self.atoms[a][i] for a in m) for i in range(len(vector))] for m in monomials]
        solution = solve(columns, vector)
        if solution is None:
            return None
        common = math.lcm(*(c.denominator for c in solution))
        used = ((m, int(c * common)) for m, c in zip(monomials, solution, strict=True) if c)
        return floor(add_up(_multiplied(m, c) for m, c in used), common)

    def _bounded(self, vector: Vector, near: Sequence[Term]) -> Term | None:
        """The smaller or larger of a constant and a symbol or an expression near by."""
        for term in (*map(symbol, self.symbols), *near):
            if isinstance(term, Polynomial) and closed(term):
                found = _clipped(self.vector(term), vector, term)
                if found is not None:
                    return found
        return None


def _multiplied(atoms: Iterable[Atom], factor: int) -> Term:
    product: Term = factor
    for atom in atoms:
        product = product * single(atom)
    return product


def _simple(found: Relation) -> int:
    """A shift among those that fit: rounding down or up if it may be, else the middle."""
    for shift in (0, found.parts - 1, 1, -1):
        if found.low <= shift <= found.high:
            return shift
    return (found.low + found.high) // 2


def _clipped(u: Vector, v: Vector, term: Term) -> Term | None:
    """min(term + shift, constant) or max(term + shift, constant), each part met at two points at least."""
    for shift in dict.fromkeys(y - x for x, y in zip(u, v, strict=True)):
        off = {y for x, y in zip(u, v, strict=True) if y != x + shift}
        met = len({x for x, y in zip(u, v, strict=True) if y == x + shift})
        if len(off) != 1 or met < 2 or sum(y in off for y in v) < 2:
            continue
        constant = off.pop()
        for extreme, choose in ((least, min), (largest, max)):
            if all(y == choose(x + shift, constant) for x, y in zip(u, v, strict=True)):
                return extreme(term + shift, constant)
    return None


def solve(columns: Sequence[Sequence[int]], target: Sequence[int]) -> list[Fraction] | None:
    """Factors of the columns that add up to the target at every place, 0 where they are not settled; None if none do.

    >>> solve([[1, 1, 1], [2, 3, 5]], [7, 10, 16])
    [Fraction(1, 1), Fraction(3, 1)]
    """
    rows = [[*map(Fraction, row)] for row in zip(*columns, target, strict=True)]
    pivots: list[int] = []
    for column in range(len(columns)):
        rank = len(pivots)
        pivot = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        head = rows[rank]
        for row in rows[rank + 1 :]:
            if row[column]:
                share = row[column] / head[column]
                for i in range(column, len(row)):
                    row[i] -= share * head[i]
        pivots.append(column)
    if any(row[-1] for row in rows[len(pivots) :]):
        return None
    found = [Fraction(0)] * len(columns)
    for rank in range(len(pivots) - 1, -1, -1):
        row, column = rows[rank], pivots[rank]
        found[column] = (row[-1] - sum(row[i] * found[i] for i in pivots[rank + 1 :])) / row[column]
    return found
