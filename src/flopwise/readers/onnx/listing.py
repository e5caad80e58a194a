"""The nodes and the stored tensors of a graph with what is asked of them most, read once.

They are read from the graph's bytes: protobuf makes an object of a node, of each list in it and of each name anew for
whoever asks, which takes three times as long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import onnx

from flopwise.errors import ModelError
from flopwise.graph.construction import give_back
from flopwise.readers.source.wire import BYTES, read_varint

#: The tags of a graph's nodes, name and stored tensors; and of a node's inputs, outputs, name, operator, attributes and
#: domain.
_NODE, _GRAPH_NAME, _INITIALIZER = (n << 3 | BYTES for n in (1, 2, 5))
_INPUT, _OUTPUT, _NAME, _OP, _ATTRIBUTE, _DOMAIN = (n << 3 | BYTES for n in (1, 2, 3, 4, 5, 7))
#: Those of what is not asked: documentation, overload and metadata.
_OTHERS = frozenset(n << 3 | BYTES for n in (6, 8, 9))

#: Bytes of a graph from which on what it takes to write them is handed back.
_MUCH = 1 << 18

#: A stored tensor without elements before its name: dims, type, and the length of the name.
_HEAD = re.compile(rb"((?:\x08[\x80-\xff]*[\0-\x7f])*\x10[\0-\x7f])B([\0-\x7f])")


class Listed(NamedTuple):
    """A node, and what is asked of it most."""

    #: The graph as the only item, which is taken out once nobody needs the nodes themselves.
    graph: list[onnx.GraphProto]
    #: Its place among the graph's nodes.
    position: int
    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    #: Its attributes, serialised: equal ones say the same.
    attributes: tuple[bytes, ...]

    @property
    def proto(self) -> onnx.NodeProto:
        """The node itself."""
        node: onnx.NodeProto = self.graph[0].node[self.position]
        return node

    @property
    def first_output(self) -> str:
        """The name of the first output that the node makes; "" if it makes none."""
        return next(filter(None, self.outputs), "")


class Initial(NamedTuple):
    """A stored tensor: its name, the code of its element type, its dims, and a message of what else is in it."""

    name: str
    data_type: int
    dims: tuple[int, ...]
    rest: bytes


def initial(graph: onnx.GraphProto) -> list[Initial]:
    """The stored tensors of a graph in order; equal dims are one object."""
    if not graph.initializer:
        return []
    data = _serialized(graph)
    heads: dict[bytes, tuple[int, tuple[int, ...]]] = {}
    tensors: list[Initial] = []
    at, whole, make = 0, len(data), tuple.__new__
    while at < whole and (tag := data[at]) in (_NODE, _GRAPH_NAME, _INITIALIZER):
        length, start = data[at + 1], at + 2
        if length > 127:
            length, start = read_varint(data, start - 1)
        at = start + length
        if tag != _INITIALIZER:
            continue
        match = _HEAD.match(data, start, at)
        if match is not None and data[match.start(2) + 1 : (end := match.end() + match[2][0])].isascii():
            head, name = match[1], data[match.end() : end].decode()
            facts = heads.get(head)
            if facts is None:
                tensor = onnx.TensorProto.FromString(head)
                facts = heads[head] = (tensor.data_type, tuple(tensor.dims))
            tensors.append(make(Initial, (name, *facts, data[end:at])))
        else:
            tensor = onnx.TensorProto.FromString(data[start:at])
            name = tensor.name
            tensor.ClearField("name")
            tensors.append(Initial(name, tensor.data_type, tuple(tensor.dims), tensor.SerializeToString()))
    return tensors


def listed(graph: onnx.GraphProto, stored: Iterable[str] = ()) -> list[Listed]:
    """The nodes of a graph in order; equal names, and equal attributes, are one object.

    Args:
        graph: the graph.
        stored: the names of its stored tensors, where these are there already.

    Raises:
        ModelError: a name is not UTF-8.
    """
    data = _serialized(graph)
    text = data.decode("latin-1")  # a slice of it is a name at once, if that is ASCII
    names = {name: name for name in stored}
    one, alike, make = names.setdefault, dict[tuple[bytes, ...], tuple[bytes, ...]]().setdefault, tuple.__new__
    nodes: list[Listed] = []
    holder = [graph]
    at, whole = 0, len(data)
    while at < whole and data[at] == _NODE:
        end, at = data[at + 1], at + 2
        if end > 127:
            end, at = read_varint(data, at - 1)
        end += at
        inputs: list[str] = []
        outputs: list[str] = []
        attributes: list[bytes] = []
        name = op = domain = ""
        while at < end:
            tag, start = data[at], at + 2
            at = data[at + 1]
            if at > 127:
                at, start = read_varint(data, start - 1)
            at += start
            if tag == _INPUT:
                inputs.append(one(part := text[start:at], part))
            elif tag == _OUTPUT:
                outputs.append(one(part := text[start:at], part))
            elif tag == _OP:
                op = one(part := text[start:at], part)
            elif tag == _NAME:
                name = one(part := text[start:at], part)
            elif tag == _ATTRIBUTE:
                attributes.append(data[start:at])
            elif tag == _DOMAIN:
                domain = one(part := text[start:at], part)
            elif tag not in _OTHERS:
                at = end  # what onnx does not know comes last
        key = alike(key := tuple(attributes), key) if attributes else ()
        nodes.append(make(Listed, (holder, len(nodes), op, domain, name, tuple(inputs), tuple(outputs), key)))
    return nodes if all(map(str.isascii, names)) else [_decoded(node, names) for node in nodes]


def _serialized(graph: onnx.GraphProto) -> bytes:
    """The graph's bytes; protobuf takes as much again to write them, which goes back to the system if it is much."""
    data: bytes = graph.SerializeToString()
    if len(data) > _MUCH:
        give_back()
    return data


def _decoded(node: Listed, names: dict[str, str]) -> Listed:
    """The node with names that are not ASCII; ``names`` has each as its bytes, and is completed."""

    def text(name: str) -> str:
        try:
            return name if name.isascii() else name.encode("latin-1").decode()
        except UnicodeDecodeError:
            raise ModelError("a name is not UTF-8; the file is damaged") from None

    inputs, outputs = (tuple(map(text, some)) for some in (node.inputs, node.outputs))
    return node._replace(
        op=text(node.op), domain=text(node.domain), name=text(node.name), inputs=inputs, outputs=outputs
    )
