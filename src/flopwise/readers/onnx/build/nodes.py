"""Graph nodes from ONNX nodes with resolved shapes; the bodies of control flow follow their operator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import onnx

from flopwise.graph import STORED, Body, Module, Node, Tensor
from flopwise.graph.construction import constructor
from flopwise.graph.graph import Members
from flopwise.operators.masks import PAIRS
from flopwise.readers.onnx.build.scope import SCOPES, scope_of, scope_of_path
from flopwise.readers.onnx.file.proto import stored_in_memory
from flopwise.readers.onnx.file.skeleton import Skeleton, Stored
from flopwise.readers.onnx.file.stored import Notes, StoredTensors, Weights, stored_tensors
from flopwise.readers.onnx.file.weights import Reopen
from flopwise.readers.onnx.listing import Listed, listed, protos
from flopwise.readers.onnx.types import CONTROL_FLOW, Inner, Shapes, concrete, each, element_type, one_line
from flopwise.readers.weights.storage import SourceStorage

if TYPE_CHECKING:
    from flopwise.graph.stored import StoredTensor

#: The tensor of a name, None for an input or output that is left out.
_Lookup = Callable[[str], "Tensor | None"]


class Builder:
    """Nodes and stored tensors of a model, graph by graph."""

    def __init__(
        self,
        skeleton: Skeleton,
        source: str,
        reopen: Reopen | None,
        notes: Notes,
        opsets: Iterable[onnx.OperatorSetIdProto],
    ) -> None:
        """
        Args:
            skeleton: where the weights lie.
            source: the model, for messages.
            reopen: opens its source.
            notes: what an exporter wrote about tensors.
            opsets: the operator sets in force.
        """
        self.skeleton = skeleton
        self.source = source
        self.storage = SourceStorage(reopen) if reopen else None
        self.notes = notes
        self.versions = {o.domain: o.version for o in opsets}
        self.nodes: list[Node] = []
        #: The stored tensors of all graphs.
        self.weights = Weights(source)
        self.marks: dict[str, str] = {}
        #: The tensor of a name in the main graph.
        self.tensor: _Lookup = lambda name: None

        #: Whether an exporter wrote down which modules the nodes belong to.
        self.scopes_noted = skeleton.mentions(SCOPES)
        #: Attributes by their messages.
        self.shared: dict[tuple[bytes, ...], dict[str, Any]] = {}
        #: What operators are called by their domain and type, "::" between the two.
        self.ops: dict[str, str] = {}

    def main(
        self, graph: onnx.GraphProto, nodes: Sequence[Listed], shapes: Shapes, states: Collection[str] = ()
    ) -> None:
        """Take in the main graph; ``states`` are the inputs that are a language model's state."""
        initializers = self.skeleton.initializers
        if not all(map(shapes.is_stored, initializers)):  # inlining may change their names
            initializers = {name: place for name, place in initializers.items() if shapes.is_stored(name)}
        stored = self.stored(nodes, shapes, initializers, "")
        for value in graph.input:
            stored.kinds.setdefault(value.name, "state" if value.name in states else "input")
        self.tensor = _lookup(shapes, stored, "", "")
        self.graph(nodes, shapes, self.tensor, (), ())

    def stored(
        self,
        own: Sequence[Listed],
        shapes: Shapes,
        initializers: dict[str, Stored],
        prefix: str,
    ) -> StoredTensors:
        """The stored tensors of one graph; their names get the prefix."""
        nodes = list(_with_bodies(own, shapes)) if shapes.inner else own
        stored = stored_tensors(
            own, nodes, shapes, initializers, self.skeleton.inner, self.source, self.storage, self.notes
        )
        for mark, key in stored.marks.items():
            first = self.marks.setdefault(mark, prefix + key)
            if first != prefix + key:
                stored.first[key] = first
                stored.weights.pop(key, None)
        self.weights.add(stored, prefix, self.storage)
        return stored

    def graph(
        self,
        nodes: Sequence[Listed],
        shapes: Shapes,
        tensor: _Lookup,
        within: tuple[Body, ...],
        around: tuple[Module, ...],
    ) -> None:
        """Take in the nodes of a graph, each followed by its bodies."""
        make, taken_in, ops, versions = constructor(Node), self.nodes, self.ops, self.versions
        inner_graphs, faults = shapes.inner, shapes.faults
        noted = protos(nodes) if self.scopes_noted else None
        for node in nodes:
            _, _, type_, domain, name, inputs, outputs, attributes = node
            op = "" if domain else ops.get(type_, "")
            if not op:
                op = self.op(domain, type_)
            if type_ in CONTROL_FLOW:
                name = node.proto.name  # it may have been given one
            scope: Any = ()
            origin = ""
            if noted:
                scope, origin = scope_of(next(noted))
            elif "/" in name:
                scope = scope_of_path(name) if within else scope_of_path
            attrs = self.attributes(attributes) if attributes else _NONE
            if type_ in CONTROL_FLOW or inner_graphs:
                inside = inner_graphs.get(node.first_output)
                if inside is None and not domain and op in CONTROL_FLOW:
                    attrs = {**attrs, "bodies": None}
            else:
                inside = None
            position = len(taken_in)
            taken_in.append(
                make(
                    op,
                    name,
                    tuple([tensor(name) for name in inputs]),
                    tuple([tensor(name) for name in outputs]),
                    attrs,
                    scope or around,
                    origin or op,
                    versions.get(domain, 0),
                    within,
                    (),
                    faults.get(node.first_output, "") if faults else "",
                )
            )
            for inner in inside or ():
                body = Body(position, inner.part, inner.trips, inner.branch, inner.bound)
                self.body(inner, f"{name}/", tensor, (*within, body), scope or around)

    def attributes(self, key: tuple[bytes, ...]) -> dict[str, Any]:
        """The attributes of a node; nodes with the same share them."""
        shared = self.shared.get(key)
        if shared is None:
            shared = self.shared[key] = _attributes(map(onnx.AttributeProto.FromString, key))
        return shared

    def op(self, domain: str, type_: str) -> str:
        """What the graph calls an operator."""
        name = f"{domain}::{type_}" if domain else type_
        if name not in self.ops:
            self.ops[name] = one_line(name)
        return self.ops[name]

    def body(
        self,
        inner: Inner,
        prefix: str,
        outside: _Lookup,
        within: tuple[Body, ...],
        around: tuple[Module, ...],
    ) -> None:
        """Take in the body of a control-flow operator."""
        graph, nodes = inner.graph, listed(inner.graph)
        above = "".join(f"{self.nodes[b.owner].name}/{b.part}/" for b in within[:-1])
        stored_prefix = f"{above}{prefix}{inner.part.partition('[')[0]}/"
        initializers = {
            t.name: self.skeleton.inner.get(t.doc_string) or stored_in_memory(t, t.name, self.source)
            for t in graph.initializer
        }
        stored = self.stored(nodes, inner.shapes, initializers, stored_prefix)
        own = {t.name for t in graph.initializer} | {o for n in nodes for o in n.outputs} | {*inner.takes}
        made = _lookup(inner.shapes, stored, f"{above}{prefix}{inner.part}/", stored_prefix)
        self.graph(nodes, inner.shapes, lambda name: made(name) if name in own else outside(name), within, around)


