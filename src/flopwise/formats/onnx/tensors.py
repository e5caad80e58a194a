"""Tensors in the bytes of an ONNX file: taken apart without reading their elements."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import NamedTuple

from flopwise.errors import ModelError
from flopwise.formats.kit.program import entry_of
from flopwise.formats.kit.tensors import (
    INTEGERS_KEPT,
    MOST_DIMS,
    PAYLOAD,
    RAW,
    Place,
    Stored,
    kept,
    refuse_impossible,
)
from flopwise.formats.kit.tensors import payload as elements_of
from flopwise.formats.sources.source import Source
from flopwise.formats.sources.wire import BYTES, VARINT, Field, Window, fields, signed, varint, varints
from flopwise.graph.dtypes import BITS, DTYPES

#: Messages up to this many bytes are taken whole: looking inside costs more than keeping them.
SMALL = 384

#: What may be left after skipping, in bytes, unless the user says otherwise: millions of operators.
LARGEST_GRAPH = 512 << 20

#: A usual tensor up to its name: dims one by one or packed, type, and the length of the name.
_HEAD = re.compile(rb"((?:(?:\x08[\x80-\xff]*[\0-\x7f])*|\n(?:[\x80-\xff]*[\0-\x7f])+?)\x10[\0-\x7f])B([\0-\x7f])")

#: The tag of raw data, which comes last.
_RAW_DATA = bytes([RAW << 3 | BYTES])

#: What a field costs in memory beside its bytes, so that millions of empty ones are too large as well.
FIELD_COST = 64

#: No external data.
_NOTHING: dict[str, str] = {}


class Tensor:
    """A tensor taken apart: its head (all but the elements) as fields, and where the elements lie."""

    def __init__(self) -> None:
        self.name = ""
        self.code = 0
        self.dims: list[int] = []
        self.head: list[bytes] = []
        self.places: list[Place] = []
        #: The fields that hold elements, as far as they may be kept.
        self.payload: list[Field] = []
        self.external: dict[str, str] = {}

    def stored(self) -> Stored:
        return Stored(self.name, tuple(self.dims), DTYPES[self.code], tuple(self.places), self.external)

    def with_elements(self, payload: list[bytes]) -> Stored:
        """The tensor with its elements, unless these lie elsewhere; ``payload`` are their fields if they are kept."""
        stored = self.stored()
        if not payload or self.external:
            return stored
        return replace(stored, payload=elements_of(b"".join(payload), stored.dtype))


class TensorWalk:
    """The part of a walk over a file that knows tensors, and counts what is kept."""

    def __init__(self, source: Source, largest: int | None = None) -> None:
        """
        Args:
            source: the file.
            largest: bytes that may be kept; None: LARGEST_GRAPH.
        """
        self.window = Window(source)
        self.source = source
        self.largest = LARGEST_GRAPH if largest is None else largest
        self.kept = 0
        #: What the heads so far say: models of a million tensors have some hundred.
        self.heads: dict[bytes, tuple[tuple[int, ...], str, int, bytes, bool] | None] = {}

    def keep(self, field: Field) -> bytes:
        """The field as it stands in the source."""
        self.charge(field.end - field.tag)
        return self.window.bytes(field.tag, field.end)

    def charge(self, length: int) -> None:
        """Count the bytes of a field that is kept.

        Raises:
            ModelError: too much is kept.
        """
        self.kept += length + FIELD_COST
        if self.kept > self.largest:
            raise ModelError(
                f"{self.source.name}: the graph takes more than {self.largest >> 20:,} MB without the weights; "
                f"allow more with --largest-graph MB (largest_graph, in bytes)"
            )

    def sparse(self, sparse: Field) -> tuple[list[int], Tensor, Tensor, list[bytes]]:
        """Dims, values and indices of a sparse tensor, and the fields that hold the dims."""
        dims: list[int] = []
        parts: list[bytes] = []
        tensors: dict[int, Tensor] = {}
        for field in self.window.fields(sparse.start, sparse.end):
            if field.number in (1, 2) and field.wire == BYTES:
                tensors[field.number] = self.take_apart(field)
            elif field.number == 3 and field.wire in (VARINT, BYTES):
                parts.append(self.keep(field))
                dims.extend(self.dims(field))
        if len(tensors) < 2:
            raise self.window.damaged(sparse.start, "a sparse tensor without values or indices")
        return dims, tensors[1], tensors[2], parts

    def small_tensor(self, field: Field) -> Stored | None:
        """A tensor whose elements stay, read at once; None for any other."""
        data = self.window.bytes(field.start, field.end)
        try:
            parts = head_of(data)
        except ModelError as error:
            raise self.window.damaged(field.start, f"no tensor: {error}") from None
        if not parts.possible or not kept(parts.code, parts.dims) or parts.external:
            return None
        if parts.raw is not None and parts.raw * 8 != math.prod(parts.dims) * BITS[DTYPES[parts.code]]:
            return None
        dtype = DTYPES[parts.code]
        return Stored(parts.name, parts.dims, dtype, payload=elements_of(data, dtype))

    def usual_tensor(self, field: Field) -> tuple[Stored, bytes] | None:
        """A tensor of dims, type, name and raw data in this order, as exporters write it, and what is kept of it.

        None for a tensor in any other form, and where too little of it has been read yet.
        """
        first = field.start
        data = self.window.peek(first, min(field.end, first + SMALL))
        match = _HEAD.match(data)
        if match is None:
            return None
        head, length = match.groups()
        if head not in self.heads:
            self.heads[head] = _facts(head)
        facts = self.heads[head]
        if facts is None:
            return None
        dims, dtype, nbytes, raw, whole = facts
        name = match.end()
        end = name + length[0]
        start = end + len(raw)
        if data[end:start] != raw or first + start + nbytes != field.end:
            return None
        try:
            text = data[name:end].decode()
        except UnicodeDecodeError:
            return None
        if whole:
            if len(data) < field.end - first:  # it is long, or not all of it has been read yet
                return None
            end = len(data)
        self.charge(end)
        payload = data[start:] if whole else b""
        return Stored(text, dims, dtype, first + start, _NOTHING, None, payload), data[:end]

    def take_apart(self, field: Field) -> Tensor:
        """A tensor by its fields, no element read.

        Raises:
            ModelError: it cannot exist.
        """
        tensor = Tensor()
        for part in self.window.fields(field.start, field.end):
            number = part.number
            if number in PAYLOAD:
                _add_place(tensor.places, part)
                if len(tensor.payload) <= INTEGERS_KEPT:
                    tensor.payload.append(part)
                continue
            if number not in (1, 2, 8, 13, 14):
                continue
            tensor.head.append(self.keep(part))
            if number == 1 and part.wire in (VARINT, BYTES):
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

    def small_payload(self, tensor: Tensor) -> list[bytes]:
        """The fields with the elements if they may steer shapes, else nothing."""
        return [self.keep(f) for f in tensor.payload] if kept(tensor.code, tensor.dims) else []

    def dims(self, field: Field) -> list[int]:
        if field.wire == VARINT:
            return [signed(field.value)]
        if field.end - field.start > 10 * MOST_DIMS:
            raise self.window.damaged(field.start, f"more than {MOST_DIMS} dimensions")
        return [signed(v) for v in varints(self.window.bytes(field.start, field.end))]

    def text(self, field: Field) -> str:
        try:
            return self.window.bytes(field.start, field.end).decode()
        except UnicodeDecodeError:
            raise self.window.damaged(field.start, "a name is not UTF-8") from None

    def external(self, entry: Field) -> tuple[str, str]:
        texts = {f.number: self.text(f) for f in self.window.fields(entry.start, entry.end) if f.wire == BYTES}
        return texts.get(1, ""), texts.get(2, "")


class Head(NamedTuple):
    """A tensor but for its elements."""

    name: str
    #: Its element type.
    code: int
    dims: tuple[int, ...]
    #: Its documentation, in which the walk leaves marks.
    mark: str
    #: Where its elements lie, if they are in another file.
    external: dict[str, str]
    #: Whether there are elements.
    payload: bool
    #: Bytes of raw data; None where there is none.
    raw: int | None

    @property
    def possible(self) -> bool:
        """True if such a tensor can exist: a known element type, and not too many dims, none of them negative."""
        return self.code in DTYPES and len(self.dims) <= MOST_DIMS and min(self.dims, default=0) >= 0


def head_of(data: bytes) -> Head:
    """A serialised tensor but for its elements.

    Raises:
        ModelError: it is damaged.
    """
    code, payload, raw = 0, False, None
    texts = {8: "", 12: ""}
    dims: list[int] = []
    external: dict[str, str] = {}
    for tag, start, end in fields(data):
        number, wire = tag >> 3, tag & 7
        if number == 1 and wire == VARINT:
            dims.append(signed(start))
        elif number == 1 and wire == BYTES:
            dims.extend(map(signed, varints(data[start:end])))
        elif number == 2 and wire == VARINT:
            code = start
        elif number in texts and wire == BYTES:
            texts[number] = text_of(data[start:end]) if number == 8 else data[start:end].decode("utf-8", "replace")
        elif number == 13 and wire == BYTES:
            external.update([entry_of(data[start:end])])
        elif number == RAW and wire == BYTES:
            raw = end - start
        payload = payload or number in PAYLOAD
    return Head(texts[8], code, tuple(dims), texts[12], external, payload, raw)


def text_of(data: bytes) -> str:
    """A name.

    Raises:
        ModelError: it is no text.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ModelError("a name is not UTF-8; the file is damaged") from None


def _facts(head: bytes) -> tuple[tuple[int, ...], str, int, bytes, bool] | None:
    """Dims, element type and bytes of the elements of a tensor, what is before these, and whether they stay.

    None where there is no such tensor, or it is one of texts.
    """
    try:
        tensor = head_of(head)
    except ModelError:
        return None
    dtype = DTYPES.get(tensor.code, "string")
    if dtype == "string" or not tensor.possible:
        return None
    nbytes = (math.prod(tensor.dims) * BITS[dtype] + 7) // 8
    return tensor.dims, dtype, nbytes, _RAW_DATA + varint(nbytes), kept(tensor.code, tensor.dims)


def _add_place(places: list[Place], part: Field) -> None:
    """Write down where elements lie. Elements that are fields of their own go together as long as they touch."""
    if part.wire == BYTES and part.number != 6:
        places.append(Place(part.number, part.start, part.end))
    elif places and places[-1].whole and places[-1].end == part.tag:
        places[-1] = places[-1]._replace(end=part.end)
    else:
        places.append(Place(part.number, part.tag, part.end, whole=True))
