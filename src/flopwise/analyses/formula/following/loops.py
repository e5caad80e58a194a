"""Loops of a program over a size: what a turn costs is counted once, and how often it runs is an expression.

The first and the last turn stand for themselves. All between must cost the same, row by row; then any number of them
does. A loop for which that does not hold runs as often as it did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from flopwise.analyses.formula.conditions import Guards
from flopwise.analyses.formula.dim import dim, require, term
from flopwise.analyses.formula.domains import Point
from flopwise.analyses.formula.rows import ROW_CLASSES as CLASSES
from flopwise.analyses.formula.rows import ROW_FIGURES as FIGURES
from flopwise.analyses.formula.rows import Figures
from flopwise.analyses.formula.terms import Term, add_up, substituted, value
from flopwise.graph import Graph, Tensor
from flopwise.operators.counts import Counts
from flopwise.rows import Row

#: Turns that a loop needs so that one is neither the first nor the last.
LEAST = 3


class Turn(NamedTuple):
    """The turns of the loops that an operation ran in."""

    loop: int
    number: int


@dataclass
class Loops:
    """The loops over sizes of one run, and the operations in them."""

    #: How often each loop runs.
    turns: list[int] = field(default_factory=list)
    #: The turn that is running; None outside of loops.
    now: Turn | None = None
    #: The turn of each operation, in the order in which they ran.
    of: list[Turn | None] = field(default_factory=list)
    #: The turn in which each tensor was made.
    made: dict[str, Turn] = field(default_factory=dict)
    #: Loops that the program left before their end.
    left: set[int] = field(default_factory=set)
    #: Position of an operation that takes a tensor from each turn of a loop -> the loop.
    gathering: dict[int, int] = field(default_factory=dict)

    def record(self, outputs: Sequence[Tensor], gathered: int | None) -> None:
        """Note down an operation."""
        if gathered is not None:
            self.gathering[len(self.of)] = gathered
        self.of.append(self.now)
        if self.now is not None:
            self.made.update((tensor.name, self.now) for tensor in outputs)

    def gathered(self, things: object) -> int | None:
        """The loop of which some tensors are one from each turn, in order; None where they are not."""
        if not isinstance(things, (list, tuple)) or not things or not isinstance(things[0], Tensor):
            return None
        first = self.made.get(things[0].name)
        if first is None or len(things) != int(self.turns[first.loop]):
            return None
        turns = [self.made.get(thing.name) if isinstance(thing, Tensor) else None for thing in things]
        return first.loop if turns == [Turn(first.loop, i) for i in range(len(things))] else None

    def run(self, numbers: range, step: int, start: int, turns: int, guards: Sequence[Guards]) -> Iterator[int]:
        """The numbers of a loop, of which the last carries its expression.

        Args:
            numbers: as they are at the hint.
            step: between two of them.
            start: the first.
            turns: how many there are.
            guards: where conditions are recorded; those of the turns between the first and the last are dropped.
        """
        require(term(turns) - LEAST, ">=")
        self.turns.append(turns)
        loop, last = len(self.turns) - 1, len(numbers) - 1
        before: list[int] = []
        self.left.add(loop)
        try:
            for place, number in enumerate(numbers):
                if place == 1:
                    before = [len(g.reasons) for g in guards]
                if place == last:
                    for held, count in zip(guards, before, strict=True):
                        for guard in list(held.reasons)[count:]:
                            del held.reasons[guard]
                self.now = Turn(loop, place)
                yield dim(number, term(start + (turns - 1) * step)) if place == last else number
            self.left.remove(loop)
        finally:
            self.now = None


def collapsed(rows: Sequence[Row], graph: Graph, loops: Loops, scales: Mapping[str, Term]) -> list[Row] | None:
    """Rows with one for all turns of a loop between its first and last.

    None where these turns do not cost the same, or the program leaves a loop before its end.

    Args:
        rows: of all turns, with terms for figures.
        graph: the graph that they are of.
        loops: its loops.
        scales: terms in place of the symbols.
    """
    if loops.left:
        return None
    places = {id(node): place for place, node in enumerate(graph.nodes)}
    times = [substituted(term(turns), scales) for turns in loops.turns]
    inner: dict[int, dict[int, list[Row]]] = {}
    rest: list[Row] = []
    for row in rows:
        place = places.get(id(row.node), len(loops.of))
        turn = loops.of[place] if place < len(loops.of) else None
        if place in loops.gathering:
            loop = loops.gathering[place]
            row = _gathering(row, times[loop] - int(loops.turns[loop]))
        if turn is None or turn.number in (0, int(loops.turns[turn.loop]) - 1):
            rest.append(row)
            continue
        if turn.number == 1:
            rest.append(_times(row, times[turn.loop] - 2))
        inner.setdefault(turn.loop, {}).setdefault(turn.number, []).append(row)
    for turns in inner.values():
        first, *others = ([_figures(row) for row in turns[number]] for number in sorted(turns))
        if any(other != first for other in others):
            return None
    return rest


def _figures(row: Row) -> tuple[object, ...]:
    return row.node.op, row.node.module, *(getattr(row, key) for key in (*FIGURES, *CLASSES))


def _times(row: Row, turns: Term) -> Row:
    """A row with its figures for so many turns; weights are there once."""
    figures: Figures = {}
    for key in ("count", "input_bytes", "output_bytes", "activations", "times"):
        figure = getattr(row, key)
        figures[key] = None if figure is None else figure * turns
    for key in ("counts", "view"):
        classes = getattr(row, key)
        figures[key] = None if classes is None else Counts(*[count * turns for count in classes])
    return replace(row, **figures)


def _gathering(row: Row, more: Term) -> Row:
    """The row of an operator that takes a tensor from each turn, with ``more`` of them added."""
    if row.input_bytes is None or not row.node.known_inputs:
        return row
    figures: Figures = {"input_bytes": row.input_bytes + term(row.node.known_inputs[0].nbytes) * more}
    return replace(row, **figures)


def differing(rows: Sequence[Row], others: Sequence[Row], places: Point) -> set[int]:
    """Positions of the rows whose expressions do not give what those of a profile with all turns say.

    Rows of one operator in one module are compared together, as there are more of them the more turns there are.

    Args:
        rows: with expressions.
        others: those of the profile.
        places: its point on the symbols' own scales.
    """
    atoms: dict[str, int] = {}
    ours, theirs = _by_kind(rows), _by_kind(others)
    wrong = set() if ours.keys() == theirs.keys() else set(range(len(rows)))
    for kind, own in ours.items():
        pairs = zip(_sums([rows[i] for i in own]), _sums([others[i] for i in theirs.get(kind, ())]), strict=True)
        if any(b is not a if a is None or b is None else value(a, places, atoms) != b for a, b in pairs):
            wrong.update(own)
    return wrong


def _by_kind(rows: Sequence[Row]) -> dict[object, list[int]]:
    groups: dict[Any, list[int]] = {}
    for place, row in enumerate(rows):
        groups.setdefault((row.node.module, row.node.op, row.node.origin), []).append(place)
    return groups


def _sums(rows: Sequence[Row]) -> list[Term | None]:
    """All figures of some rows added up; None where one is unknown."""
    columns: list[Sequence[Any]] = [[getattr(row, key) for row in rows] for key in FIGURES]
    for key in CLASSES:
        classes = [getattr(row, key) for row in rows]
        columns += zip(*classes, strict=True) if None not in classes else [[None]] * len(Counts())
    return [None if None in column else add_up(column) for column in columns]


# A model that was read with sizes that carry expressions.


class Followed:
    """A model with sizes that carry expressions, and the conditions under which they hold."""

    #: Outputs without a shape.
    open: Sequence[Any] = ()
    #: Whether following it once more is costly (it runs a program); then ``substitute`` replaces the symbols instead.
    slow = False
    #: The loops of a program over sizes; None where there are none.
    loops: Loops | None = None

    def __init__(self, base: Graph, graph: Graph, guards: Guards) -> None:
        """
        Args:
            base: the graph at the hint.
            graph: the same with sizes that carry expressions.
            guards: their conditions.
        """
        self.base, self.graph, self.guards = base, graph, guards

    def substitute(self, scales: Mapping[str, Term]) -> tuple[Graph, Guards]:
        """The graph, and its conditions with each symbol replaced by a term.

        The graph stays as it is: a model that is cheap to follow is followed anew with terms in place of its symbols. A
        ``slow`` one replaces the symbols in its shapes.

        Args:
            scales: name of a symbol -> its term, such as 16·S for a size that must be a multiple of 16.
        """
        guards = Guards()
        for guard, why in self.guards.reasons.items():
            guards.reason = why
            guards.require(substituted(guard.expression, scales), guard.relation)
        return self.graph, guards
