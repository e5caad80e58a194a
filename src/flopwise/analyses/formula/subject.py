"""A model with open sizes: what its formulas are derived from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from flopwise.analyses.formula.facts import ModelFacts
from flopwise.analyses.formula.propagation.engine import Explain
from flopwise.analyses.formula.terms.polynomial import Term
from flopwise.graph import Graph

#: Symbol -> size.
Point: TypeAlias = "Mapping[str, int]"

#: Shapes of inputs by name, in sizes that may carry expressions.
Sizes: TypeAlias = "Mapping[str, tuple[int, ...]]"

#: Name, element type and shape of an input, in the sizes of the symbols.
OpenShape: TypeAlias = "tuple[str, str | None, tuple[Term, ...]]"


class Reading(NamedTuple):
    """A model at one point: its graph, and what reading it says about values."""

    graph: Graph
    facts: ModelFacts

    def in_modules(self, named: Graph) -> Reading:
        """The reading with names and module paths of another graph of the model; as it is where the two differ."""
        graph = self.graph
        if graph is named or len(graph.nodes) != len(named.nodes) or not any(n.scope for n in named.nodes):
            return self
        pairs = zip(graph.nodes, named.nodes, strict=True)
        nodes = tuple(replace(node, name=twin.name, scope=twin.scope, origin=twin.origin) for node, twin in pairs)
        return self._replace(graph=replace(graph, nodes=nodes))


@dataclass(frozen=True)
class Subject:
    """A model with open sizes, and how it is read at a point."""

    #: The symbols.
    names: Sequence[str]
    #: Reads the model at a size of each symbol; raises FlopwiseError where the model cannot have these sizes.
    read: Callable[[Point], Reading]
    #: Sizes that the model is known to take.
    hints: Point = field(default_factory=dict)
    #: The open inputs.
    shapes: Sequence[OpenShape] = ()
    #: Those of the symbols that are numbers of trips of the loop of that name.
    loops: Sequence[str] = ()
    #: Reads a program at a point with sizes that carry expressions, with what finds shapes for which there is no rule,
    #: and perhaps with loops that run as often as they do there; None for a file, whose graph says it all.
    follow: Callable[[Point, Sizes, Explain | None, bool], Reading] | None = None
    #: The point at which it is followed; None: the one that it takes best.
    start: Point | None = None
    #: The subject from a point on at which a program may take another way: the smallest sizes there are numbers in it.
    way: Callable[[Point], Subject] | None = None
    #: Sizes of each symbol at which programs may take other ways, ordinary ones first.
    tried: Mapping[str, Sequence[int]] = field(default_factory=dict)
