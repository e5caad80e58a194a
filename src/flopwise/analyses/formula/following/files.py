"""ONNX models: the pass that works out their sizes as numbers works them out as expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from flopwise.analyses.formula.conditions import Guards, recording
from flopwise.analyses.formula.domains import Point, Sizes
from flopwise.analyses.formula.following.loops import Followed
from flopwise.analyses.formula.subject import Explain, Request
from flopwise.errors import FlopwiseError
from flopwise.graph import Graph, Tensor
from flopwise.sizes.facts import Fact
from flopwise.sizes.program import Graph as Program
from flopwise.sizes.program import Node
from flopwise.sizes.run import Pass, Results
from flopwise.sizes.scope import Scope

if TYPE_CHECKING:
    from flopwise.formats.kit.read import Resolved


class SizedPass(Pass):
    """The pass with sizes that carry expressions, whose conditions are recorded."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.guards = Guards()
        #: What finds shapes for which there is no rule; None: nothing does.
        self.explain: Explain | None = None

    def case(self, node: Node, given: tuple[Fact, ...], key: object, graph: Program, scope: Scope) -> Results:
        around, own = self.guards, Guards(reason=f"{_op(node)} {node.name!r}")
        self.guards = own
        try:
            with recording(own):
                results = super().case(node, given, key, graph, scope)
        finally:
            self.guards = around
        if any(fact.sized for fact in results.facts):  # what a rule asks for that gives nothing means nothing
            around.add(own)
        if self.explain is not None and results.facts:
            explained = self._explained(self.explain, node, given, results)
            if explained is not results:
                results = explained
                if key in self.results:
                    self.results[key] = results
        return results

    def _explained(self, explain: Explain, node: Node, given: Sequence[Fact], results: Results) -> Results:
        """The results with shapes that are right at all points where they are compared."""
        facts = list(results.facts)
        for index, (name, fact) in enumerate(zip(node.outputs, results.facts, strict=False)):
            position = explain.position(name) if name and fact.kind == "tensor" else None
            if position is None or (fact.extents is not None and explain.agrees(*position, fact.extents)):
                continue
            shape = explain(*position, [one.extents for one in given])
            facts[index] = self.facts.tensor(fact.dtype, shape)
        return results if facts == list(results.facts) else results._replace(facts=tuple(facts), failure="")


P = TypeVar("P", bound=Pass)


def sized(kind: type[P], guards: Guards) -> type[P]:
    """The class of a pass with sizes that carry expressions, whose conditions are added to ``guards``."""

    class Sized(SizedPass, kind):  # type: ignore[misc, valid-type] # a class that is made of one
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.guards = guards

    return Sized


def _op(node: Node) -> str:
    return f"{node.domain}::{node.op}" if node.domain else node.op


class File:
    """An ONNX model that is read at several points, and with sizes that carry expressions."""

    def __init__(
        self, resolve: Callable[[Point], Resolved], declared: Mapping[str, Sequence[int | str | None] | None]
    ) -> None:
        """
        Args:
            resolve: works out its sizes at a point.
            declared: the dimensions of its inputs as the file states them.
        """
        self._resolve, self._declared = resolve, declared
        self._last: tuple[Point, Resolved, Graph] | None = None

    def at(self, point: Point) -> Graph:
        """The graph at a point."""
        from flopwise.formats.kit.read import graph_of

        try:
            resolved = self._resolve(point)
            graph = graph_of(resolved)
        except FlopwiseError as error:
            raise error.reworded(str(error).partition(": ")[2] or str(error)) from error
        self._last = point, resolved, graph
        return graph

    def follow(self, request: Request) -> Followed:
        """The model with sizes that carry expressions."""
        from flopwise.formats.kit.read import graph_of, with_sizes

        if self._last is None or self._last[0] != request.point:
            self.at(request.point)
        assert self._last is not None
        _, resolved, base = self._last
        passes: list[SizedPass] = []

        def made(*args: object) -> SizedPass:
            passes.append(SizedPass(*args))
            passes[0].explain = request.explain
            return passes[0]

        graph = graph_of(with_sizes(resolved, request.sizes, self._symbols(request.sizes), request.trips, made))
        graph, lost = _agreeing(graph, base)
        followed = Followed(base, graph, passes[0].guards)
        followed.open = lost
        return followed

    def _symbols(self, inputs: Sizes) -> dict[str, int] | None:
        """The sizes of the file's symbols; None where expressions stand for its numbers, too."""
        symbols: dict[str, int] = {}
        for key, sizes in inputs.items():
            for stated, size in zip(self._declared.get(key) or [0] * len(sizes), sizes, strict=False):
                if isinstance(stated, str):
                    symbols[stated] = size
                elif type(size) is not int:
                    return None
        return symbols


def _agreeing(graph: Graph, base: Graph) -> tuple[Graph, list[str]]:
    """The graph without sizes that are others at the hint than the numbers there, and the tensors that have none."""
    if len(graph.nodes) != len(base.nodes):  # a loop whose iterations are alike here alone, or there
        return base, [node.name for node in base.nodes]
    pairs = [
        (mine, number)
        for node, plain in zip(graph.nodes, base.nodes, strict=True)
        for mine, number in zip(node.outputs, plain.outputs, strict=True)
        if mine is not None and number is not None and number.shape is not None
    ]
    wrong = {
        mine.name for mine, number in pairs if mine.shape is not None and tuple(map(int, mine.shape)) != number.shape
    }

    def tensor(old: Tensor | None) -> Tensor | None:
        return old if old is None or old.name not in wrong else replace(old, shape=None)

    nodes = [
        replace(
            node, inputs=tuple(map(tensor, node.inputs)), outputs=tuple(map(tensor, node.outputs)), fault=plain.fault
        )
        if wrong or node.fault != plain.fault
        else node
        for node, plain in zip(graph.nodes, base.nodes, strict=True)
    ]
    lost = [mine.name for mine, _ in pairs if mine.shape is None or mine.name in wrong]
    return replace(graph, nodes=tuple(nodes), warnings=base.warnings), lost
