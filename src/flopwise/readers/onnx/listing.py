"""The nodes and the stored tensors of a graph with the facts that are needed most, read once.

They are read from the graph's bytes: protobuf makes an object of a node, of each list in it and of each name anew for
whoever asks, which takes three times as long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import onnx

from flopwise.errors import ModelError
from flopwise.readers.onnx.messages import Messages
from flopwise.readers.source.wire import BYTES, read_varint

#: The tags of a graph's nodes, name and stored tensors; and of a node's inputs, outputs, name, operator, attributes and
#: domain.
_NODE, _GRAPH_NAME, _INITIALIZER = (n << 3 | BYTES for n in (1, 2, 5))
_INPUT, _OUTPUT, _NAME, _OP, _ATTRIBUTE, _DOMAIN = (n << 3 | BYTES for n in (1, 2, 3, 4, 5, 7))
#: Those of what is not asked: documentation, overload and metadata.
_OTHERS = frozenset(n << 3 | BYTES for n in (6, 8, 9))

#: A stored tensor without elements before its name: dims, type, and the length of the name.
_HEAD = re.compile(rb"((?:\x08[\x80-\xff]*[\0-\x7f])*\x10[\0-\x7f])B([\0-\x7f])")


class Listed(NamedTuple):
    """A node, with the facts that are needed most."""

    #: Where its message is.
    messages: Messages
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
        """The node itself, or one like it but for metadata where nobody has asked for the messages of the graph."""
        node: onnx.NodeProto
        if self.messages.missing is None:
            node = self.messages.graph.node[self.position]
        else:
            node = onnx.NodeProto(
                input=self.inputs,
                output=self.outputs,
                name=self.name or None,
                op_type=self.op,
                domain=self.domain or None,
                attribute=map(onnx.AttributeProto.FromString, self.attributes),
            )
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

    @property
    def proto(self) -> onnx.TensorProto:
        """The tensor itself."""
        tensor: onnx.TensorProto = onnx.TensorProto.FromString(self.rest)
        tensor.name, tensor.data_type = self.name, self.data_type
        tensor.dims.extend(self.dims)
        return tensor


def protos(nodes: Sequence[Listed]) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph themselves, those with all that is in the file also where the graph does not have them."""
    missing = nodes[0].messages.missing if nodes else None
    if missing is None:
        yield from (node.proto for node in nodes)
    else:
        for piece in missing.nodes:
            yield from onnx.GraphProto.FromString(piece).node


def lean(model: onnx.ModelProto, nodes: Sequence[Listed]) -> onnx.ModelProto:
    """The model, without the memory of what was taken out of it if it does not have the messages of its nodes."""
    if not nodes or nodes[0].messages.missing is None:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    nodes[0].messages.graph = copy.graph
    return copy


def complete(nodes: Sequence[Listed]) -> None:
    """Put the messages of all nodes and stored tensors into the graph of these nodes, if they are not in it yet."""
    for node in nodes[:1]:
        node.messages.complete()


def initial(graph: onnx.GraphProto, nodes: Sequence[Listed] = ()) -> list[Initial]:
    """The stored tensors of a graph in order; equal dims are one object.

    Args:
        graph: the graph.
        nodes: its nodes, where they have been listed before.
    """
    messages = nodes[0].messages if nodes and nodes[0].messages.missing else Messages(graph)
    names = {place.name: place.name for place in messages.missing.initializers.values()} if messages.missing else {}
    heads: dict[bytes, tuple[int, tuple[int, ...]]] = {}
    tensors: list[Initial] = []
    for data in messages.tensors():
        _add_tensors(tensors, data, names, heads)
    return tensors


def _add_tensors(
    tensors: list[Initial], data: bytes, names: Mapping[str, str], heads: dict[bytes, tuple[int, tuple[int, ...]]]
) -> None:
    """Add the stored tensors of a serialised graph.

    Args:
        tensors: those so far.
        data: the graph.
        names: names that are there already, as themselves.
        heads: dims and types by their bytes, so far.
    """
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
            tensors.append(make(Initial, (names.get(name, name), *facts, data[end:at])))
        else:
            tensor = onnx.TensorProto.FromString(data[start:at])
            name = tensor.name
            tensor.ClearField("name")
            tensors.append(Initial(name, tensor.data_type, tuple(tensor.dims), tensor.SerializeToString()))


def listed(graph: onnx.GraphProto | Messages, stored: Iterable[str] = ()) -> list[Listed]:
    """The nodes of a graph in order; equal names, and equal attributes, are one object.

    Args:
        graph: the graph, or all that there is of it.
        stored: the names of its stored tensors, where these are there already.

    Raises:
        ModelError: a name is not UTF-8, or the file is damaged.
    """
    messages = graph if isinstance(graph, Messages) else Messages(graph)
    names = {name: name for name in stored}
    nodes: list[Listed] = []
    attributes: dict[tuple[bytes, ...], tuple[bytes, ...]] = {}
    for data in messages.nodes():
        _add_nodes(nodes, data, messages, names, attributes)
    return nodes if all(map(str.isascii, names)) else [_decoded(node, names) for node in nodes]


def _add_nodes(
    nodes: list[Listed],
    data: bytes,
    messages: Messages,
    names: dict[str, str],
    seen: dict[tuple[bytes, ...], tuple[bytes, ...]],
) -> None:
    """Add the nodes of a serialised graph; ``names`` and ``seen`` are the names and attributes so far."""
    text = data.decode("latin-1")  # a slice of it is a name at once, if that is ASCII
    one, alike, make = names.setdefault, seen.setdefault, tuple.__new__
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
        nodes.append(make(Listed, (messages, len(nodes), op, domain, name, tuple(inputs), tuple(outputs), key)))


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
