"""The plan of an ONNX file to be written: the type of each value and notes on operators, graph by graph.

The plan is made for the graphs of the file. The resolved model has functions inlined and operators in execution order,
so its tensors and operators are found again by the names of what the operators make.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from flopwise.formats.kit.program import (
    Dim,
    Graph,
    MapType,
    Model,
    Node,
    OptionalType,
    SequenceType,
    SparseType,
    TensorType,
    Type,
    tensor_type,
)
from flopwise.formats.kit.program import Value as Declared
from flopwise.formats.kit.read import Resolved
from flopwise.formats.kit.tensors import CODES, elements
from flopwise.formats.onnx.decode import decoded
from flopwise.formats.onnx.normalize import needs
from flopwise.formats.sources.wire import BYTES, VARINT, fields, message, number_field
from flopwise.operators.size import OPEN, Most
from flopwise.sizes.control import FLOWS, run
from flopwise.sizes.facts import NOTHING, Fact
from flopwise.sizes.program import captured
from flopwise.sizes.run import Pass
from flopwise.sizes.scope import Inner, Scope

# Types of values as bytes; what the file says of them beside element types and extents stays.
#
# Field numbers: see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.


#: Fields of TypeProto.
_TENSOR, _SEQUENCE, _MAP, _SPARSE, _OPTIONAL = 1, 4, 5, 8, 9
_KINDS = frozenset({_TENSOR, _SEQUENCE, _MAP, _SPARSE, _OPTIONAL, 7})


def entry(name: str, type_: Type | None) -> bytes:
    """A ValueInfoProto."""
    return message(1, [name.encode()]) + (b"" if type_ is None else message(2, [encoded(type_)]))


def encoded(type_: Type | None) -> bytes:
    """A TypeProto."""
    if isinstance(type_, TensorType):
        parts = [number_field(1, CODES[type_.dtype]) if type_.dtype else b""]
        if type_.dims is not None:
            parts.append(message(2, [message(1, [_dim(dim)]) for dim in type_.dims]))
        return message(_SPARSE if isinstance(type_, SparseType) else _TENSOR, parts)
    if isinstance(type_, MapType):
        key = number_field(1, CODES[type_.key]) if type_.key else b""
        return message(_MAP, [key, message(2, [encoded(type_.value)])])
    if type_ is None:
        return b""
    return message(_SEQUENCE if isinstance(type_, SequenceType) else _OPTIONAL, [message(1, [encoded(type_.element)])])


def _dim(dim: Dim) -> bytes:
    """The extent of a dimension."""
    if dim is None:
        return b""
    return number_field(1, dim) if isinstance(dim, int) else message(2, [dim.encode()])


def with_type(value: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """A ValueInfoProto with its TypeProto changed."""
    before: list[bytes] = []
    after: list[bytes] = []
    type_ = b""
    for tag, content, raw in _fields(value):
        if tag == 2 << 3 | BYTES:
            type_ += content
        else:
            (before if tag >> 3 == 1 else after).append(raw)
    return b"".join([*before, message(2, [change(type_)]), *after])


def retyped(old: bytes, new: Type) -> bytes:
    """A TypeProto with another type in its place; of a tensor's, what the file notes about its parts stays."""
    kinds = {tag >> 3 for tag, _, _ in _fields(old)} & _KINDS
    if kinds != {_TENSOR} or type(new) is not TensorType:
        return encoded(new)
    code = shape = b""
    others: list[bytes] = []
    for tag, content, raw in _fields(_joined(old, _TENSOR)):
        if tag == 1 << 3 | VARINT:
            code = raw
        elif tag == 2 << 3 | BYTES:
            shape += content
        else:
            others.append(raw)
    code = number_field(1, CODES[new.dtype]) if new.dtype else code
    dims = [content for tag, content, _ in _fields(shape) if tag == 1 << 3 | BYTES]
    parts = [code]
    if new.dims is not None:
        notes = dims if len(dims) == len(new.dims) else [b""] * len(new.dims)
        dims = [message(1, [_dim(d), _without(n, 1, 2)]) for d, n in zip(new.dims, notes, strict=True)]
        parts.append(message(2, [*dims, _without(shape, 1)]))
    return message(_TENSOR, [*parts, *others]) + _without(old, _TENSOR)


