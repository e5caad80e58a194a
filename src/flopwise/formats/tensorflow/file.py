"""A graph as a file holds it: nodes, functions, signatures, variables; elements of tensors by their places.

Sources: tensorflow/core/framework/{graph,node_def,function,attr_value,tensor,types}.proto and
tensorflow/core/protobuf/{saved_model,meta_graph,saved_object_graph}.proto of TensorFlow 2.21.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flopwise.errors import ModelError
from flopwise.operators.shape import Element
from flopwise.readers.source.wire import BYTES, FIXED32, FIXED64, VARINT, Field, Window

#: Numbers of element types (types.proto); those of references are 100 more.
DTYPES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string", 8: "complex64",
    9: "int64", 10: "bool", 11: "int8", 12: "uint8", 13: "int32", 14: "bfloat16", 15: "int16", 16: "uint16",
    17: "uint16", 18: "complex128", 19: "float16", 20: "resource", 21: "variant", 22: "uint32", 23: "uint64",
}  # fmt: skip

#: Elements of a tensor that are kept at most; more decide no shape.
_FEW = 8192

#: Axes of a tensor at most (tensorflow/core/framework/tensor_shape.h, MaxDimensions).
_AXES = 254

#: Fields of TensorProto with elements one by one -> form of a packed one; None: varints.
_VALUES: Mapping[int, str | None] = {
    5: "f", 6: "d", 7: None, 10: None, 11: None, 13: None, 16: None, 17: None
}  # fmt: skip


class Constant(NamedTuple):
    """A stored tensor."""

    dtype: str
    shape: tuple[int, ...]
    #: Where its elements lie one after the other; None where they do not.
    place: tuple[int, int] | None
    #: Its elements where they are few; one stands for all.
    elements: tuple[Element, ...] | None


class Function(NamedTuple):
    """The name of a function in an attribute."""

    name: str


class Node(NamedTuple):
    """A node of a graph or of a function."""

    name: str
    op: str
    inputs: tuple[str, ...]
    attrs: Mapping[str, Any]


@dataclass
class Body:
    """A function: its arguments and results by name, and what each result is."""

    name: str = ""
    arguments: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)

    @functools.cached_property
    def ops(self) -> dict[str, str]:
        """The operator of each node."""
        return {node.name: node.op for node in reversed(self.nodes)}


@dataclass
class File:
    """A graph with its functions."""

    nodes: list[Node] = field(default_factory=list)
    functions: dict[str, Body] = field(default_factory=dict)
    #: Signature -> inputs and outputs: name for users -> "node:index".
    signatures: dict[str, tuple[dict[str, str], dict[str, str]]] = field(default_factory=dict)
    #: Variable -> whether it is trained.
    trained: dict[str, bool] = field(default_factory=dict)


class Decoder:
    """Messages of one file."""

    def __init__(self, window: Window) -> None:
        self.window = window

    def text(self, one: Field) -> str:
        return self.window.bytes(one.start, one.end).decode("utf-8", "replace")

    def fields(self, one: Field) -> Iterator[Field]:
        if one.wire != BYTES:
            raise self.window.damaged(one.tag, "a message was expected")
        return self.window.fields(one.start, one.end)

    def graph(self, fields: Iterator[Field], file: File) -> None:
        """Take in a GraphDef."""
        for one in fields:
            if one.number == 1:
                file.nodes.append(self.node(one))
            elif one.number == 2:
                for inner in self.fields(one):
                    if inner.number == 1:
                        body = self.function(inner)
                        file.functions[body.name] = body

    def saved_model(self, file: File) -> None:
        """Take in the first graph of a SavedModel."""
        metas = [one for one in self.window.fields(0, self.window.size) if one.number == 2]
        if not metas:
            raise ModelError(f"{self.window.source.name}: a SavedModel without a graph")
        for one in self.fields(metas[0]):
            if one.number == 2:
                self.graph(self.fields(one), file)
            elif one.number == 5:
                name, value = self.entry(one)
                if value is not None:
                    file.signatures[name] = self.signature(value)
            elif one.number == 7:
                for inner in self.fields(one):
                    if inner.number == 1:
                        self.variable(inner, file)

    def variable(self, one: Field, file: File) -> None:
        """Take in an object that is a variable."""
        for inner in self.fields(one):
            if inner.number == 7:
                name, trained = "", False
                for part in self.fields(inner):
                    if part.number == 6:
                        name = self.text(part)
                    elif part.number == 3:
                        trained = bool(part.value)
                if name:
                    file.trained[name] = trained

    def entry(self, one: Field) -> tuple[str, Field | None]:
        """Key and value of an entry of a map."""
        name, value = "", None
        for inner in self.fields(one):
            if inner.number == 1:
                name = self.text(inner)
            elif inner.number == 2:
                value = inner
        return name, value

    def signature(self, one: Field) -> tuple[dict[str, str], dict[str, str]]:
        sides: tuple[dict[str, str], dict[str, str]] = ({}, {})
        for inner in self.fields(one):
            if inner.number in (1, 2):
                name, value = self.entry(inner)
                for part in self.fields(value) if value is not None else ():
                    if part.number == 1:
                        sides[inner.number - 1][name] = self.text(part)
        return sides

    def function(self, one: Field) -> Body:
        body = Body()
        for inner in self.fields(one):
            if inner.number == 1:
                for part in self.fields(inner):
                    if part.number == 1:
                        body.name = self.text(part)
                    elif part.number in (2, 3):
                        names = [self.text(f) for f in self.fields(part) if f.number == 1]
                        (body.arguments if part.number == 2 else body.outputs).extend(names[:1])
            elif inner.number == 3:
                body.nodes.append(self.node(inner))
            elif inner.number == 4:
                name, value = self.entry(inner)
                body.results[name] = self.text(value) if value is not None else ""
        return body

    def node(self, one: Field) -> Node:
        name = op = ""
        inputs: list[str] = []
        attrs: dict[str, Any] = {}
        for inner in self.fields(one):
            if inner.number == 1:
                name = self.text(inner)
            elif inner.number == 2:
                op = self.text(inner)
            elif inner.number == 3:
                inputs.append(self.text(inner))
            elif inner.number == 5:
                key, value = self.entry(inner)
                if value is not None and not key.startswith("_"):
                    attrs[key] = self.value(value)
        return Node(name, op, tuple(name for name in inputs if not name.startswith("^")), attrs)

    def value(self, one: Field) -> Any:
        """The value of an attribute; None for one of a kind that nothing here asks for."""
        for inner in self.fields(one):
            if inner.number == 1:
                return [self.single(part, part.number) for part in self._unpacked(inner)]
            return self.single(inner, inner.number)
        return None

    def _unpacked(self, one: Field) -> Iterator[Field]:
        """The members of a list, packed numbers one by one."""
        for part in self.fields(one):
            if part.number in (3, 5, 6) and part.wire == BYTES:
                for number in _varints(self.window.bytes(part.start, part.end)):
                    yield part._replace(wire=VARINT, value=number)
            else:
                yield part

    def single(self, one: Field, number: int) -> Any:
        if number == 2:
            return self.text(one)
        if number == 3:
            return _signed(one.value)
        if number == 4 and one.wire == FIXED32:
            return struct.unpack("<f", self.window.bytes(one.start, one.end))[0]
        if number == 5:
            return bool(one.value)
        if number == 6:
            return DTYPES.get(one.value % 100, "")
        if number == 7:
            return self.shape(one)
        if number == 8:
            return self.tensor(one)
        if number in (9, 10) and one.wire == BYTES:
            names = [self.text(part) for part in self.fields(one) if part.number == 1]
            return Function(names[0] if names else "")
        return None

    def shape(self, one: Field) -> tuple[int, ...] | None:
        """A shape with -1 for what is open; None where even the rank is."""
        sizes: list[int] = []
        for inner in self.fields(one):
            if inner.number == 3 and inner.value:
                return None
            if inner.number == 2:
                values = [_signed(part.value) for part in self.fields(inner) if part.number == 1]
                sizes.append(values[-1] if values else 0)
                if len(sizes) > _AXES:
                    raise self.window.damaged(inner.tag, f"a shape has more than {_AXES} sizes")
                if sizes[-1] < -1:
                    raise self.window.damaged(inner.tag, f"a shape has the size {sizes[-1]}")
        return tuple(sizes)

    def tensor(self, one: Field) -> Constant:
        dtype, place = "", None
        shape: tuple[int, ...] = ()
        values: list[Element] = []
        for inner in self.fields(one):
            if inner.number == 1:
                dtype = DTYPES.get(inner.value, "")
            elif inner.number == 2:
                shape = self.shape(inner) or ()
            elif inner.number == 4:
                place = inner.start, inner.end
            elif inner.number in _VALUES and len(values) <= _FEW:
                values += self.numbers(inner)
        if any(size < 0 for size in shape):
            raise self.window.damaged(one.tag, "a stored tensor has an open size")
        if dtype == "float16":  # their bits, and those of bfloat16, stand in half_val
            values = [struct.unpack("<e", struct.pack("<H", value & 0xFFFF))[0] for value in values]
        elif dtype == "bfloat16":
            values = [struct.unpack("<f", struct.pack("<I", (value & 0xFFFF) << 16))[0] for value in values]
        return Constant(dtype, shape, place, tuple(values[:_FEW]) or None)

    def numbers(self, one: Field) -> list[Element]:
        """Elements of one field, packed or not."""
        form = _VALUES[one.number]
        if one.wire == VARINT:
            return [_signed(one.value)]
        data = self.window.bytes(one.start, min(one.end, one.start + 8 * _FEW))
        if form is None:
            return [_signed(value) for value in _varints(data)] if one.wire == BYTES else []
        if one.wire not in (BYTES, FIXED32, FIXED64):
            return []
        size = struct.calcsize(form)
        count = len(data) // size
        return list(struct.unpack(f"<{count}{form}", data[: count * size]))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _varints(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value & (1 << 64) - 1
            value = shift = 0