def _with_bodies(nodes: Iterable[Listed], shapes: Shapes) -> Iterator[Listed]:
    for node in nodes:
        yield node
        for inner in shapes.inner.get(node.first_output, ()):
            yield from _with_bodies(listed(inner.graph), inner.shapes)


def _lookup(shapes: Shapes, stored: StoredTensors, prefix: str, stored_prefix: str) -> _Lookup:
    """The tensors of one graph by the names that they have in it."""
    return _Tensors(shapes, stored, prefix, stored_prefix).__getitem__


class _Tensors(dict[str, "Tensor | None"]):
    """The tensors of one graph by the names that they have in it, made when somebody asks for them."""

    def __init__(self, shapes: Shapes, stored: StoredTensors, prefix: str, stored_prefix: str) -> None:
        super().__init__({"": None})
        self._shapes, self._stored, self._prefixes = shapes, stored, (prefix, stored_prefix)
        self._make = constructor(Tensor)

    def __missing__(self, key: str) -> Tensor | None:
        shapes, stored, items = self._shapes, self._stored, None
        type_ = shapes.of(key)
        shape = type_.shape
        kind = stored.kinds.get(key, "activation")
        prefix = self._prefixes[0 if kind == "activation" else 1]
        name = stored.first.get(key, "") if stored.first else ""
        name = name or (prefix + key if prefix else key)
        if shape is None and key in shapes.items:
            types = each(shapes.items[key], lambda t: (concrete(t), element_type(t)))
            items = Members(Tensor(f"{name}[{i}]", *described) for i, described in enumerate(types))
        tensor = self[key] = self._make(name, shape, type_.dtype, kind, key in shapes.bounds, items)
        return tensor


