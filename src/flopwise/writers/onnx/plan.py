"""What is to be written into an ONNX file: the type of each value and notes on operators, graph by graph.

The plan is made for the graphs of the file. The resolved model has functions inlined and operators in execution order,
so its tensors and operators are found again by the names of what the operators make.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import onnx
from onnx import TypeProto

from flopwise.readers.onnx.messages import parsed
from flopwise.readers.onnx.read import Resolved
from flopwise.readers.onnx.types import Inner, Shapes, bodies, concrete, first_output
from flopwise.writers.onnx.branches import forbidden


@dataclass(frozen=True, slots=True)
class Value:
    """The type to be written for a value."""

    type: TypeProto
    #: Whether every extent is known, and not only an upper bound of it.
    resolved: bool


@dataclass(slots=True)
class GraphPlan:
    """What is to be written into one graph of a file."""

    #: Types by name, of inputs that may be changed, of what operators make, and of outputs.
    values: dict[str, Value] = field(default_factory=dict)
    #: Names that get an entry if they have none: what operators make.
    made: dict[str, None] = field(default_factory=dict)
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
        """Whether the shape of a tensor is written."""
        return name in self.values and self.values[name].resolved

    def all(self) -> Iterator[GraphPlan]:
        """This plan and those of the bodies in it."""
        yield self
        for body in self.bodies.values():
            yield from body.all()


def plan(resolved: Resolved) -> GraphPlan:
    """What is to be written into the file of a model whose shapes are resolved.

    Raises:
        ModelError: the model is damaged.
    """
    file = parsed(resolved.skeleton.model)
    spots = _spots(resolved.proto.graph, resolved.shapes, itertools.count())
    calls = {(f.domain, f.name) for f in file.functions}
    made = _plan(file.graph, [(resolved.proto.graph, resolved.shapes, spots)], calls, resolved.changed)
    made.main = True
    made.inputs = tuple(i.name for i in file.graph.input if i.name not in made.stored)
    for value in resolved.proto.graph.input:
        if value.name not in made.stored:
            made.values[value.name] = Value(value.type, True)
    for output in file.graph.output:
        if output.name not in made.values and (type_ := resolved.shapes.type(output.name)) is not None:
            made.values[output.name] = _value(output.name, type_, resolved.shapes)
    names = frozenset(forbidden(resolved.proto, resolved.shapes))
    for each in made.all() if names else ():
        each.untouched = names
        for name in names & each.values.keys():
            del each.values[name]
    return made


@dataclass(slots=True)
class _Spot:
    """An operator of a resolved graph: its position in ``Graph.nodes``, and the bodies that follow it there."""

    node: onnx.NodeProto
    position: int
    inner: list[tuple[Inner, list[_Spot]]]


def _spots(graph: onnx.GraphProto, shapes: Shapes, positions: Iterator[int]) -> list[_Spot]:
    """The operators of a graph in the order of ``Graph.nodes``."""
    spots = []
    for node in graph.node:
        spot = _Spot(node, next(positions), [])
        for inner in shapes.inner.get(first_output(node), ()):
            spot.inner.append((inner, _spots(inner.graph, inner.shapes, positions)))
        spots.append(spot)
    return spots


def _plan(
    file: onnx.GraphProto,
    runs: Sequence[tuple[onnx.GraphProto, Shapes, list[_Spot]]],
    calls: set[tuple[str, str]],
    stale: bool,
) -> GraphPlan:
    """The plan of a graph of the file.

    Args:
        file: the graph as the file has it.
        runs: the same graph resolved; a body whose iterations differ is there several times.
        calls: domains and names of local functions.
        stale: whether shapes in the file are for other inputs.
    """
    made = GraphPlan(stale=stale, stored={t.name for t in file.initializer}, runs=bool(runs))
    for node in file.node:
        for name in filter(None, node.output):
            made.made[name] = None
            if (value := _common([_value_of(name, shapes) for _, shapes, _ in runs])) is not None:
                made.values[name] = value
    for end in (*file.input, *file.output):
        if end.name not in made.values and (value := _common([_value_of(end.name, s) for _, s, _ in runs])) is not None:
            made.values[end.name] = value
    inner: dict[tuple[str, str], list[tuple[onnx.GraphProto, Shapes, list[_Spot]]]] = {}
    for _, _, spots in runs:
        called = _owners(file, spots, calls)
        for spot in spots:
            first = first_output(spot.node)
            owner = called.get(spot.position, first)
            made.positions.setdefault(owner, []).extend(_positions([spot]))
            made.lost += owner not in made.made
            if spot.position not in called:
                for body, below in spot.inner:
                    part = body.part.partition("[")[0]
                    inner.setdefault((first, part), []).append((body.graph, body.shapes, below))
    for node in file.node:
        if not bodies(node):
            continue
        for attribute in node.attribute:
            if attribute.HasField("g"):
                key = (first_output(node), attribute.name)
                made.bodies[key] = _plan(attribute.g, inner.get(key, []), calls, stale)
    return made


def _positions(spots: Iterable[_Spot]) -> Iterator[int]:
    for spot in spots:
        yield spot.position
        for _, below in spot.inner:
            yield from _positions(below)


def _owners(file: onnx.GraphProto, spots: Sequence[_Spot], calls: set[tuple[str, str]]) -> dict[int, str]:
    """Position -> first output of the call of a function that an operator was inlined from; "" when it is unknown.

    Operators of one call share tensors that nobody else has, or make what the call makes.
    """
    if not calls:
        return {}
    own = {first_output(n) for n in file.node if (n.domain, n.op_type) not in calls}
    ends = {o: first_output(n) for n in file.node if (n.domain, n.op_type) in calls for o in n.output if o}
    outside = {o for n in file.node for o in n.output} | {i.name for i in file.input}
    outside |= {t.name for t in file.initializer} | {""}
    makers = {o: s.position for s in spots for o in s.node.output}
    inlined = [s for s in spots if first_output(s.node) not in own]
    parents = {s.position: s.position for s in inlined}

    def root(position: int) -> int:
        while parents[position] != position:
            parents[position] = parents[parents[position]]
            position = parents[position]
        return position

    for spot in inlined:
        for name in spot.node.input:
            maker = makers.get(name)
            if name not in outside and maker in parents:
                parents[root(spot.position)] = root(maker)
    owners = {root(s.position): ends[o] for s in inlined for o in s.node.output if o in ends}
    return {s.position: owners.get(root(s.position), "") for s in inlined}


def _value_of(name: str, shapes: Shapes) -> Value | None:
    type_ = shapes.type(name)
    return None if type_ is None or not type_.WhichOneof("value") else _value(name, type_, shapes)


def _value(name: str, type_: TypeProto, shapes: Shapes) -> Value:
    """The type of a value as far as it is certain: without upper bounds, and without symbols that onnx made up."""
    bound = shapes.bounds.get(name, frozenset())
    if not bound and concrete(type_) is not None:
        return Value(type_, True)
    new = TypeProto()
    new.CopyFrom(type_)
    for tensor in _tensors(new):
        for axis, dim in enumerate(tensor.shape.dim):
            if axis in bound or dim.HasField("dim_param") or dim.dim_value < 0:
                dim.ClearField("value")
    return Value(new, False)


def _tensors(type_: TypeProto) -> Iterator[TypeProto.Tensor]:
    """The tensor types in a type."""
    kind = type_.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        yield getattr(type_, kind)
    elif kind in ("sequence_type", "optional_type"):
        yield from _tensors(getattr(type_, kind).elem_type)
    elif kind == "map_type":
        yield from _tensors(type_.map_type.value_type)


def _common(values: Sequence[Value | None]) -> Value | None:
    """What holds in all runs of a graph; None when nothing does."""
    first = values[0] if values else None
    if first is None or None in values:
        return None
    if all(v is not None and v.type == first.type for v in values):
        return Value(first.type, all(v is not None and v.resolved for v in values))
    new = TypeProto()
    new.CopyFrom(first.type)
    for tensor in _tensors(new):
        tensor.ClearField("shape")
    return Value(new, False)
