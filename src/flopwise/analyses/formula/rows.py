"""Rows whose figures are expressions, compared with concrete profiles."""

from __future__ import annotations

import functools
import operator
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, cast

from flopwise.analyses.formula.conditions import Conditions, Guards, recording
from flopwise.analyses.formula.dim import term
from flopwise.analyses.formula.dim import term as term_of
from flopwise.analyses.formula.domains import Domain, Point
from flopwise.analyses.formula.terms import Polynomial, Term, add_up, largest, value
from flopwise.analyses.training import train as with_training
from flopwise.conventions.convention import Convention
from flopwise.errors import InputError
from flopwise.graph import Graph
from flopwise.operators.counts import CLASSES, Counts
from flopwise.operators.own import Rules
from flopwise.profiles.count import profile_graph
from flopwise.profiles.grouping import by_module
from flopwise.profiles.profile import Profile
from flopwise.rows import Row
from flopwise.storage.liveness import live_bytes

#: Figures of a row by name: terms or numbers, counts, None where nobody knows.
Figures: TypeAlias = "dict[str, Any]"

#: Fields of a row that hold one figure, and those that hold operations by class.
ROW_FIGURES = (
    "count",
    "params",
    "buffers",
    "weight_bytes",
    "input_bytes",
    "output_bytes",
    "activations",
    "times",
    "backward",
    "saved_bytes",
)
ROW_CLASSES = ("counts", "view", "backward_counts")

#: What of ``backward_counts`` or beside it is computed once more: it follows from figures that are compared.
AGAIN = ("recomputed", "checkpointed")

#: All of them.
_FIGURES = operator.attrgetter(*ROW_FIGURES, *ROW_CLASSES)
_WITH_AGAIN = operator.attrgetter(*ROW_FIGURES, *ROW_CLASSES, *AGAIN)

#: The note of a row for which no expression was found.
NO_FORMULA = "its cost follows no formula that was found"


class Counting(NamedTuple):
    """The choices by which a graph is counted."""

    convention: Convention
    rules: Rules | None = None
    fold: bool | None = None
    #: Whether each row gets its backward pass.
    train: bool = False

    def profile(self, graph: Graph) -> Profile:
        """The profile of a graph."""
        profile = profile_graph(graph, self.convention, self.rules, self.fold, self.train)
        return with_training(profile) if self.train else profile


class Known(NamedTuple):
    """A concrete profile and the point that it belongs to."""

    point: Point
    profile: Profile


def termed(rows: Sequence[Row]) -> list[Row]:
    """The rows with terms for sizes that carry them."""
    known: dict[tuple[int, ...], Figures] = {}  # many rows share their figures

    def figures_of(row: Row) -> Figures:
        figures: Figures = {}
        for key in ROW_FIGURES:
            figure = getattr(row, key)
            figures[key] = None if figure is None else term(figure)
        for key in (*ROW_CLASSES, *AGAIN):
            classes = getattr(row, key)
            figures[key] = None if classes is None else Counts(*[cast(int, term(c)) for c in classes])
        return figures

    terms = []
    for row in rows:
        shared = tuple(map(id, _WITH_AGAIN(row)))
        if shared not in known:
            known[shared] = figures_of(row)
        terms.append(replace(row, **known[shared]))
    return terms


def unknown_row(row: Row) -> Row:
    """The row with no figure known."""
    return with_figures(row, dict.fromkeys((*ROW_FIGURES, *ROW_CLASSES)), True)


def with_figures(row: Row, figures: Figures, lost: bool) -> Row:
    """The row with other figures, and a note where some are lost."""
    row = replace(row, **figures)
    return replace(row, missing="fact", note=NO_FORMULA) if lost else row