#: No attributes.
_NONE: dict[str, Any] = {}


def _attributes(protos: Iterable[onnx.AttributeProto]) -> dict[str, Any]:
    """Attributes as plain Python values; a graph by its name. Tensors are left out: no count reads them."""
    return {p.name: read(p) for p in protos if (read := _READ.get(p.type))}


_READ: dict[int, Callable[[onnx.AttributeProto], Any]] = {
    onnx.AttributeProto.GRAPH: lambda p: p.g.name,
    onnx.AttributeProto.FLOAT: lambda p: p.f,
    onnx.AttributeProto.INT: lambda p: p.i,
    onnx.AttributeProto.STRING: lambda p: p.s.decode("utf-8", "replace"),
    onnx.AttributeProto.FLOATS: lambda p: list(p.floats),
    onnx.AttributeProto.INTS: lambda p: list(p.ints),
    onnx.AttributeProto.STRINGS: lambda p: [s.decode("utf-8", "replace") for s in p.strings],
}


#: Elements up to which a mask is read: one over 4,096 tokens.
_LARGEST = 1 << 24

#: A mask that is added closes a pair when it is this or less: the pair's weight is zero in every element type.
_CLOSED = -10_000.0


def with_masks(nodes: Sequence[Node], weights: Mapping[str, StoredTensor]) -> Iterator[Node]:
    """The nodes; attentions whose mask is stored with the model say how many pairs it leaves.

    Args:
        nodes: the operators.
        weights: the stored tensors.
    """
    masks: dict[str, Any] = {}
    for node in nodes:
        if node.op != "Attention" or not _is_known(node, weights):
            yield node
            continue
        mask = node.input(3)
        if mask.name not in masks:
            masks[mask.name] = weights[mask.name].array()
        yield replace(node, attrs={**node.attrs, PAIRS: _pairs(node, masks[mask.name])})


def _is_known(node: Node, weights: Mapping[str, StoredTensor]) -> bool:
    """Whether the mask of an attention is stored and not too large, and no number of valid keys is an input."""
    if not node.has_input(3) or node.has_input(6):
        return False
    tensors: tuple[Tensor, ...] = (node.input(0), node.input(1), node.input(3), node.output())
    if not all(t.shape is not None and all(isinstance(d, int) for d in t.shape) for t in tensors):
        return False
    mask = node.input(3)
    return mask.kind in STORED and mask.name in weights and mask.numel <= _LARGEST


def _pairs(node: Node, mask: Any) -> int:
    """Pairs that the mask, the causal frontier and the window of an attention leave together, over all heads.

    https://onnx.ai/onnx/operators/onnx__Attention.html
    """
    import numpy

    query, key = node.input(0).dims, node.input(1).dims
    heads = node.attrs.get("q_num_heads", 1) if len(query) == 3 else query[-3]
    past = node.input(4).dims[-2] if node.has_input(4) else 0
    queries, keys = query[-2], key[-2] + past
    left = mask if mask.dtype == bool else mask > _CLOSED
    if left.shape[-1] < keys:  # keys beyond the mask are left out
        left = numpy.pad(left, [(0, 0)] * (left.ndim - 1) + [(0, keys - left.shape[-1])])
    distance = numpy.arange(keys) - (numpy.arange(queries)[:, None] + past)
    before, ahead = (int(node.attrs.get(f"{side}_window_size", -1)) for side in ("left", "right"))
    if node.attrs.get("is_causal", 0):
        left = left & (distance <= 0)
    if before >= 0:
        left = left & (distance >= -before)
    if ahead >= 0:
        left = left & (distance <= ahead)
    left = numpy.broadcast_to(left, numpy.broadcast_shapes(left.shape, (queries, keys)))
    return int(numpy.count_nonzero(left)) * (query[0] * heads * queries * keys // left.size)
