"""A model that was read with sizes that carry expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flopwise.analyses.formula.following.loops import Loops
from flopwise.analyses.formula.guards import Guards
from flopwise.analyses.formula.terms.evaluation import substituted
from flopwise.analyses.formula.terms.polynomial import Term
from flopwise.graph import Graph


class Followed:
    """A model with sizes that carry expressions, and the conditions under which they hold."""

    #: Outputs without a shape.
    open: Sequence[Any] = ()
    #: Whether it is costly to follow once more, in the places of the symbols.
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

    def on(self, scales: Mapping[str, Term]) -> tuple[Graph, Guards]:
        """The graph and the conditions with other terms in place of the symbols."""
        guards = Guards()
        for guard, why in self.guards.reasons.items():
            guards.reason = why
            guards.require(substituted(guard.expression, scales), guard.relation)
        return self.graph, guards