def opened(old: bytes) -> bytes:
    """A TypeProto without the shape of its tensor, which may be optional or sparse."""
    for kind in (_TENSOR, _SPARSE):
        if content := _joined(old, kind):
            return message(kind, [_without(content, 2)]) + _without(old, kind)
    if content := _joined(old, _OPTIONAL):
        inner = message(1, [opened(_joined(content, 1))])
        return message(_OPTIONAL, [inner, _without(content, 1)]) + _without(old, _OPTIONAL)
    return old


def _fields(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The tags of the fields of a message, their contents, and the fields with their tags; nothing is left out."""
    last = 0
    for tag, start, end in fields(data, with_groups=True):
        yield tag, b"" if tag & 7 == VARINT else data[start:end], data[last:end]
        last = end


def _joined(data: bytes, number: int) -> bytes:
    """The content of the message in a field; several are one."""
    return b"".join(content for tag, content, _ in _fields(data) if tag == number << 3 | BYTES)


def _without(data: bytes, *numbers: int) -> bytes:
    """A message without some fields."""
    return b"".join(raw for tag, _, raw in _fields(data) if tag >> 3 not in numbers)


# Branches that do not run, and the shapes that must not be written because of them.
#
# A condition such as "is this extent 1?" decides whether a Squeeze runs. With the shapes known, the branch with it may
# be impossible, and onnxruntime, which does not know the condition when it checks shapes, refuses the whole model. What
# the branch takes, and all that this follows from, then stays as the file has it.


def names_without_shape(model: Model, shapes: Scope) -> set[str]:
    """Names of tensors whose shape must be left out of the file: onnxruntime would refuse a branch that never runs."""
    branch_inputs: set[str] = set()
    for node, around in _ifs(model.graph, shapes):
        for body in node.bodies():
            names = set(captured(body))
            if _contradicts(model, body, names, around, sized=True) and not _contradicts(
                model, body, names, around, sized=False
            ):
                branch_inputs |= names
    return _with_ancestors(model.graph, branch_inputs) if branch_inputs else branch_inputs


def _ifs(graph: Graph, shapes: Scope) -> Iterator[tuple[Node, Scope]]:
    """Each If in a graph and its bodies, with the shapes of the graph that it is in."""
    for node in graph.nodes:
        if node.op == "If" and not node.domain:
            yield node, shapes
        for inner in shapes.inner.get(node.first_output, ()):
            body: Any = inner.graph
            yield from _ifs(body, inner.scope)


def _contradicts(model: Model, body: Graph, names: set[str], shapes: Scope, sized: bool) -> bool:
    """True if a branch contradicts the shapes of the outer tensors that it takes; without ``sized``, their types."""
    one, scope = Pass(model.opsets, elements, flows=FLOWS), Scope()
    for name in names:
        fact = shapes.of(name)
        scope.tensors[name] = fact if sized or fact.kind != "tensor" else one.facts.tensor(fact.dtype, None)
    return bool(run(one, body, [], scope).scope.faults)


def _with_ancestors(graph: Graph, names: set[str]) -> set[str]:
    """The names, and those of all tensors that they are computed from, across all graphs and bodies."""
    inputs_of: dict[str, set[str]] = {}
    _add_inputs(graph, inputs_of)
    sources, waiting = set(names), list(names)
    while waiting:
        new = inputs_of.get(waiting.pop(), set()) - sources
        sources |= new
        waiting.extend(new)
    return sources


def _add_inputs(graph: Graph, inputs_of: dict[str, set[str]]) -> None:
    """Add each tensor -> the tensors that it is computed from to ``inputs_of``, bodies included.

    An input of a body is taken to depend on all inputs of its operator, and its results on all results of the body.
    """
    for node in graph.nodes:
        inputs = needs(node)
        for output in node.outputs:
            inputs_of.setdefault(output, set()).update(inputs)
        for body in node.bodies():
            _add_inputs(body, inputs_of)
            for value in body.inputs:
                inputs_of.setdefault(value.name, set()).update(inputs)
            for output in node.outputs:
                inputs_of[output].update(value.name for value in body.outputs)


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


# Inputs, outputs and values of a graph with the types that are to be written.


#: Fields of GraphProto.
INPUT, OUTPUT, VALUE = 11, 12, 13


class Ends:
    """The values of one graph, followed while its messages go by."""

    def __init__(self, plan: GraphPlan, outputs: Sequence[str]) -> None:
        """
        Args:
            plan: what is to be written.
            outputs: names of tensors that become outputs.
        """
        self.plan = plan
        self.outputs = dict.fromkeys(outputs)
        #: Entries that became outputs.
        self.moved: dict[str, bytes] = {}
        self.seen: set[str] = set()

    def new(self) -> Iterator[tuple[int, bytes]]:
        """Fields to add once all messages of the graph have gone by: the field's number, and the entry."""
        for name in self.outputs:
            value = self.plan.values.get(name)
            yield OUTPUT, self.moved.get(name) or entry(name, value.type if value else None)
            self.seen.add(name)
        for name in self.plan.results:
            value = self.plan.values.get(name)
            if name not in self.seen and value is not None and _typed(value.type):
                yield VALUE, entry(name, value.type)


def put(ends: Ends, number: int, declared: Declared, data: bytes) -> bytes | Literal[False] | None:
    """An entry of the file with its new type; None when it stays as it is, False when it is left out here.

    Args:
        ends: what is known about the graph; written on.
        number: the field that the entry is in.
        declared: what it says.
        data: its bytes.
    """
    name, plan = declared.name, ends.plan
    ends.seen.add(name)
    if number == VALUE and name in plan.stored:
        return None  # what exporters note on weights
    value, entry = plan.values.get(name), data
    if name in plan.untouched:
        pass
    elif number == VALUE or plan.main:
        entry = _settled(data, declared.type, value, plan.stale)
    else:
        entry = _corrected(data, declared.type, value, plan.stale)
    if number == VALUE and name in ends.outputs:
        ends.moved[name] = entry
        return False
    if number == OUTPUT:
        ends.outputs.pop(name, None)
    return None if entry == data else entry


def _settled(data: bytes, type_: Type | None, value: Value | None, stale: bool) -> bytes:
    """An entry with what is known; what the file says stays where that is more, and holds."""
    if value is not None and (value.resolved or stale or not _complete(type_)):
        new = value.type
        return with_type(data, lambda old: retyped(old, new))
    return with_type(data, opened) if stale and type_ is not None else data


def _corrected(data: bytes, type_: Type | None, value: Value | None, stale: bool) -> bytes:
    """An input or output of a body with another type where its own is wrong."""
    declared = tensor_type(type_)
    if declared is None or declared.dims is None:
        return data
    ours = tensor_type(value.type) if value is not None and value.resolved else None
    if value is None or ours is None or ours.dims is None:
        return with_type(data, opened) if stale else data
    new = value.type
    wrong = len(declared.dims) != len(ours.dims)
    if wrong or any(isinstance(a, int) and a != b for a, b in zip(declared.dims, ours.dims, strict=True)):
        return with_type(data, lambda old: retyped(old, new))
    return data


def _typed(type_: Type | None) -> bool:
    """True where a type states the element type of a tensor, or is not a tensor type."""
    return type_.dtype is not None if type(type_) is TensorType else type_ is not None


def _complete(type_: Type | None) -> bool:
    """True where a type states the element type and rank of a tensor, or is not a tensor type."""
    return _typed(type_) and (type(type_) is not TensorType or type_.dims is not None)
