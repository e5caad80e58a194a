"""The bodies of control flow: how often each runs, with which sizes, and what comes out of it.

A body is followed like a graph of its own, with the facts that flow into it. Where the iterations of a loop differ in
shape, or a condition that can be computed ends it, the iterations are followed one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from flopwise.errors import ModelError
from flopwise.operators.size import Most, identities, identity
from flopwise.sizes.facts import ABSENT, Fact, either
from flopwise.sizes.program import Graph, Node, captured, graphs
from flopwise.sizes.run import Pass
from flopwise.sizes.scope import Inner, Scope


@dataclass(slots=True)
class Run:
    """One run of a body."""

    graph: Graph
    scope: Scope
    outputs: list[Fact]
    #: Whether every tensor in it has a size.
    resolved: bool

    def inner(self, part: str, trips: int | None, branch: bool = False, bound: bool = False) -> Inner:
        """The body as a part of its operator."""
        takes = tuple(value.name for value in self.graph.inputs)
        return Inner(part, self.graph, self.scope, trips, branch, takes, bound)


def run(whole: Pass, body: Graph, inputs: Sequence[Fact], around: Scope) -> Run:
    """A body with these inputs; one like an earlier one, with the same inputs, is that one.

    Raises:
        ModelError: there are too many.
    """
    names = _captured(whole, body)
    key = (id(body), tuple(inputs), tuple([around.tensors[name] for name in names]))
    earlier: tuple[Run, int] | None = whole.runs.get(key)
    if earlier is not None:
        whole.steps -= earlier[1]  # looked at once, but it becomes as many rows as before
        return earlier[0]
    before = whole.steps
    whole.bodies -= 1
    if whole.bodies < 0:
        raise ModelError(f"the bodies of its control flow run in more than {whole.most_bodies:,} ways")
    scope = Scope(around)
    for value, fact in zip(body.inputs, inputs, strict=False):
        scope.tensors[value.name] = fact
    for name, stored in body.initializers.items():
        scope.tensors[name] = whole.constant(stored)
    whole.steps -= len(body.nodes)
    whole.run(body, scope)
    facts = [scope.tensors[value.name] for value in body.outputs]
    resolved = scope.all_sized(name for node in body.nodes for name in node.outputs if name)
    one = Run(body, scope, facts, resolved)
    whole.runs[key] = one, before - whole.steps
    return one


def _captured(whole: Pass, body: Graph) -> tuple[str, ...]:
    names = whole.captured.get(id(body))
    if names is None:
        names = whole.captured[id(body)] = tuple(sorted(captured(body)))
    return names


def pass_on_warnings(scope: Scope, runs: Iterable[Run]) -> None:
    """Hand on the warnings of the runs that count, each once."""
    for one in runs:
        scope.warnings.extend(warning for warning in one.scope.warnings if warning not in scope.warnings)


def grouped(runs: Sequence[Run]) -> list[Inner]:
    """Runs of the same shapes as one body that runs several times, in order of their first run."""
    groups: dict[Any, list[int]] = {}
    for place, one in enumerate(runs):
        groups.setdefault(_signature(one.graph, one.scope), []).append(place)
    return [runs[p[0]].inner("body" if len(groups) == 1 else f"body[{p[0]}]", len(p)) for p in groups.values()]


def _signature(graph: Graph, scope: Scope) -> object:
    """A key of all shapes in a body, of its inputs too, and in its inner bodies: runs with one key cost the same."""
    names = [value.name for value in graph.inputs] + [o for node in graph.nodes for o in node.outputs if o]
    inside = [
        (inner.part, identity(inner.trips), inner.branch, _signature(inner.graph, inner.scope))
        for name in names
        for inner in scope.inner.get(name, ())
    ]
    facts = [scope.tensors[name] for name in names]
    return (*[(identities(fact.extents), _members(fact)) for fact in facts], *inside)


def _members(fact: Fact) -> tuple[object, ...]:
    return tuple([identities(member.extents) for member in fact.members or ()])


def scalar(fact: Fact | None) -> Any:
    """The one element of a tensor; None when there is no such, or nobody knows it."""
    return fact.elements[0] if fact is not None and fact.elements is not None and len(fact.elements) == 1 else None


def alike(one: Fact, other: Fact) -> bool:
    """True if the shapes, or those of all members, are known in both and the same."""
    if not one.sized or not other.sized:
        return False
    return identities(one.extents) == identities(other.extents) and _members(one) == _members(other)


def bodies_of(node: Node) -> dict[str, Graph]:
    """The graphs in a node's attributes by the names of these."""
    return dict(graphs(node))


def fact_at(given: Sequence[Fact], place: int) -> Fact | None:
    """An input; None where it is left out."""
    return given[place] if place < len(given) and given[place] is not ABSENT else None


def branches(
    whole: Pass, node: Node, given: tuple[Fact, ...], scope: Scope, inputs: Sequence[Fact] = ()
) -> tuple[list[Inner], Sequence[Fact]]:
    """The bodies of an If, which take these inputs, and its results."""
    graphs_by_name = bodies_of(node)
    condition = scalar(fact_at(given, 0))
    names = [name for name in ("then_branch", "else_branch") if name in graphs_by_name]
    if condition is not None and type(condition) is not Most:
        taken = "then_branch" if condition else "else_branch"
        names = [name for name in names if name == taken]
    runs = [run(whole, graphs_by_name[name], inputs, scope) for name in names]
    pass_on_warnings(scope, runs)
    inner = [one.inner(name, 1, len(names) > 1) for name, one in zip(names, runs, strict=True)]
    if len(runs) < 2:
        return inner, runs[0].outputs if runs else []
    return inner, [either(whole.facts, *both) for both in zip(runs[0].outputs, runs[1].outputs, strict=False)]
