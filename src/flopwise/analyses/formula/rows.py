"""Rows whose figures are expressions: counted on a graph with expressions for sizes, compared with concrete profiles,
and fitted to these where the rules cannot count with expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from flopwise.analyses.formula.fitting import Fitter
from flopwise.analyses.formula.points import Point
from flopwise.analyses.formula.polynomial import Polynomial, Term, closed, value
from flopwise.conventions.convention import Convention
from flopwise.errors import FlopwiseError
from flopwise.graph import Graph
from flopwise.operators.counts import Counts
from flopwise.operators.own import Rules
from flopwise.profiles.profile import Profile, profile_graph
from flopwise.rows import Row

#: Fields of a row that hold one figure, and those that hold operations by class.
FIGURES = ("count", "params", "buffers", "weight_bytes", "input_bytes", "output_bytes", "activations", "times")
CLASSES = ("counts", "view")

#: The note of a row for which no expression was found.
NO_FORMULA = "its cost follows no formula that was found"


class Counting(NamedTuple):
    """How a graph is counted."""

    convention: Convention
    rules: Rules | None = None
    fold: bool | None = None

    def profile(self, graph: Graph) -> Profile:
        """The profile of a graph."""
        return profile_graph(graph, self.convention, self.rules, self.fold)


class Known(NamedTuple):
    """A concrete profile and the point that it belongs to."""

    point: Point
    profile: Profile


def expressed(counting: Counting, graph: Graph, base: Sequence[Row]) -> list[Row]:
    """The rows of a graph with expressions for sizes; rows of nothing known where the rules cannot count it.

    Args:
        counting: how to count.
        graph: the graph with expressions.
        base: the rows of the same graph at one point.
    """
    try:
        rows = list(counting.profile(graph).rows)
    except (ArithmeticError, AttributeError, FlopwiseError, LookupError, TypeError, ValueError):
        rows = []  # what compares sizes, such as choosing the dearer of two branches, needs numbers
    if [row.name for row in rows] != [row.name for row in base]:
        return [unknown_row(row) for row in base]
    return [row if _closed(row) else unknown_row(row) for row in rows]


def _closed(row: Row) -> bool:
    figures = [getattr(row, key) for key in FIGURES]
    return all(f is None or closed(f) for f in (*figures, *(row.counts or ()), *(row.view or ())))


def unknown_row(row: Row) -> Row:
    """The row with no figure known."""
    return _with(row, dict.fromkeys((*FIGURES, *CLASSES)), True)


def _with(row: Row, figures: Mapping[str, Any], lost: bool) -> Row:
    row = replace(row, **figures)
    return replace(row, missing="fact", note=NO_FORMULA) if lost else row


def differing(rows: Sequence[Row], known: Known, places: Point) -> set[int]:
    """Positions of the rows whose expressions do not give the figures of a concrete profile.

    Args:
        rows: with expressions.
        known: the profile.
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
        if any(at(getattr(row, key)) != getattr(other, key) for key in FIGURES):
            return False
        for key in CLASSES:
            one, two = getattr(row, key), getattr(other, key)
            if one is None or two is None:
                if one is not two:
                    return False
            elif any(at(a) != b for a, b in zip(one, two, strict=True)):
                return False
        return True

    others = known.profile.rows
    if [r.name for r in rows] != [r.name for r in others]:
        return set(range(len(rows)))
    return {i for i, (row, other) in enumerate(zip(rows, others, strict=True)) if not same(row, other)}


def fitted(
    rows: list[Row], wrong: set[int], known: Sequence[Known], fitter: Fitter, near: Callable[[Row], Any]
) -> None:
    """Replace rows by ones whose figures are fitted to concrete profiles at the fitter's points.

    Args:
        rows: changed in place.
        wrong: positions of the rows to fit.
        known: the profiles at the points, in their order.
        fitter: finds expressions.
        near: the expressions for the sizes of a row's operator.
    """
    for position in wrong:
        alike = [k.profile.rows[position] for k in known]
        base, close = alike[0], near(alike[0])

        def term(values: Sequence[int | None], close: Any = close) -> Term | None:
            whole = tuple(v for v in values if v is not None)
            return fitter.fit(whole, close) if len(whole) == len(values) else None

        found: dict[str, Any] = {key: term([getattr(r, key) for r in alike]) for key in FIGURES}
        for key in CLASSES:
            classes = [getattr(r, key) for r in alike]
            terms = [term(v) for v in zip(*classes, strict=True)] if None not in classes else [None]
            found[key] = None if None in terms else Counts(*terms)
        lost = [key for key in (*FIGURES, *CLASSES) if found[key] is None and getattr(base, key) is not None]
        rows[position] = _with(base, found, bool(lost))
