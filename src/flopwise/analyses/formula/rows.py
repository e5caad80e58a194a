"""Rows whose figures are expressions, compared with concrete profiles."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, cast

from flopwise.analyses.formula.dim import term
from flopwise.analyses.formula.points import Point
from flopwise.analyses.formula.terms.evaluation import value
from flopwise.analyses.formula.terms.polynomial import Polynomial
from flopwise.analyses.training.step import train as with_training
from flopwise.conventions.convention import Convention
from flopwise.graph import Graph
from flopwise.operators.counts import Counts
from flopwise.operators.own import Rules
from flopwise.profiles.count import profile_graph
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

#: Figures of a row by name: terms or numbers, counts, None where nobody knows.
Figures: TypeAlias = "dict[str, Any]"

#: Fields of a row that hold one figure, and those that hold operations by class.
FIGURES = (
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
CLASSES = ("counts", "view", "backward_counts")

#: What of ``backward_counts`` or beside it is computed once more: it follows from figures that are compared.
AGAIN = ("recomputed", "checkpointed")

#: All of them.
_FIGURES = operator.attrgetter(*FIGURES, *CLASSES)
_WITH_AGAIN = operator.attrgetter(*FIGURES, *CLASSES, *AGAIN)

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
        for key in FIGURES:
            figure = getattr(row, key)
            figures[key] = None if figure is None else term(figure)
        for key in (*CLASSES, *AGAIN):
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
    return with_figures(row, dict.fromkeys((*FIGURES, *CLASSES)), True)


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
