"""The graph of an ONNX file without its weights: payloads and exporter metadata are skipped by seeking.

What is left, some tens of kilobytes, is a valid ModelProto whose large tensors have dims and a type but no data; where
the data lies is remembered. Field numbers: see :mod:`flopwise.readers.onnx_skeleton`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import onnx
from google.protobuf.message import DecodeError

from flopwise.dtypes import BITS
from flopwise.errors import ModelError
from flopwise.readers.onnx_skeleton import (
    DTYPES,
    INTEGERS_KEPT,
    MOST_DIMS,
    PAYLOAD,
    Place,
    Skeleton,
    Stored,
    kept,
    refuse_impossible,
    tag,
)
from flopwise.readers.source import Source
from flopwise.readers.wire import (
    BYTES,
    VARINT,
    Field,
    Window,
    message,
    number_field,
    read_varint,
    signed,
    varints,
)

#: Messages up to this many bytes are taken whole: looking inside costs more than keeping them.
SMALL = 384

#: The key under which external data says where it lies; what contains it is looked into however small it is.
LOCATION = b"location"

#: What may be left after skipping, in bytes; a graph without weights that is larger is no model of a neural network.
LARGEST_GRAPH = 32 << 20

#: Tags in the head of a usual tensor: dims one by one or packed, type, name. The raw data comes last.
_HEAD: frozenset[int] = frozenset({1 << 3 | VARINT, 1 << 3 | BYTES, 2 << 3 | VARINT, 8 << 3 | BYTES})
_RAW = 9

#: What a field costs in memory beside its bytes, so that millions of empty ones are too large as well.
FIELD_COST = 64

#: How deep control flow may nest.
DEEPEST = 32

#: Metadata of nodes and values that says something about modules and parameters; all other metadata is skipped.
METADATA_KEPT: frozenset[bytes] = frozenset(
    {
        b"pkg.torch.onnx.name_scopes",
        b"pkg.torch.onnx.class_hierarchy",
        b"pkg.torch.export.graph_signature.InputSpec.kind",
        b"pkg.onnxscript.optimizer.folded_from",
        b"pkg.torch.export.ExportedProgram.graph_signature",
    }
)


def read_skeleton(source: Source) -> Skeleton:
    """The model in a source without its weights, and where these lie.

    Raises:
        ModelError: the source is no ONNX model, or is truncated or damaged.
    """
    return _Walk(source).model()


@dataclass
class _Tensor:
    """A tensor taken apart: its head (all but the elements) as fields, and where the elements lie."""

    name: str = ""
    code: int = 0
    dims: list[int] = field(default_factory=list)
    head: list[bytes] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    #: The fields that hold elements, as far as they may be kept.
    payload: list[Field] = field(default_factory=list)
    external: dict[str, str] = field(default_factory=dict)

    def stored(self) -> Stored:
        return Stored(self.name, tuple(self.dims), DTYPES[self.code], tuple(self.places), self.external)


class _Walk:
    """One pass over a file. Each method rewrites the message at [start, end) without what is to be skipped."""

    def __init__(self, source: Source) -> None:
        self.window = Window(source)
        self.source = source
        self.initializers: dict[str, Stored] = {}
        self.inner: dict[str, Stored] = {}
        self.kept = 0

    def keep(self, found: Field) -> bytes:
        """The field as it stands in the source."""
        self.kept += found.end - found.tag + FIELD_COST
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
            number, wire = found.number, found.wire
            if number == 7 and wire == BYTES:
                graphs += 1
                parts.append(self.nested(7, found, lambda a, b: self.graph(a, b, 0)))
            elif number == 25 and wire == BYTES:
                parts.append(self.nested(25, found, self.function))
            elif wire == (VARINT if number in (1, 5) else BYTES) and number in (1, 2, 3, 4, 5, 8):
                parts.append(self.keep(found))
            elif number not in (6, 14, 20) and number < 26:  # text, metadata, training graphs; and later additions
                raise ModelError(f"{self.source.name}: not an ONNX model (field {number} at byte {found.tag})")
        if not graphs:
            raise ModelError(f"{self.source.name}: not an ONNX model (it holds no graph)")
        return Skeleton(b"".join(parts), self.initializers, self.inner)

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
                parts.append(self.initializer(found, depth))
            elif number == 15:
                parts.append(self.sparse_initializer(found, depth))
            elif number in (2, 11, 12):
                parts.append(self.keep(found))
            elif number == 13:
                parts.append(self.value_info(found))
            elif number == 16:
                parts.extend(self.metadata(found))
        return parts

    def function(self, start: int, end: int) -> list[bytes]:
        parts: list[bytes] = []
        for found in self.window.fields(start, end):
            if found.number == 7 and found.wire == BYTES:
                parts.append(self.node(found, 7, 0))
            elif found.number == 11 and found.wire == BYTES:
                parts.append(self.attribute(found, 11, 0))
            elif found.number not in (8, 12, 14):
                parts.append(self.keep(found))
        return parts

    def node(self, node: Field, number: int, depth: int) -> bytes:
        if node.end - node.start <= SMALL and LOCATION not in (whole := self.keep(node)):
            return whole
        parts: list[bytes] = []
        for found in self.window.fields(node.start, node.end):
            if found.number == 5 and found.wire == BYTES:
                parts.append(self.attribute(found, 5, depth))
            elif found.number == 9 and found.wire == BYTES:
                parts.extend(self.metadata(found))
            elif found.number in (1, 2, 3, 4, 7, 8):
                parts.append(self.keep(found))
        return message(number, parts)

    def attribute(self, attribute: Field, number: int, depth: int) -> bytes:
        if attribute.end - attribute.start <= SMALL and LOCATION not in (whole := self.keep(attribute)):
            return whole
        parts: list[bytes] = []
        for found in self.window.fields(attribute.start, attribute.end):
            if found.wire == BYTES and found.number in (5, 10):
                parts.append(self.tensor(found, found.number))
            elif found.wire == BYTES and found.number in (6, 11):
                parts.append(self.nested(found.number, found, lambda a, b: self.graph(a, b, depth + 1)))
            elif found.wire == BYTES and found.number in (22, 23):
                parts.append(self.sparse_tensor(found, found.number))
            elif found.number in (7, 8):
                return self.keep(attribute)  # a list of numbers, one field each: nothing to skip
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
        head = self.window.bytes(entry.start, min(entry.end, entry.start + 64))
        if len(head) > 2 and head[0] == 1 << 3 | BYTES and head[1] < len(head) - 1:  # a short key comes first, as usual
            return [self.keep(entry)] if head[2 : 2 + head[1]] in METADATA_KEPT else []
        for found in self.window.fields(entry.start, entry.end):
            if found.number == 1 and found.wire == BYTES:
                short = found.end - found.start < 64
                kept_key = short and self.window.bytes(found.start, found.end) in METADATA_KEPT
                return [self.keep(entry)] if kept_key else []
        return []

    def initializer(self, found: Field, depth: int) -> bytes:
        if found.end - found.start <= SMALL and (whole := self.small_tensor(found)):
            self.remember(whole, depth)
            return self.keep(found)
        if usual := self.usual_tensor(found):
            stored, head = usual
            self.remember(stored, depth)
            return message(5, [head])
        tensor = self.take_apart(found)
        self.remember(tensor.stored(), depth)
        return message(5, tensor.head + self.small_payload(tensor))

    def sparse_initializer(self, sparse: Field, depth: int) -> bytes:
        """A sparse initialiser as a dense one without data: its cost follows its shape."""
        dims, values, indices, _ = self.sparse(sparse)
        refuse_impossible(self.source.name, values.name, values.code, dims)
        stored = replace(values.stored(), dims=tuple(dims), places=(), sparse=(values.stored(), indices.stored()))
        self.remember(stored, depth)
        head = [message(8, [values.name.encode()]), number_field(2, values.code)]
        return message(5, head + [number_field(1, d) for d in dims])

    def remember(self, stored: Stored, depth: int) -> None:
        """Write down where an initialiser lies; names in the body of a control flow are its own."""
        if depth == 0:
            self.initializers[stored.name] = stored
        else:
            self.inner[tag(len(self.inner))] = stored

    def tensor(self, found: Field, number: int) -> bytes:
        """A tensor in an attribute; when its elements are left out, it gets a name by which they are found again."""
        tensor = self.take_apart(found)
        payload = self.small_payload(tensor)
        if not payload:
            name = tag(len(self.inner))
            self.inner[name] = tensor.stored()
            payload = [message(8, [name.encode()])]
        return message(number, tensor.head + payload)

    def sparse_tensor(self, found: Field, number: int) -> bytes:
        """A sparse tensor in an attribute, without its values and indices."""
        dims, values, indices, parts = self.sparse(found)
        name = tag(len(self.inner))
        self.inner[name] = replace(
            values.stored(), dims=tuple(dims), places=(), sparse=(values.stored(), indices.stored())
        )
        head = [*values.head, message(8, [name.encode()])]
        return message(number, [message(1, head), message(2, indices.head), *parts])

    def sparse(self, sparse: Field) -> tuple[list[int], _Tensor, _Tensor, list[bytes]]:
        """Dims, values and indices of a sparse tensor, and the fields that hold the dims."""
        dims: list[int] = []
        parts: list[bytes] = []
        tensors: dict[int, _Tensor] = {}
        for found in self.window.fields(sparse.start, sparse.end):
            if found.number in (1, 2) and found.wire == BYTES:
                tensors[found.number] = self.take_apart(found)
            elif found.number == 3:
                parts.append(self.keep(found))
                dims.extend(self.dims(found))
        if len(tensors) < 2:
            raise self.window.damaged(sparse.start, "a sparse tensor without values or indices")
        return dims, tensors[1], tensors[2], parts

    def small_tensor(self, found: Field) -> Stored | None:
        """A tensor whose elements stay, read at once by protobuf, which is faster; None for any other."""
        try:
            tensor = onnx.TensorProto.FromString(self.window.bytes(found.start, found.end))
        except DecodeError:
            raise self.window.damaged(found.start, "no tensor") from None
        code, dims, name = tensor.data_type, tuple(tensor.dims), tensor.name
        if code not in DTYPES or min(dims, default=0) < 0 or not kept(code, dims) or tensor.external_data:
            return None
        raw = tensor.raw_data
        if not isinstance(name, str) or (raw and len(raw) * 8 != math.prod(dims) * BITS[DTYPES[code]]):
            return None
        return Stored(name, dims, DTYPES[code], proto=tensor)

    def usual_tensor(self, found: Field) -> tuple[Stored, bytes] | None:
        """A tensor of dims, type, name and raw data in this order, and its head, read at once by protobuf.

        None for a tensor in any other form, and for one whose elements stay.
        """
        head = self.window.peek(found.start, min(found.end, found.start + SMALL))
        place = _raw_data(head, found)
        if place is None:
            return None
        head = head[: place[0]]
        tensor = onnx.TensorProto.FromString(head)
        code, dims, name = tensor.data_type, tuple(tensor.dims), tensor.name
        if code not in DTYPES or not isinstance(name, str) or kept(code, dims):
            return None
        places = (Place(_RAW, place[1], found.end),)
        refuse_impossible(self.source.name, name, code, dims, places)
        self.kept += len(head) + FIELD_COST
        return Stored(name, dims, DTYPES[code], places), head

    def take_apart(self, found: Field) -> _Tensor:
        """A tensor by its fields, no element read.

        Raises:
            ModelError: it cannot exist.
        """
        tensor = _Tensor()
        for part in self.window.fields(found.start, found.end):
            number = part.number
            if number in PAYLOAD:
                _add_place(tensor.places, part)
                if len(tensor.payload) <= INTEGERS_KEPT:
                    tensor.payload.append(part)
                continue
            if number not in (1, 2, 8, 13, 14):
                continue
            tensor.head.append(self.keep(part))
            if number == 1:
                if len(tensor.dims) <= MOST_DIMS:  # more are refused below
                    tensor.dims.extend(self.dims(part))
            elif number == 2 and part.wire == VARINT:
                tensor.code = part.value
            elif number == 8 and part.wire == BYTES:
                tensor.name = self.text(part)
            elif number == 13 and part.wire == BYTES:
                tensor.external.update([self.external(part)])
        refuse_impossible(self.source.name, tensor.name, tensor.code, tensor.dims, tensor.places)
        return tensor

    def small_payload(self, tensor: _Tensor) -> list[bytes]:
        """The fields with the elements if they may steer shapes, else nothing."""
        return [self.keep(f) for f in tensor.payload] if kept(tensor.code, tensor.dims) else []

    def dims(self, found: Field) -> list[int]:
        if found.wire == VARINT:
            return [signed(found.value)]
        if found.end - found.start > 10 * MOST_DIMS:
            raise self.window.damaged(found.start, f"more than {MOST_DIMS} dimensions")
        try:
            return [signed(v) for v in varints(self.window.bytes(found.start, found.end))]
        except IndexError:
            raise self.window.damaged(found.start, "a number does not end") from None

    def text(self, found: Field) -> str:
        try:
            return self.window.bytes(found.start, found.end).decode()
        except UnicodeDecodeError:
            raise self.window.damaged(found.start, "a name is not UTF-8") from None

    def external(self, entry: Field) -> tuple[str, str]:
        texts = {f.number: self.text(f) for f in self.window.fields(entry.start, entry.end) if f.wire == BYTES}
        return texts.get(1, ""), texts.get(2, "")


def _raw_data(head: bytes, found: Field) -> tuple[int, int] | None:
    """Where the head of a usual tensor ends, from its start, and where its raw data begins; None for any other."""
    at = 0
    try:
        while (key := head[at]) in _HEAD:
            value, at = read_varint(head, at + 1)
            at += value if key & 7 == BYTES else 0
        length, first = read_varint(head, at + 1)
    except IndexError:
        return None
    start = found.start + first
    return (at, start) if key == _RAW << 3 | BYTES and start + length == found.end else None


def _add_place(places: list[Place], part: Field) -> None:
    """Write down where elements lie. Elements that are fields of their own go together as long as they touch."""
    if part.wire == BYTES and part.number != 6:
        places.append(Place(part.number, part.start, part.end))
    elif places and places[-1].whole and places[-1].end == part.tag:
        places[-1] = places[-1]._replace(end=part.end)
    else:
        places.append(Place(part.number, part.tag, part.end, whole=True))
