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
