"""An ONNX model decoded in plain Python."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from flopwise.errors import ModelError, damaged
from flopwise.formats.kit.program import (
    Attributes,
    Dim,
    Function,
    Graph,
    Key,
    MapType,
    Model,
    Node,
    Operation,
    OptionalType,
    Reference,
    SequenceType,
    SparseType,
    TensorType,
    Type,
    Value,
    Values,
    entries,
    entry_of,
)
from flopwise.formats.kit.tensors import CODES, DEEPEST, Skeleton, Stored, refuse_impossible, refuse_twin
from flopwise.formats.kit.tensors import payload as elements_of
from flopwise.formats.onnx.tensors import head_of, text_of
from flopwise.formats.sources.wire import BYTES, FIXED32, VARINT, fields, message, read_varint, signed, varints
from flopwise.graph.dtypes import DTYPES

#: Tags of the first fields of a node: inputs, outputs and name. What follows is its operation, and an exporter's notes.
_INPUT, _OUTPUT, _NAME = (n << 3 | BYTES for n in range(1, 4))

#: Types of attributes -> the field of AttributeProto with the value.
_HELD: dict[int, int] = {1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8, 8: 9, 9: 10, 10: 11, 11: 22, 12: 23, 13: 14, 14: 15}

#: Fields of AttributeProto that are lists.
_LISTS = frozenset({7, 8, 9, 10, 11, 15, 23})

#: Those that are numbers or lists of numbers, and those that are messages.
_NUMBERS, _MESSAGES = frozenset({2, 3, 7, 8}), frozenset({5, 6, 14, 22})


def decoded(skeleton: Skeleton, source: str) -> Model:
    """The model of a file.

    Args:
        skeleton: the model without its weights.
        source: what to call it in messages.

    Raises:
        ModelError: it is damaged.
    """
    return Decoder(skeleton.inner, source).model(skeleton)


class Decoder:
    """Makes the messages of one model; what is equal is made once."""

    def __init__(self, inner: Mapping[str, Stored], source: str) -> None:
        """
        Args:
            inner: where tensors lie that are no initialisers of the main graph, by their marks.
            source: the model, for messages.
        """
        self.inner = inner
        self.source = source
        self._names: dict[str, str] = {}
        self._operations: dict[tuple[str, str, str, tuple[bytes, ...]], Operation] = {}
        #: Operations by the fields behind the name of a node, if there are no notes among these.
        self._rests: dict[bytes, tuple[Operation, tuple[bytes, ...]]] = {}
        self._types: dict[bytes, Type | None] = {}

    def model(self, skeleton: Skeleton) -> Model:
        head, ir_version, graphs = skeleton.head, 0, []
        opsets: dict[str, int] = {}
        functions: dict[Key, Function] = {}
        for tag, start, end in fields(head):
            if tag == 1 << 3 | VARINT:
                ir_version = signed(start)
            elif tag == 7 << 3 | BYTES:
                graphs.append(head[start:end])
            elif tag == 8 << 3 | BYTES:
                opsets.update([_opset(head[start:end])])
            elif tag == 25 << 3 | BYTES:
                function = self.function(head[start:end])
                functions.setdefault(function.key, function)
        graph = replace(self.graph(b"".join(graphs), 0), initializers=skeleton.initializers)
        self._names.update(zip(graph.initializers, graph.initializers, strict=True))
        for piece in skeleton.nodes:
            self.nodes(piece, piece.decode("latin-1"), 0, graph.nodes, 0)
        self._names.clear()
        self._operations.clear()
        self._rests.clear()
        return Model(ir_version, opsets, functions, graph)

    def graph(self, data: bytes, depth: int) -> Graph:
        """A graph; the initialisers of the main graph are known from elsewhere."""
        if depth > DEEPEST:
            raise ModelError(f"control flow nests deeper than {DEEPEST}")
        name = ""
        values: list[bytes] = []
        graph = Graph(values=Values(values, self.values))
        for tag, start, end in self.fields_between_nodes(data, _INPUT, graph.nodes, depth):
            part = data[start:end]
            if tag == 2 << 3 | BYTES:
                name = text_of(part)
            elif tag == 5 << 3 | BYTES and depth:
                stored = self.tensor(part)
                refuse_twin(self.source, graph.initializers.setdefault(stored.name, stored), stored)
            elif tag == 11 << 3 | BYTES:
                graph.inputs.append(self.value(part))
            elif tag == 12 << 3 | BYTES:
                graph.outputs.append(self.value(part))
            elif tag == 13 << 3 | BYTES:
                values.append(part)
            elif tag == 16 << 3 | BYTES:
                graph.metadata.update([entry_of(part)])
        return replace(graph, name=name) if name else graph

    def function(self, data: bytes) -> Function:
        """A local function."""
        names: dict[int, str] = {1: "", 10: "", 13: ""}
        lists: dict[int, list[str]] = {4: [], 5: [], 6: []}
        defaults: list[bytes] = []
        nodes: list[Node] = []
        opsets: dict[str, int] = {}
        for tag, start, end in self.fields_between_nodes(data, 7 << 3 | BYTES, nodes, 0):
            number = tag >> 3
            if tag & 7 != BYTES:
                continue
            if number in names:
                names[number] = text_of(data[start:end])
            elif number in lists:
                lists[number].append(text_of(data[start:end]))
            elif number == 9:
                opsets.update([_opset(data[start:end])])
            elif number == 11:
                defaults.append(data[start:end])
        key = Key(_domain(names[10]), names[1], names[13])
        inputs, outputs, attributes = map(tuple, lists.values())
        default = self.attributes(tuple(defaults), 0)
        return Function(key, inputs, outputs, nodes, opsets, default, attributes, data)

    def fields_between_nodes(
        self, data: bytes, node: int, nodes: list[Node], depth: int
    ) -> Iterator[tuple[int, int, int]]:
        """The fields of a graph or function but for the nodes, which are appended to a list."""
        at, whole = 0, len(data)
        text = ""
        while at < whole:
            if data[at] == node:
                text = text or data.decode("latin-1")
                at = self.nodes(data, text, at, nodes, depth)
                continue
            field = next(fields(data, at), None)
            if field is None:
                return
            tag, start, at = field
            if tag == node:  # after a group
                nodes.append(self.node(data[start:at], depth))
            else:
                yield field

    def nodes(self, data: bytes, text: str, at: int, nodes: list[Node], depth: int) -> int:
        """Append the nodes at a place of a message, one after the other; where the last of them ends.

        Args:
            data: the message.
            text: the same as Latin-1: a slice of it is a name at once, if that is ASCII.
            at: where the tag of the first node is.
            nodes: those so far.
            depth: how many bodies these nodes are in.
        """
        one, make, known = self._names.setdefault, tuple.__new__, self._rests
        whole, node, ascii_only = len(data), data[at], data.isascii()
        others: list[int] = []
        while at < whole and data[at] == node:
            inputs: list[str] = []
            outputs: list[str] = []
            name, held = "", None
            end, at = data[at + 1], at + 2
            if end > 127:
                end, at = _length(data, at - 1)
            begin = at
            names_end = end = end + at
            if end > whole:
                raise damaged("", "a node does not end where it should")
            while at + 1 < end:
                tag, start, stop = data[at], at + 2, data[at + 1]
                if stop > 127:
                    stop, start = _length(data, at + 1)
                stop += start
                if tag == _INPUT:
                    inputs.append(one(part := text[start:stop], part))
                elif tag == _OUTPUT:
                    outputs.append(one(part := text[start:stop], part))
                elif tag == _NAME:
                    name = text[start:stop]
                else:
                    held = known.get(rest := data[at:end]) or self.rest(rest, depth)
                    names_end = at if held else end
                    break
                at = stop
            if held is None:
                nodes.append(self.node(data[begin:end], depth))
            else:
                nodes.append(make(Node, (held[0], name, tuple(inputs), tuple(outputs), held[1])))
            at = end
            if not ascii_only and not data[begin:names_end].isascii():
                others.append(len(nodes) - 1)
        for place in others:
            nodes[place] = _unicode(nodes[place])
        return at

    def rest(self, data: bytes, depth: int) -> tuple[Operation, tuple[bytes, ...]] | None:
        """The operation of a node and the notes on it, by the fields behind its name; None if others are there."""
        texts = {4: b"", 7: b"", 8: b""}
        lists: dict[int, list[bytes]] = {5: [], 9: []}
        for tag, start, end in fields(data):
            if tag & 7 == BYTES and tag >> 3 in texts:
                texts[tag >> 3] = data[start:end]
            elif tag & 7 == BYTES and tag >> 3 in lists:
                lists[tag >> 3].append(data[start:end])
            elif tag >> 3 < 4:
                return None
        op, domain, overload = map(text_of, texts.values())
        result = self.operation(op, domain, overload, tuple(lists[5]), depth), tuple(lists[9])
        if not lists[9]:
            self._rests[data] = result
        return result

    def node(self, data: bytes, depth: int) -> Node:
        """A node whose fields are in another order than usual; its names are Latin-1 still."""
        name, rest = "", list[bytes]()
        lists: dict[int, list[str]] = {1: [], 2: []}
        for tag, start, end in fields(data):
            if tag & 7 == BYTES and tag >> 3 in lists:
                lists[tag >> 3].append(data[start:end].decode("latin-1"))
            elif tag == _NAME:
                name = data[start:end].decode("latin-1")
            elif tag & 7 == BYTES and tag >> 3 > 3:
                rest.append(message(tag >> 3, [data[start:end]]))
        operation = self.rest(b"".join(rest), depth)
        assert operation is not None  # neither inputs and outputs nor the name are among these
        return Node(operation[0], name, tuple(lists[1]), tuple(lists[2]), operation[1])

    def operation(self, op: str, domain: str, overload: str, attributes: tuple[bytes, ...], depth: int) -> Operation:
        """An operation; equal ones are one object."""
        key = op, _domain(domain), overload, attributes
        made = self._operations.get(key)
        if made is None:
            made = self._operations[key] = Operation(op, key[1], self.attributes(attributes, depth), overload)
        return made

    def attributes(self, data: tuple[bytes, ...], depth: int) -> Attributes:
        """Attributes by their bytes."""
        return Attributes(data, lambda parts: dict(self.attribute(part, depth) for part in parts))

    def attribute(self, data: bytes, depth: int) -> tuple[str, Any]:
        """The name and the value of an attribute; None for one of an unknown type."""
        name, reference, form = "", "", 0
        held: dict[int, Any] = {}
        for tag, start, end in fields(data):
            number, wire = tag >> 3, tag & 7
            if number == 1 and wire == BYTES:
                name = text_of(data[start:end])
            elif number == 20 and wire == VARINT:
                form = start if start in _HELD else form
            elif number == 21 and wire == BYTES:
                reference = text_of(data[start:end])
            elif number in _NUMBERS:
                _add_numbers(held, number, wire, data, start, end)
            elif wire == BYTES and number in _LISTS:
                held.setdefault(number, []).append(data[start:end])
            elif wire == BYTES and number in _MESSAGES:
                held[number] = held.get(number, b"") + data[start:end]
            elif wire == BYTES and number == 4:
                held[number] = data[start:end]
        if reference:
            return name, Reference(reference)
        number = _HELD[form] if form else next(iter(held), 0)  # the oldest models leave the type out
        if not number:
            return name, None
        return name, self.held(number, held.get(number), depth)

    def held(self, number: int, held: Any, depth: int) -> Any:
        """The value in a field of an attribute; ``held`` is None if it is not there."""
        if number in _LISTS:
            one = self._one(number, depth)
            return tuple(held or ()) if one is None else tuple([one(part) for part in held or ()])
        if number in _NUMBERS:
            return held if held is not None else 0.0 if number == 2 else 0
        make = self._one(number, depth)
        assert make is not None
        return make(held or b"")

    def _one(self, number: int, depth: int) -> Callable[[bytes], object] | None:
        """The decoder of the bytes in a field of an attribute; None where the field holds a number."""
        if number in (4, 9):
            return lambda data: data.decode("utf-8", "replace")
        if number in (5, 10):
            return self.tensor
        if number in (6, 11):
            return lambda data: self.graph(data, depth + 1)
        if number in (22, 23):
            return self.sparse
        return self.type if number in (14, 15) else None

    def tensor(self, data: bytes) -> Stored:
        """A stored tensor in an attribute or in a body.

        Raises:
            ModelError: it cannot exist.
        """
        head = head_of(data)
        place = self.inner.get(head.mark) or self.inner.get(head.name)
        if place is not None:
            return place
        refuse_impossible(self.source, head.name, head.code, head.dims)
        dtype = DTYPES[head.code]
        payload = elements_of(data, dtype) if head.payload and not head.external else b""
        return Stored(head.name, head.dims, dtype, external=head.external, payload=payload)

    def sparse(self, data: bytes) -> Stored:
        """A sparse tensor in an attribute."""
        dims: list[int] = []
        parts = {1: b"", 2: b""}
        for tag, start, end in fields(data):
            number, wire = tag >> 3, tag & 7
            if number in parts and wire == BYTES:
                parts[number] += data[start:end]
            elif number == 3 and wire == VARINT:
                dims.append(signed(start))
            elif number == 3 and wire == BYTES:
                dims.extend(map(signed, varints(data[start:end])))
        values = self.tensor(parts[1])
        if values.sparse:  # the walk knows it whole
            return values
        refuse_impossible(self.source, values.name, CODES[values.dtype], dims)
        return Stored(values.name, tuple(dims), values.dtype, sparse=(values, self.tensor(parts[2])))

    def values(self, data: list[bytes]) -> list[Value]:
        return list(map(self.value, data))

    def value(self, data: bytes) -> Value:
        """An input, an output, or another value with its type."""
        name, type_ = "", b""
        metadata: dict[str, str] = {}
        for tag, start, end in fields(data):
            if tag == 1 << 3 | BYTES:
                name = text_of(data[start:end])
            elif tag == 2 << 3 | BYTES:
                type_ += data[start:end]
            elif tag == 4 << 3 | BYTES:
                metadata.update([entry_of(data[start:end])])
        return Value(name, self.type(type_), metadata or _NOTHING)

    def type(self, data: bytes, depth: int = 0) -> Type | None:
        """A type by its bytes; equal ones are one object."""
        if data not in self._types:
            self._types[data] = self._type(data, depth)
        return self._types[data]

    def _type(self, data: bytes, depth: int) -> Type | None:
        if depth > DEEPEST:
            raise ModelError(f"a type nests deeper than {DEEPEST}")
        kind, content = 0, b""
        for tag, start, end in fields(data):
            if tag & 7 == BYTES and tag >> 3 in _KINDS:  # of several kinds the last one counts
                content = (content if tag >> 3 == kind else b"") + data[start:end]
                kind = tag >> 3
        code, parts = 0, {1: b"", 2: b""}
        shaped = False
        for tag, start, end in fields(content):
            if tag == 1 << 3 | VARINT:
                code = start
            elif tag & 7 == BYTES and tag >> 3 in parts:
                parts[tag >> 3] += content[start:end]
                shaped = shaped or tag >> 3 == 2
        dtype = DTYPES.get(code)
        if kind in (1, 8):
            dims = _dims(parts[2]) if shaped else None
            return TensorType(dtype, dims) if kind == 1 else SparseType(dtype, dims)
        if kind == 5:
            return MapType(dtype, self.type(parts[2], depth + 1))
        if kind == 0:
            return None
        element = self.type(parts[1], depth + 1)
        return SequenceType(element) if kind == 4 else OptionalType(element)


#: Fields of TypeProto: tensor, sequence, map, sparse tensor and optional.
_KINDS = frozenset({1, 4, 5, 8, 9})

_NOTHING: dict[str, str] = {}


def _dims(data: bytes) -> tuple[Dim, ...]:
    """The extents of a shape."""
    dims: list[Dim] = []
    for tag, start, end in fields(data):
        if tag != 1 << 3 | BYTES:
            continue
        dim: Dim = None
        for inner, first, after in fields(data, start, end):
            if inner == 1 << 3 | VARINT:
                dim = first if first < 1 << 63 else None
            elif inner == 2 << 3 | BYTES:
                dim = text_of(data[first:after]) or None
        dims.append(dim)
    return tuple(dims)


def _add_numbers(held: dict[int, Any], number: int, wire: int, data: bytes, start: int, end: int) -> None:
    """Take in a number, or several, of an attribute; fields of another wire type are unknown."""
    if number == 2 and wire == FIXED32:
        held[2] = struct.unpack_from("<f", data, start)[0]
    elif number == 3 and wire == VARINT:
        held[3] = signed(start)
    elif number == 7 and wire == FIXED32:
        held.setdefault(7, []).append(struct.unpack_from("<f", data, start)[0])
    elif number == 7 and wire == BYTES:
        if (end - start) % 4:
            raise damaged("", "a list of numbers does not end where it should")
        held.setdefault(7, []).extend(struct.unpack(f"<{(end - start) // 4}f", data[start:end]))
    elif number == 8 and wire == VARINT:
        held.setdefault(8, []).append(signed(start))
    elif number == 8 and wire == BYTES:
        held.setdefault(8, []).extend(map(signed, varints(data[start:end])))


def _unicode(node: Node) -> Node:
    """A node whose names are Latin-1 with names that are text."""
    if "".join((node.name, *node.inputs, *node.outputs)).isascii():
        return node
    name, inputs, outputs = (
        tuple([text_of(part.encode("latin-1")) for part in parts])
        for parts in ((node.name,), node.inputs, node.outputs)
    )
    return node._replace(name=name[0], inputs=inputs, outputs=outputs)


def _opset(data: bytes) -> tuple[str, int]:
    domain, version = "", 0
    for tag, start, end in fields(data):
        if tag == 1 << 3 | BYTES:
            domain = text_of(data[start:end])
        elif tag == 2 << 3 | VARINT:
            version = signed(start)
    return _domain(domain), version


def _domain(name: str) -> str:
    """A domain as all nodes write it: the standard one has two names."""
    return "" if name == "ai.onnx" else name


def _length(data: bytes, at: int) -> tuple[int, int]:
    """The length that begins at a place, and where the next byte is; longer than anything if it does not end."""
    try:
        return read_varint(data, at)
    except IndexError:
        return 1 << 62, at


# Weightless models: initialisers that were written without their elements, taken back for initialisers.

#: Key of the metadata by which such an operator is known.
MARK = "flopwise.initializer"


def with_initializers(graph: Graph) -> Graph:
    """The graph with initialisers in place of the marked constants, and so in the bodies of its control flow."""
    nodes: list[Node] = []
    initializers = dict(graph.initializers)
    for node in graph.nodes:
        stored = _marked(node)
        if stored is None:
            nodes.append(node.with_bodies(with_initializers))
        else:
            initializers[node.outputs[0]] = replace(stored, name=node.outputs[0])
    return replace(graph, nodes=nodes, initializers=initializers)


def _marked(node: Node) -> Stored | None:
    """The tensor of a marked constant, None for any other operator."""
    if node.op != "Constant" or len(node.outputs) != 1 or MARK not in entries(node.metadata):
        return None
    held = node.attributes.get("sparse_value")
    return held if isinstance(held, Stored) and len(node.attributes.values) == 1 else None