def differing(rows: Sequence[Row], figures: Known, places: Point) -> set[int]:
    """Positions of the rows whose expressions do not give the figures of a profile; what is unknown does not differ.

    Args:
        rows: with expressions.
        figures: those of the profile.
        places: its point on the symbols' own scales.
    """
    atoms: dict[str, int] = {}
    values: dict[Polynomial, int] = {}
    known: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # many rows have the same figures

    def at(term: object) -> Any:
        if isinstance(term, tuple):
            return tuple(map(at, term))
        if not isinstance(term, Polynomial):
            return term
        if term not in values:
            values[term] = value(term, places, atoms)
        return values[term]

    def same(row: Row, other: Row) -> bool:
        terms, there = _FIGURES(row), _FIGURES(other)
        mine = known.get(terms)
        if mine is None:
            mine = known[terms] = at(terms)
        if mine == there:
            return True
        return row.note == NO_FORMULA and all(a is None or a == b for a, b in zip(mine, there, strict=True))

    others = figures.profile.rows
    if [r.name for r in rows] != [r.name for r in others]:
        return set(range(len(rows)))
    return {i for i, (row, other) in enumerate(zip(rows, others, strict=True)) if not same(row, other)}


# Layers together: under one operator, one module, or one formula that many of them have.


#: The figures that have a formula.
FIGURES: tuple[str, ...] = (
    "count",
    "macs",
    "flops",
    "params",
    "buffers",
    "weight_bytes",
    "activations",
    "input_bytes",
    "output_bytes",
)

#: Figures of the whole model alone.
OF_MODEL: tuple[str, ...] = ("peak_activation_bytes", "state_bytes")

#: Figures of a training step, of formulas that were asked for it.
TRAINED: tuple[str, ...] = ("backward", "backward_macs", "backward_flops", "saved_bytes")


@dataclass(frozen=True, eq=False)
class Group:
    """Layers under one name, and their figures added up."""

    name: str
    rows: tuple[Row, ...]
    #: The operator, or the class of a module.
    kind: str = ""
    #: How deep a module is nested.
    depth: int = 0
    #: How many parts with the same formulas it consists of, and the first of them.
    times: int = 1
    one: Group | None = None

    @functools.cached_property
    def terms(self) -> dict[str, Term | None]:
        """Each figure on the symbols' scales, the sum of what is known; None when no layer has it."""
        trained = TRAINED if any(row.backward_counts is not None for row in self.rows) else ()
        return {figure: self._sum(figure) for figure in (*FIGURES, *trained)}

    def _sum(self, figure: str) -> Term | None:
        terms = [term for row in self.rows if (term := getattr(row, figure)) is not None]
        return add_up(terms) if terms or not self.rows else None

    @functools.cached_property
    def classes(self) -> dict[str, Term | None]:
        """Canonical operations of each class on the symbols' scales; None when no layer has a rule."""
        counts = [row.counts for row in self.rows if row.counts is not None]
        columns = zip(*counts, strict=True) if counts else [() for _ in CLASSES]
        counted = bool(counts) or not self.rows
        return {name: add_up(column) if counted else None for name, column in zip(CLASSES, columns, strict=True)}

    def term(self, figure: str) -> Term | None:
        """A figure, or the operations of a class, on the symbols' scales; None when no layer has it."""
        return self.classes[figure] if figure in self.classes else self.terms.get(figure)

    def exact(self, figure: str) -> bool:
        """True if every layer has the figure, or it is one of the whole model, so that the sum is no lower bound."""
        if figure in CLASSES:
            return all(row.counts is not None for row in self.rows)
        return figure in OF_MODEL or all(getattr(row, figure) is not None for row in self.rows)


def grouped(rows: Sequence[Row], key: str, depth: int | None = None) -> list[Group]:
    """Layers grouped, in execution order.

    Args:
        rows: the layers.
        key: "layer", "op", "formula", "module" or "block", see ``Formula.by``.
        depth: how many levels of modules; None for all.

    Raises:
        InputError: the key is none of these.
    """
    if key == "layer":
        return [Group(row.name, (row,), row.type) for row in rows]
    if key == "module":
        return [Group(s.name, s.rows, s.kind, s.depth) for s in by_module(rows, depth)]
    if key == "block":
        return list(_merged([Group(s.name, s.rows, s.kind, s.depth) for s in by_module(rows, depth)]))
    if key not in ("op", "formula"):
        raise InputError(f"cannot group by {key!r}; choose layer, op, module, block or formula")
    alike: dict[Any, list[Row]] = {}
    for row in rows:
        figures = tuple(getattr(row, figure) for figure in ("count", "macs", "flops", "activations", "output_bytes"))
        alike.setdefault((row.type, *(figures if key == "formula" else ())), []).append(row)
    if key == "op":
        return [Group(own[0].type, tuple(own), own[0].type) for own in alike.values()]
    return [_repeated([Group(row.name, (row,), row.type) for row in own]) for own in alike.values()]


