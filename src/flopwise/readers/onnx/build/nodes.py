"""Graph nodes from ONNX nodes with resolved shapes; the bodies of control flow follow their operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import onnx

from flopwise.graph import Body, Module, Node, StoredTensor, Tensor
from flopwise.readers.onnx.build.scope import scope_of
from flopwise.readers.onnx.file.exporter_notes import Notes
from flopwise.readers.onnx.file.proto import stored_in_memory
from flopwise.readers.onnx.file.skeleton import Skeleton, Stored
from flopwise.readers.onnx.file.stored import StoredTensors, stored_tensors
from flopwise.readers.onnx.file.weights import Reopen
from flopwise.readers.onnx.types import CONTROL_FLOW, Inner, Shapes, concrete, element_type, first_output, one_line
from flopwise.readers.weights.storage import SourceStorage

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
        #: Name -> loader of a numpy array, of all graphs.
        self.weights: dict[str, StoredTensor] = {}
        self.marks: dict[str, str] = {}
        #: The tensor of a name in the main graph.
        self.tensor: _Lookup = lambda name: None

        #: Attributes by their messages.
        self.shared: dict[tuple[bytes, ...], dict[str, Any]] = {}
        #: Name of an operator by domain and type.
        self.ops: dict[tuple[str, str], str] = {}

    def main(self, graph: onnx.GraphProto, shapes: Shapes) -> None:
        """Take in the main graph."""
        stored = self.stored(graph, shapes, self.skeleton.initializers, "")
        for value in graph.input:
            stored.kinds.setdefault(value.name, "input")
        self.tensor = _lookup(shapes, stored, "", "")
        self.graph(graph, shapes, self.tensor, (), ())

    def stored(
        self, graph: onnx.GraphProto, shapes: Shapes, initializers: dict[str, Stored], prefix: str
    ) -> StoredTensors:
        """The stored tensors of one graph; their names get the prefix."""
        nodes = list(_with_bodies(graph.node, shapes))
        stored = stored_tensors(
            graph, nodes, shapes, initializers, self.skeleton.inner, self.source, self.storage, self.notes
        )
        for mark, key in stored.marks.items():
            first = self.marks.setdefault(mark, prefix + key)
            if first != prefix + key:
                stored.first[key] = first
                stored.weights.pop(key, None)
        self.weights.update((prefix + key, tensor) for key, tensor in stored.weights.items())
        return stored

    def graph(
        self,
        graph: onnx.GraphProto,
        shapes: Shapes,
        tensor: _Lookup,
        within: tuple[Body, ...],
        around: tuple[Module, ...],
    ) -> None:
        """Take in the nodes of a graph, each followed by its bodies."""
        for node in graph.node:
            domain = node.domain
            op = self.op(domain, node.op_type)
            scope, origin = scope_of(node)
            position = len(self.nodes)
            inside = _inner(node, shapes)
            attrs = self.attributes(node)
            if not domain and op in CONTROL_FLOW and inside is None:
                attrs = {**attrs, "bodies": None}
            self.nodes.append(
                Node(
                    op=op,
                    name=node.name,
                    inputs=tuple(map(tensor, node.input)),
                    outputs=tuple(map(tensor, node.output)),
                    attrs=attrs,
                    scope=scope or around,
                    origin=origin or op,
                    version=self.versions.get(domain, 0),
                    within=within,
                    fault=shapes.faults.get(first_output(node), "") if shapes.faults else "",
                )
            )
            for inner in inside or ():
                body = Body(position, inner.part, inner.trips, inner.branch, inner.bound)
                self.body(inner, f"{node.name}/", tensor, (*within, body), scope or around)

    def attributes(self, node: onnx.NodeProto) -> dict[str, Any]:
        """The attributes of a node; nodes with the same share them."""
        attributes = node.attribute
        if not attributes:
            return _NONE
        key = tuple([a.SerializeToString() for a in attributes])
        shared = self.shared.get(key)
        if shared is None:
            shared = self.shared[key] = _attributes(attributes)
        return shared

    def op(self, domain: str, type_: str) -> str:
        """What the graph calls an operator."""
        key = (domain, type_)
        if key not in self.ops:
            self.ops[key] = one_line(f"{domain}::{type_}" if domain else type_)
        return self.ops[key]

    def body(
        self,
        inner: Inner,
        prefix: str,
        outside: _Lookup,
        within: tuple[Body, ...],
        around: tuple[Module, ...],
    ) -> None:
        """Take in the body of a control-flow operator."""
        graph = inner.graph
        above = "".join(f"{self.nodes[b.owner].name}/{b.part}/" for b in within[:-1])
        stored_prefix = f"{above}{prefix}{inner.part.partition('[')[0]}/"
        initializers = {
            t.name: self.skeleton.inner.get(t.doc_string) or stored_in_memory(t, t.name, self.source)
            for t in graph.initializer
        }
        stored = self.stored(graph, inner.shapes, initializers, stored_prefix)
        own = {t.name for t in graph.initializer} | {o for n in graph.node for o in n.output} | {*inner.takes}
        made = _lookup(inner.shapes, stored, f"{above}{prefix}{inner.part}/", stored_prefix)
        self.graph(graph, inner.shapes, lambda name: made(name) if name in own else outside(name), within, around)


def _inner(node: onnx.NodeProto, shapes: Shapes) -> list[Inner] | None:
    """The bodies of a node, None when nothing is known about them."""
    return shapes.inner.get(first_output(node)) if shapes.inner else None


def _with_bodies(nodes: Iterable[onnx.NodeProto], shapes: Shapes) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for inner in _inner(node, shapes) or ():
            yield from _with_bodies(inner.graph.node, inner.shapes)


def _lookup(shapes: Shapes, stored: StoredTensors, prefix: str, stored_prefix: str) -> _Lookup:
    """The tensors of one graph by the names that they have in it."""
    tensors: dict[str, Tensor] = {}

    def tensor(key: str) -> Tensor | None:
        if not key:
            return None
        if key not in tensors:
            kind = stored.kinds.get(key, "activation")
            name = stored.first.get(key) or (prefix if kind == "activation" else stored_prefix) + key
            shape, dtype = shapes.shape(key), shapes.dtype(key)
            items = None
            if shape is None and key in shapes.items:
                members = enumerate(shapes.items[key])
                items = tuple(Tensor(f"{name}[{i}]", concrete(t), element_type(t)) for i, t in members)
            tensors[key] = Tensor(name, shape, dtype, kind, key in shapes.bounds, items)
        return tensors[key]

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
