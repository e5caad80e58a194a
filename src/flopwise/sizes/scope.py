"""The facts about all tensors of one graph, and what should be known about its operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from flopwise.sizes.facts import ABSENT, NOTHING, Fact
from flopwise.sizes.program import Graph, describe


class Inner(NamedTuple):
    """A graph inside a control-flow operator, with the facts about its tensors."""

    part: str
    graph: Graph
    scope: Scope
    #: How often it runs each time its operator runs; None when it is unknown.
    trips: int | None
    #: Whether it is one of several graphs of which one runs, and it is unknown which.
    branch: bool = False
    #: Names of what flows in from its operator; the rest it takes from the graphs around it.
    takes: tuple[str, ...] = ()
    #: Whether ``trips`` is an upper bound, because the data decide when it ends.
    bound: bool = False


class Tensors(dict[str, Fact]):
    """Facts by name; what a body does not have it takes from the graph around it."""

    __slots__ = ("around",)

    def __init__(self, around: Mapping[str, Fact] | None = None) -> None:
        super().__init__({"": ABSENT})
        self.around = around

    def __missing__(self, name: str) -> Fact:
        return NOTHING if self.around is None else self.around[name]


class Scope:
    """Facts about the tensors of one graph by name."""

    def __init__(self, around: Scope | None = None) -> None:
        """
        Args:
            around: of the graph that this one is a body in.
        """
        self.tensors: Tensors = Tensors(None if around is None else around.tensors)
        self.warnings: list[str] = []
        #: Why an operator cannot run, by the name of its first output.
        self.faults: dict[str, str] = {}
        #: The bodies of a control-flow operator, by the name of its first output.
        self.inner: dict[str, list[Inner]] = {}
        #: Tensors whose shape is the one that the file states, because nothing else says it.
        self.stated: set[str] = set()

    def of(self, name: str) -> Fact:
        """The fact about a tensor."""
        return self.tensors[name]

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a tensor in numbers, upper bounds where the data decide; None when it is not known."""
        return self.tensors[name].extents

    def sized(self, name: str) -> bool:
        """True if the shape of a tensor, or of every member of a sequence, is known."""
        return self.tensors[name].sized

    def impossible(self, graph: Graph) -> Iterator[str]:
        """The operators of a graph, and of the bodies in it, that cannot run, one line for each."""
        if not self.faults and not self.inner:
            return
        for node in graph.nodes:
            if fault := self.faults.get(node.first_output):
                yield f"{describe(node)} {fault}"
            for inner in self.inner.get(node.first_output, ()):
                yield from inner.scope.impossible(inner.graph)

    def all_sized(self, names: Iterable[str]) -> bool:
        """True if the shapes of all these tensors, or of their members, are known."""
        return all(fact.sized for fact in {id(fact): fact for fact in map(self.tensors.__getitem__, names)}.values())