def _repeated(groups: Sequence[Group]) -> Group:
    """One group for several with the same formulas, under the name of the first."""
    first = groups[0]
    if len(groups) == 1:
        return first
    rows = tuple(row for group in groups for row in group.rows)
    return Group(first.name, rows, first.kind, first.depth, len(groups), first)


def _merged(groups: Sequence[Group]) -> Iterator[Group]:
    """Modules in execution order; those alike in one module are one group, below which the first one's parts follow."""
    starts = [i for i, group in enumerate(groups) if group.depth == groups[0].depth]
    ends = dict(zip(starts, [*starts[1:], len(groups)], strict=False))
    alike: dict[Any, list[int]] = {}
    for i in starts:
        alike.setdefault((groups[i].kind or groups[i].name, tuple(groups[i].terms.values())), []).append(i)
    for places in alike.values():
        yield _repeated([groups[i] for i in places])
        yield from _merged(groups[places[0] + 1 : ends[places[0]]])


# Bytes of activations alive at once, and of states, as terms.


#: Sums of which the largest is the peak of memory; of more no formula is made.
MOST_SUMS = 8

#: Random sizes at which the largest of these sums is sought.
PEAKS = 200

#: What the inputs and outputs are called that a model keeps between calls.
_STATES = re.compile(r"past|cache|(^|[._])state([._]|$)", re.IGNORECASE)


def alive(sizes: Graph | None) -> tuple[tuple[Term, ...], Conditions]:
    """The bytes of activations alive at each step of an inference, each sum once, and where these sums hold.

    They hold at sizes where tensors share their storage as they do here. () where a size is missing.

    Args:
        sizes: the graph with sizes that carry expressions; None where there is none.
    """
    if sizes is None:
        return (), Conditions(())
    guards = Guards(reason="storage shared")
    with recording(guards):
        sums = tuple(dict.fromkeys(map(term_of, live_bytes(sizes))))
    return sums, Conditions.of(guards.reasons)


def peak_of(
    sums: Sequence[Term],
    domains: Sequence[Domain],
    checked: Sequence[Mapping[str, int]],
    true: Callable[[Mapping[str, int]], int | None],
) -> Term | None:
    """The largest of the sums that are the peak at some of many random sizes.

    None where there is no sum, where so many take turns that no formula is short, or where the result is not the true
    peak at a checked point.

    Args:
        sums: the bytes alive at each step.
        domains: the symbols.
        checked: points at which tensors share their storage otherwise, in the places of the symbols.
        true: the peak at such a point.
    """
    chance = random.Random(0)
    winners: dict[Term, None] = {}
    for _ in range(PEAKS if sums else 0):
        places = {}
        for d in domains:
            low, high = d.place(d.low), None if d.high is None else d.place(d.high)
            size = low + int(10 ** chance.uniform(0, 4)) - 1
            places[d.name] = size if high is None else min(size, high)
        atoms: dict[str, int] = {}
        winners[max(sums, key=lambda term: value(term, places, atoms))] = None
    if not 0 < len(winners) <= MOST_SUMS:
        return None
    peak = functools.reduce(largest, winners)
    return peak if all(value(peak, places) == true(places) for places in checked) else None


def state_of(sizes: Graph | None) -> Term | None:
    """Bytes that the model hands on from call to call: caches of keys and values, states."""
    if sizes is None:
        return None
    shaped = [t for t in sizes.inputs if t.shape]
    states = [t for t in shaped if t.kind == "state"] or [t for t in shaped if _STATES.search(t.name)]
    return add_up(term_of(t.nbytes) for t in states if t.sized)
