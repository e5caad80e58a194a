"""The graph of an ONNX file without its weights: payloads and exporter metadata are skipped by seeking.

Field numbers are those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto. What is left, some tens of kilobytes,
is a valid ModelProto whose large tensors have dims and a type but no data; where the data lies is remembered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from flopwise.dtypes import BITS
from flopwise.errors import ModelError
from flopwise.readers.source import Source
from flopwise.readers.wire import BYTES, VARINT, Field, Window, message, number_field, signed, varints

#: Messages up to this many bytes are taken whole: looking inside costs more than keeping them.
SMALL = 384

#: Integer tensors up to this many elements may steer shapes and are kept.
INTEGERS_KEPT = 1024

#: Tensors of other types up to this many elements are kept: Resize scales, Clip bounds, Pow exponents.
OTHERS_KEPT = 8

#: What may be left after skipping, in bytes; a graph without weights that is larger is no model of a neural network.
LARGEST_GRAPH = 24 << 20

#: How deep control flow may nest.
DEEPEST = 32

#: Metadata of nodes and values that says something about modules and parameters; all other metadata is skipped.
METADATA_KEPT: frozenset[bytes] = frozenset(
    {
        b"pkg.torch.onnx.name_scopes",
        b"pkg.torch.onnx.class_hierarchy",
        b"pkg.torch.export.graph_signature.InputSpec.kind",
        b"pkg.onnxscript.optimizer.folded_from",
    }
)

#: TensorProto.DataType -> flopwise's name of the element type.
DTYPES: dict[int, str] = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8e4m3fn",
    18: "float8e4m3fnuz",
    19: "float8e5m2",
    20: "float8e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4e2m1",
    24: "float8e8m0",
    25: "uint2",
    26: "int2",
}

INTEGERS = frozenset({2, 3, 4, 5, 6, 7, 9, 12, 13})
_PAYLOAD = frozenset({4, 5, 6, 7, 9, 10, 11})  # float, int32, string, int64, raw, double and uint64 data
_RAW = 9


@dataclass(frozen=True, slots=True)
class Stored:
    """Where the elements of one stored tensor lie."""

    name: str
    dims: tuple[int, ...]
    dtype: str
    #: Places of the payload in the source: field number, first byte, one past the last byte.
    places: tuple[tuple[int, int, int], ...] = ()
    #: For external data: its keys and values (location, offset, length), else empty.
    external: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A model without its weights."""

    #: A serialised ModelProto.
    model: bytes
    #: Stored tensors by name: initialisers, and the outputs of Constant nodes.
    stored: dict[str, Stored]


def read_skeleton(source: Source) -> Skeleton:
    """The model in a source without its weights, and where these lie.

    Raises:
        ModelError: the source is no ONNX model, or is truncated or damaged.
    """
    return _Walk(source).model()


