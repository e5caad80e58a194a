"""The plan of an ONNX file to be written: the type of each value and notes on operators, graph by graph.

The plan is made for the graphs of the file. The resolved model has functions inlined and operators in execution order,
so its tensors and operators are found again by the names of what the operators make.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flopwise.formats.onnx.file.decode import decoded
from flopwise.formats.onnx.file.model import Dim, Graph, Node, OptionalType, SequenceType, TensorType, Type
from flopwise.formats.onnx.read import Resolved
from flopwise.operators.size import OPEN, Most
from flopwise.sizes.facts import NOTHING, Fact
from flopwise.sizes.scope import Inner, Scope
from flopwise.writers.onnx.branches import names_without_shape


@dataclass(frozen=True, slots=True)
class Value:
    """The type to be written for a value."""

    type: Type
    #: Whether every extent is known, and not only an upper bound of it.
    resolved: bool


@dataclass(slots=True)
class GraphPlan:
    """The changes to one graph of a file."""

    #: Types by name, of inputs that may be changed, of what operators make, and of outputs.
    values: dict[str, Value] = field(default_factory=dict)
    #: Names that get an entry if they have none: what operators make.
    results: dict[str, None] = field(default_factory=dict)
    #: Names of inputs of the main graph.
    inputs: tuple[str, ...] = ()
    #: Names of initialisers.
    stored: set[str] = field(default_factory=set)
    #: First output of an operator -> positions in ``Graph.nodes`` of what it stands for: itself and what is in its
    #: bodies, or the operators of the function that it calls.
    positions: dict[str, list[int]] = field(default_factory=dict)
    #: First output of an operator and name of its attribute -> plan of the body there.
    bodies: dict[tuple[str, str], GraphPlan] = field(default_factory=dict)
    #: Names whose entries stay as they are.
    untouched: frozenset[str] = frozenset()
    #: Whether shapes in the file are for other inputs, so that none may be kept.
    stale: bool = False
    #: Whether the graph runs at all; a branch that is not taken does not.
    runs: bool = True
    #: Whether this is the main graph, whose inputs and outputs may be rewritten.
    main: bool = False
    #: Operators, made by inlining functions, whose call is unknown.
    lost: int = 0

    def resolves(self, name: str) -> bool:
        """True where the shape of a tensor is written."""
        return name in self.values and self.values[name].resolved

    def all(self) -> Iterator[GraphPlan]:
        """This plan and those of the bodies in it."""
        yield self
        for body in self.bodies.values():
            yield from body.all()


def plan(resolved: Resolved) -> GraphPlan:
    """The plan of the file of a model whose shapes are resolved.

    Raises:
        ModelError: the model is damaged.
    """
    file = decoded(resolved.skeleton, resolved.name)
    graph, scope = resolved.model.graph, resolved.shapes
    calls = {(key.domain, key.name) for key in file.functions}
    changes = _plan(file.graph, [(scope, _spots(graph, scope, itertools.count()))], calls, resolved.changed)
    changes.main = True
    changes.inputs = tuple(v.name for v in file.graph.inputs if v.name not in changes.stored)
    for value in graph.inputs:
        if value.name not in changes.stored and (type_ := type_of(scope.of(value.name))) is not None:
            changes.values[value.name] = Value(type_, True)
    for output in file.graph.outputs:
        if output.name not in changes.values and (planned := _value_of(output.name, scope)) is not None:
            changes.values[output.name] = planned
    names = frozenset(names_without_shape(resolved.model, resolved.shapes))
    for each in changes.all() if names else ():
        each.untouched = names
        for name in names & each.values.keys():
            del each.values[name]
    return changes


@dataclass(slots=True)
class _Spot:
    """An operator of a resolved graph: its position in ``Graph.nodes``, and the bodies that follow it there."""

    node: Node
    position: int
    inner: list[tuple[Inner, list[_Spot]]]


def _spots(graph: Graph, shapes: Scope, positions: Iterator[int]) -> list[_Spot]:
    """The operators of a graph in the order of ``Graph.nodes``."""
    spots = []
    for node in graph.nodes:
        spot = _Spot(node, next(positions), [])
        for inner in shapes.inner.get(node.first_output, ()):
            body: Any = inner.graph
            spot.inner.append((inner, _spots(body, inner.scope, positions)))
        spots.append(spot)
    return spots


def _plan(
    file: Graph, runs: Sequence[tuple[Scope, list[_Spot]]], calls: Collection[tuple[str, str]], stale: bool
) -> GraphPlan:
    """The plan of a graph of the file.

    Args:
        file: the graph as the file has it.
        runs: the same graph resolved; a body whose iterations differ is there several times.
        calls: domains and names of local functions.
        stale: whether shapes in the file are for other inputs.
    """
    changes = GraphPlan(stale=stale, stored=set(file.initializers), runs=bool(runs))
    for node in file.nodes:
        for name in filter(None, node.outputs):
            changes.results[name] = None
            if (value := _common([_value_of(name, scope) for scope, _ in runs])) is not None:
                changes.values[name] = value
    for end in (*file.inputs, *file.outputs):
        if end.name not in changes.values and (value := _common([_value_of(end.name, s) for s, _ in runs])) is not None:
            changes.values[end.name] = value
    inner: dict[tuple[str, str], list[tuple[Scope, list[_Spot]]]] = {}
    for _, spots in runs:
        called = _owners(file, spots, calls)
        for spot in spots:
            owner = called.get(spot.position, spot.node.first_output)
            changes.positions.setdefault(owner, []).extend(_positions([spot]))
            changes.lost += owner not in changes.results
            if spot.position not in called:
                for body, below in spot.inner:
                    part = body.part.partition("[")[0]
                    inner.setdefault((spot.node.first_output, part), []).append((body.scope, below))
    for node in file.nodes:
        for attribute, graph in node.attributes.graphs() if node.bodies() else ():
            key = (node.first_output, attribute)
            changes.bodies[key] = _plan(graph, inner.get(key, []), calls, stale)
    return changes


def _positions(spots: Iterable[_Spot]) -> Iterator[int]:
    for spot in spots:
        yield spot.position
        for _, below in spot.inner:
            yield from _positions(below)


def _owners(file: Graph, spots: Sequence[_Spot], calls: Collection[tuple[str, str]]) -> dict[int, str]:
    """Position -> first output of the call of a function that an operator was inlined from; "" when it is unknown.

    Operators of one call share tensors that nobody else has, or make what the call makes.
    """
    if not calls:
        return {}
    own, ends = set[str](), dict[str, str]()
    outside = {*(value.name for value in file.inputs), *file.initializers, ""}
    for node in file.nodes:
        outside.update(node.outputs)
        if (node.domain, node.op) in calls:
            ends.update(dict.fromkeys(filter(None, node.outputs), node.first_output))
        else:
            own.add(node.first_output)
    makers = {o: s.position for s in spots for o in s.node.outputs}
    inlined = [s for s in spots if s.node.first_output not in own]
    parents = {s.position: s.position for s in inlined}

    def root(position: int) -> int:
        while parents[position] != position:
            parents[position] = parents[parents[position]]
            position = parents[position]
        return position

    for spot in inlined:
        for name in spot.node.inputs:
            maker = makers.get(name)
            if name not in outside and maker in parents:
                parents[root(spot.position)] = root(maker)
    owners = {root(s.position): ends[o] for s in inlined for o in s.node.outputs if o in ends}
    return {s.position: owners.get(root(s.position), "") for s in inlined}


def type_of(fact: Fact) -> Type | None:
    """The type of a value as far as it is certain: without upper bounds; None where nothing is known."""
    if fact is NOTHING:
        return None
    if fact.kind == "tensor":
        return TensorType(fact.dtype, _dims(fact))
    item = fact.item or (fact.members[0] if fact.members else None)
    element = None if item is None else type_of(item)
    if element is None:
        element = TensorType(fact.dtype, _dims(fact))
    element = SequenceType(element) if "sequence" in fact.kind else element
    return OptionalType(element) if "optional" in fact.kind else element


def _dims(fact: Fact) -> tuple[Dim, ...] | None:
    """The extents of a tensor; None for one that is open, or an upper bound."""
    if fact.shape is None:
        return None
    return tuple([None if type(n) is Most or n is OPEN else int(n) for n in fact.shape])


def _value_of(name: str, shapes: Scope) -> Value | None:
    fact = shapes.of(name)
    type_ = type_of(fact)
    return None if type_ is None else Value(type_, fact.extents is not None and not fact.bound)


def _common(values: Sequence[Value | None]) -> Value | None:
    """The type that holds in all runs of a graph; None where none does."""
    first = values[0] if values else None
    if first is None or None in values:
        return None
    if all(v is not None and v.type == first.type for v in values):
        return Value(first.type, all(v is not None and v.resolved for v in values))
    return Value(_without_shape(first.type), False)


def _without_shape(type_: Type | None) -> Type:
    """A type with the shapes of tensors left open."""
    if isinstance(type_, SequenceType | OptionalType):
        return replace(type_, element=_without_shape(type_.element))
    return replace(type_, dims=None) if isinstance(type_, TensorType) else TensorType(None, None)
