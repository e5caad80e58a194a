"""A .caffemodel by the wire format: names, types, connections, parameters and the shapes of blobs; no payload is read.

Source: https://protobuf.dev/programming-guides/encoding/ and BVLC Caffe, src/caffe/proto/caffe.proto (NetParameter,
LayerParameter, V1LayerParameter, BlobProto).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flopwise.errors import ModelError
from flopwise.formats.caffe.file.message import MOST_AXES, Field, Message, Value, Word
from flopwise.formats.caffe.file.schema import (
    FIRST_PARAM,
    FIRST_PARAM_V1,
    FORKS,
    LAYER,
    LAYER_V1,
    MESSAGES,
    NET,
    FieldType,
    Schema,
)
from flopwise.readers.source import wire
from flopwise.readers.source.source import Source

#: Most fields that are looked at. A network takes some ten thousand, however large its weights.
MOST_FIELDS = 1_000_000

#: Longest text or list of numbers outside of blobs, in bytes.
LONGEST = 1 << 16

#: Field numbers of NetParameter.
_LAYERS_V1, _LAYERS = 2, 100


class Blob(NamedTuple):
    """A stored blob by place."""

    shape: tuple[int, ...]
    #: Where the elements lie in the file, from and to, one run after the other.
    runs: tuple[tuple[int, int], ...]
    #: Type of an element, as NumPy writes it.
    dtype: str
    #: Reads the elements where they do not lie in runs.
    load: Callable[[], Any] | None = None


class Caffemodel(NamedTuple):
    """The content of a file with weights."""

    net: Message
    #: The blobs of each layer, by the layer's name.
    blobs: dict[str, tuple[Blob, ...]]
    #: Layers with parameters that this file gives in a way only a fork understands -> which ones, in words.
    foreign: dict[str, str]
    #: Whether it is an HDF5 file, whose elements h5py finds.
    hdf5: bool = False

    @property
    def shapes(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """The shapes of the blobs of each layer."""
        return {name: tuple(blob.shape for blob in blobs) for name, blobs in self.blobs.items()}


def read_caffemodel(source: Source) -> Caffemodel:
    """The layers of a file with weights.

    Raises:
        ModelError: the file is truncated or damaged, or is no such file.
    """
    return _Walk(source).net()


class _Walk:
    """One way through a file."""

    def __init__(self, source: Source) -> None:
        self.window = wire.Window(source)
        self.name = source.name
        self.blobs: dict[str, tuple[Blob, ...]] = {}
        self.foreign: dict[str, str] = {}
        self._seen = 0

    def net(self) -> Caffemodel:
        fields: list[Field] = []
        for part in self.window.fields(0, self.window.size):
            self._count(part)
            if part.number in (_LAYERS, _LAYERS_V1) and part.wire == wire.BYTES:
                old = part.number == _LAYERS_V1
                fields.append(Field("layers" if old else "layer", self._layer(part, old), 0))
            else:
                self._read(part, NET, fields)
        return Caffemodel(Message(fields), self.blobs, self.foreign)

    def _count(self, part: wire.Field) -> None:
        self._seen += 1
        if self._seen > MOST_FIELDS:
            raise self.window.damaged(part.tag, f"more than {MOST_FIELDS:,} fields, too many for a network")

    def _layer(self, field: wire.Field, old: bool) -> Message:
        """A layer without its blobs, which are noted by its name."""
        schema, blobs_at = (LAYER_V1, 6) if old else (LAYER, 7)
        fields: list[Field] = []
        blobs: list[Blob] = []
        later: list[wire.Field] = []
        strange: list[str] = []
        for part in self.window.fields(field.start, field.end):
            self._count(part)
            if part.number == blobs_at and part.wire == wire.BYTES:
                blobs.append(self._blob(part))
            elif part.number in schema:
                strange += self._read(part, schema, fields, blobs)
            elif part.number >= (FIRST_PARAM_V1 if old else FIRST_PARAM) and part.wire == wire.BYTES:
                later.append(part)
        message = Message(fields)
        kind = message.text("type", "")
        for part in later:  # what these say depends on the type, which may stand behind them
            name = FORKS.get((part.number, kind)) if not old else None
            if name is None:
                strange.append(f"field {part.number}")
            else:
                strange += self._read(part, {part.number: FieldType(name, name)}, fields)
        name = message.text("name", "") or message.merged("layer").text("name", "")
        if blobs or name not in self.blobs:
            self.blobs[name] = tuple(blobs)
        if strange:
            self.foreign[name] = ", ".join(dict.fromkeys(strange[:5]))
        return Message(fields)

    def _read(
        self, part: wire.Field, schema: Schema, fields: list[Field], blobs: list[Blob] | None = None
    ) -> list[str]:
        """Put a field that a schema knows behind the others; the numbers of unknown ones inside it."""
        field = schema.get(part.number)
        if field is None:
            return []
        if field.kind in MESSAGES:
            if part.wire != wire.BYTES:
                raise self._wrong(part, field)
            message, strange = self._message(part, field.kind, blobs)
            fields.append(Field(field.name, message, 0))
            return [f"field {number} of {field.name}" for number in strange]
        fields.extend(Field(field.name, value, 0) for value in self._values(part, field))
        return []

    def _message(self, field: wire.Field, kind: str, blobs: list[Blob] | None) -> tuple[Message, list[int]]:
        """A message, and the numbers of its unknown fields."""
        fields: list[Field] = []
        strange: list[int] = []
        for part in self.window.fields(field.start, field.end):
            self._count(part)
            if part.number in MESSAGES[kind]:
                self._read(part, MESSAGES[kind], fields)
            elif kind == "layer" and part.number == 50 and part.wire == wire.BYTES and blobs is not None:
                blobs.append(self._blob(part))
            else:
                strange.append(part.number)
        return Message(fields), strange

    def _values(self, part: wire.Field, field: FieldType) -> Sequence[Value]:
        """The values of a field: several when they are packed."""
        if part.end - part.start > LONGEST:
            raise self.window.damaged(part.tag, f"{field.name} is {part.end - part.start} bytes long")
        if field.kind == "text":
            if part.wire != wire.BYTES:
                raise self._wrong(part, field)
            return [self.window.bytes(part.start, part.end).decode("utf-8", "backslashreplace")]
        if field.kind == "float":
            if part.wire not in (wire.FIXED32, wire.BYTES) or (part.end - part.start) % 4:
                raise self._wrong(part, field)
            data = self.window.bytes(part.start, part.end)
            return [Word(f"{value:.9g}") for (value,) in struct.iter_unpack("<f", data)]
        return [Word(str(wire.signed(value))) for value in self._integers(part, field)]

    def _integers(self, part: wire.Field, field: FieldType) -> list[int]:
        """The numbers in a field: one, or several that are packed."""
        if part.wire == wire.VARINT:
            return [part.value]
        if part.wire != wire.BYTES or part.end - part.start > LONGEST:
            raise self._wrong(part, field)
        try:
            return wire.varints(self.window.bytes(part.start, part.end))
        except IndexError:
            raise self.window.damaged(part.tag, "a number does not end") from None

    def _wrong(self, part: wire.Field, field: FieldType) -> ModelError:
        return self.window.damaged(part.tag, f"wire type {part.wire} for {field.name}")

    def _blob(self, field: wire.Field) -> Blob:
        """A blob's shape and the places of its elements."""
        shape: list[int] = []
        legacy: dict[int, int] = {}
        runs: dict[int, list[tuple[int, int]]] = {5: [], 8: []}
        for part in self.window.fields(field.start, field.end):
            self._count(part)
            if part.number in (1, 2, 3, 4) and part.wire == wire.VARINT:
                legacy[part.number] = wire.signed(part.value)
            elif part.number == 7 and part.wire == wire.BYTES:
                for dim in self.window.fields(part.start, part.end):
                    self._count(dim)
                    if dim.number == 1:
                        shape += map(wire.signed, self._integers(dim, FieldType("dim")))
            elif part.number in runs and part.wire in (wire.BYTES, wire.FIXED32, wire.FIXED64):
                runs[part.number].append((part.start, part.end))
        if legacy:  # wins over the other form, as in Caffe's Blob::FromProto
            shape = [legacy.get(number, 0) for number in (1, 2, 3, 4)]
        number, width = (8, 8) if runs[8] else (5, 4)
        length = sum(end - start for start, end in runs[number])
        if len(shape) > MOST_AXES or any(not 0 <= dim < 1 << 63 for dim in shape):
            raise self.window.damaged(field.tag, f"a blob of shape {shape[:MOST_AXES]}")
        if runs[number] and length != width * math.prod(shape):
            raise self.window.damaged(field.tag, f"a blob of shape {shape} with {length} bytes of elements")
        return Blob(tuple(shape), tuple(runs[number]), f"<f{width}")