class _Walk:
    """One pass over a file. Each method rewrites the message at [start, end) without what is to be skipped."""

    def __init__(self, source: Source) -> None:
        self.window = Window(source)
        self.source = source
        self.stored: dict[str, Stored] = {}
        self.kept = 0

    def keep(self, found: Field) -> bytes:
        """The field as it stands in the source."""
        self.kept += found.end - found.tag
        if self.kept > LARGEST_GRAPH:
            raise ModelError(
                f"{self.source.name}: more than {LARGEST_GRAPH >> 20} MB without the weights; not a model of a network"
            )
        return self.window.bytes(found.tag, found.end)

    def nested(self, number: int, found: Field, rewrite: Callable[[int, int], list[bytes]]) -> bytes:
        """The field with its content rewritten."""
        return message(number, rewrite(found.start, found.end))

    def model(self) -> Skeleton:
        parts: list[bytes] = []
        graphs = 0
        for found in self.window.fields(0, self.source.size):
            if found.number == 7 and found.wire == BYTES:
                graphs += 1
                parts.append(self.nested(7, found, lambda a, b: self.graph(a, b, 0)))
            elif found.number == 25 and found.wire == BYTES:
                parts.append(self.nested(25, found, self.function))
            elif found.number in (1, 2, 3, 4, 5, 8):
                parts.append(self.keep(found))
            elif found.number not in (6, 14, 20, 26):  # text, metadata, training graphs, device configurations
                raise ModelError(f"{self.source.name}: not an ONNX model (field {found.number} at byte {found.tag})")
        if not graphs:
            raise ModelError(f"{self.source.name}: not an ONNX model (it holds no graph)")
        return Skeleton(b"".join(parts), self.stored)

    def graph(self, start: int, end: int, depth: int) -> list[bytes]:
        if depth > DEEPEST:
            raise ModelError(f"{self.source.name}: control flow nests deeper than {DEEPEST}")
        parts: list[bytes] = []
        for found in self.window.fields(start, end):
            number = found.number
            if found.wire != BYTES:
                continue
            if number == 1:
                parts.append(self.node(found, 1, depth))
            elif number == 5:
                parts.append(self.tensor(found, 5))
            elif number == 15:
                parts.append(self.sparse_tensor(found))
            elif number in (2, 11, 12):
                parts.append(self.keep(found))
            elif number == 13:
                parts.append(self.value_info(found))
        return parts

    def function(self, start: int, end: int) -> list[bytes]:
        parts: list[bytes] = []
        for found in self.window.fields(start, end):
            if found.number == 7 and found.wire == BYTES:
                parts.append(self.node(found, 7, 0))
            elif found.number == 11 and found.wire == BYTES:
                parts.append(self.attribute(found, 11, "", 0))
            elif found.number not in (8, 12, 14):
                parts.append(self.keep(found))
        return parts

    def node(self, node: Field, number: int, depth: int) -> bytes:
        if node.end - node.start <= SMALL:
            return self.keep(node)
        parts: list[bytes] = []
        result = ""
        for found in self.window.fields(node.start, node.end):
            if found.number == 5 and found.wire == BYTES:
                parts.append(self.attribute(found, 5, result, depth))
            elif found.number == 9 and found.wire == BYTES:
                parts.extend(self.metadata(found))
            elif found.number in (1, 2, 3, 4, 7, 8):
                parts.append(self.keep(found))
                if found.number == 2 and not result:
                    result = self.text(found)
        return message(number, parts)

    def attribute(self, attribute: Field, number: int, result: str, depth: int) -> bytes:
        """An attribute; ``result`` is the name of the node's first output, under which a tensor in it is stored."""
        if attribute.end - attribute.start <= SMALL:
            return self.keep(attribute)
        parts: list[bytes] = []
        for found in self.window.fields(attribute.start, attribute.end):
            if found.wire == BYTES and found.number in (5, 10):
                parts.append(self.tensor(found, found.number, result))
            elif found.wire == BYTES and found.number in (6, 11):
                parts.append(self.nested(found.number, found, lambda a, b: self.graph(a, b, depth + 1)))
            elif found.number != 13:
                parts.append(self.keep(found))
        return message(number, parts)

    def value_info(self, value: Field) -> bytes:
        if value.end - value.start <= SMALL // 4:
            return self.keep(value)
        parts: list[bytes] = []
        for found in self.window.fields(value.start, value.end):
            if found.number == 4 and found.wire == BYTES:
                parts.extend(self.metadata(found))
            elif found.number in (1, 2):
                parts.append(self.keep(found))
        return message(13, parts)

    def metadata(self, entry: Field) -> list[bytes]:
        """A metadata entry if it is one of those kept, else nothing."""
        for found in self.window.fields(entry.start, entry.end):
            if found.number == 1 and found.wire == BYTES:
                length = found.end - found.start
                if length < 64 and self.window.bytes(found.start, found.end) in METADATA_KEPT:
                    return [self.keep(entry)]
                return []
        return []

    def text(self, found: Field) -> str:
        try:
            return self.window.bytes(found.start, found.end).decode()
        except UnicodeDecodeError:
            raise self.window.damaged(found.start, "a name is not UTF-8") from None

    def tensor(self, tensor: Field, number: int, name: str = "", dims: list[int] | None = None) -> bytes:
        """A tensor without its payload, unless that may steer a shape; ``dims`` replaces the dims of a sparse one."""
        head: list[bytes] = []
        places: list[tuple[int, int, int]] = []
        payload: list[Field] = []
        external: dict[str, str] = {}
        own: list[int] = []
        code = 0
        for found in self.window.fields(tensor.start, tensor.end):
            if found.number in _PAYLOAD:
                if found.wire == BYTES and found.number != 6:
                    places.append((found.number, found.start, found.end))
                payload.append(found)
                continue
            if found.number == 1:
                own.extend(self.dims(found))
            elif found.number == 2 and found.wire == VARINT:
                code = found.value
            elif found.number == 8 and found.wire == BYTES:
                name = self.text(found)
            elif found.number == 13 and found.wire == BYTES:
                external.update([self.external(found)])
            if found.number in (2, 8, 13, 14) or (found.number == 1 and dims is None):
                head.append(self.keep(found))
        if code not in DTYPES:
            raise ModelError(f"{self.source.name}: tensor {name!r} has the unknown element type {code}")
        shape = own if dims is None else dims
        if any(d < 0 for d in shape):
            raise ModelError(f"{self.source.name}: tensor {name!r} has a negative dimension: {shape}")
        elements = math.prod(own)
        self.check_length(name, own, code, places)
        if elements <= (INTEGERS_KEPT if code in INTEGERS else OTHERS_KEPT) and dims is None:
            head.extend(self.keep(f) for f in payload)
        if dims is not None:
            head.extend(number_field(1, d) for d in dims)
        if name:
            self.stored[name] = Stored(name, tuple(shape), DTYPES[code], tuple(places), external)
        return message(number, head)

    def check_length(self, name: str, dims: list[int], code: int, places: list[tuple[int, int, int]]) -> None:
        """Refuse raw data whose length is not what the dims say."""
        raw = [end - start for kind, start, end in places if kind == _RAW]
        expected = (math.prod(dims) * BITS[DTYPES[code]] + 7) // 8
        if raw and code != 8 and raw[-1] != expected:
            raise ModelError(
                f"{self.source.name}: tensor {name!r} of shape {tuple(dims)} and type {DTYPES[code]} takes {expected} "
                f"bytes, but {raw[-1]} are stored"
            )

    def dims(self, found: Field) -> list[int]:
        if found.wire == VARINT:
            return [signed(found.value)]
        try:
            return [signed(v) for v in varints(self.window.bytes(found.start, found.end))]
        except IndexError:
            raise self.window.damaged(found.start, "a number does not end") from None

    def external(self, entry: Field) -> tuple[str, str]:
        texts = {f.number: self.text(f) for f in self.window.fields(entry.start, entry.end) if f.wire == BYTES}
        return texts.get(1, ""), texts.get(2, "")

    def sparse_tensor(self, sparse: Field) -> bytes:
        """A sparse initialiser as a dense one without data: its cost follows its shape."""
        dims: list[int] = []
        values: Field | None = None
        for found in self.window.fields(sparse.start, sparse.end):
            if found.number == 1 and found.wire == BYTES:
                values = found
            elif found.number == 3:
                dims.extend(self.dims(found))
        if values is None:
            raise self.window.damaged(sparse.start, "a sparse tensor without values")
        return self.tensor(values, 5, dims=dims)
