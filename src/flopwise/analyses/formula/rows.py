"""Rows whose figures are expressions, compared with concrete profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from flopwise.analyses.formula.subject import Point
from flopwise.analyses.formula.terms.evaluation import value
from flopwise.analyses.formula.terms.polynomial import Polynomial, Term
from flopwise.analyses.training.step import train as with_training
from flopwise.conventions.convention import Convention
from flopwise.graph import Graph
from flopwise.operators.own import Rules
from flopwise.profiles.count import profile_graph
from flopwise.profiles.profile import Profile
from flopwise.rows import Row

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

#: The note of a row for which no expression was found.
NO_FORMULA = "its cost follows no formula that was found"


class Counting(NamedTuple):
    """How a graph is counted."""

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


def unknown_row(row: Row) -> Row:
    """The row with no figure known."""
    return with_figures(row, dict.fromkeys((*FIGURES, *CLASSES)), True)


def with_figures(row: Row, figures: Mapping[str, Any], lost: bool) -> Row:
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

    def at(term: Term | None) -> int | None:
        if not isinstance(term, Polynomial):
            return term
        if term not in values:
            values[term] = value(term, places, atoms)
        return values[term]

    def same(row: Row, other: Row) -> bool:
        lost = row.note == NO_FORMULA
        for key in FIGURES:
            one = getattr(row, key)
            if at(one) != getattr(other, key) and not (lost and one is None):
                return False
        for key in CLASSES:
            one, two = getattr(row, key), getattr(other, key)
            if one is None or two is None:
                if one is not two and not (lost and one is None):
                    return False
            elif any(at(a) != b for a, b in zip(one, two, strict=True)):
                return False
        return True

    others = figures.profile.rows
    if [r.name for r in rows] != [r.name for r in others]:
        return set(range(len(rows)))
    return {i for i, (row, other) in enumerate(zip(rows, others, strict=True)) if not same(row, other)}
