"""GGUF files: names, types, shapes and places of the tensors from the header; no element is read.

What is stored in blocks is dequantised by the ``gguf`` package; the header needs no package.

Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, and for the blocks ggml/src/ggml-common.h.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import NamedTuple

from flopwise._limits import within_limit
from flopwise.errors import ModelError
from flopwise.formats.sources.source import Source
from flopwise.formats.weights.storage import Runs, SourceStorage
from flopwise.formats.weights.tensor import EncodedElements, Encoding, StoredTensors, encoding, in_slots, said_by_name
from flopwise.graph import StoredTensor
from flopwise.graph.dtypes import TYPES, Type
from flopwise.graph.stored import Array

MAGIC = b"GGUF"

#: Metadata type -> bytes of a value; strings (8) and arrays (9) have none.
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY, _UINT32 = 8, 9, 4

#: The least that an entry of the metadata, a tensor, and a text take, in bytes.
_LEAST_ENTRY, _LEAST_TENSOR, _LEAST_TEXT = 13, 24, 8

#: Longest name of a tensor or of an entry; the format allows 64 and 65,535.
LONGEST_NAME = 1 << 16

#: How deep arrays may nest, and how many dimensions a tensor may have (ggml has 4).
DEEPEST, MOST_DIMS = 4, 8

#: Bytes read at a time.
READ = 1 << 16


class Entry(NamedTuple):
    """A tensor of a file by place: its elements lie at [start, end)."""

    name: str
    type: Type
    shape: tuple[int, ...]
    start: int
    end: int


def open_gguf(source: Source) -> StoredTensors:
    """The tensors of a file.

    Raises:
        ModelError: as for ``read_header``.
    """
    entries = read_header(source)
    storage = SourceStorage.from_source(source)
    tensors = []
    for entry in entries:
        runs = Runs(storage, ((entry.start, entry.end),))
        elements = EncodedElements(runs, encoding_of(entry.type), math.prod(entry.shape))
        dtype, nbytes = entry.type.name, entry.end - entry.start
        facts = said_by_name(entry.name, dtype)
        tensors.append(StoredTensor(entry.name, entry.shape, dtype, nbytes, elements=elements, **facts))
    return StoredTensors.from_file(storage, "gguf", in_slots(tensors))


def read_header(source: Source) -> list[Entry]:
    """The tensors of a file, in the order in which it lists them. The dimension that varies fastest comes last.

    Raises:
        ModelError: the file is not a GGUF file, is truncated or damaged, or has a header that cannot be right.
    """
    cursor, tensors, entries = begun(source)
    alignment = 32
    for key, kind in cursor.metadata(entries):
        if key == "general.alignment" and kind == _UINT32:
            alignment = cursor.number("I")
    if alignment == 0 or alignment & (alignment - 1):
        raise ModelError(f"{source.name}: an alignment of {alignment} bytes is not a power of 2")
    listed = [_next_entry(cursor) for _ in range(tensors)]
    data = -(-cursor.position // alignment) * alignment
    return _with_places(listed, data, alignment, source)


def begun(source: Source) -> tuple[Cursor, int, int]:
    """A place behind the beginning of a file, and how many tensors and how many entries of metadata it has."""
    cursor = Cursor(source)
    if cursor.take(4) != MAGIC:
        raise ModelError(f"{source.name}: not a GGUF file")
    version = cursor.number("I")
    if version & 0xFFFF == 0:  # the low bytes come last: a file for the other byte order
        raise ModelError(f"{source.name}: a big-endian GGUF file; convert it first")
    if version not in (2, 3):
        raise ModelError(f"{source.name}: GGUF version {version} is unknown (2 and 3 are)")
    tensors, entries = cursor.number("Q"), cursor.number("Q")
    cursor.expect(tensors, _LEAST_TENSOR, "tensors")
    cursor.expect(entries, _LEAST_ENTRY, "entries of metadata")
    return cursor, tensors, entries


def architecture_of(source: Source) -> str | None:
    """The architecture that a file names, where its metadata also say how many layers the model has; else None.

    Only as much of the header is read as it takes.

    Raises:
        ModelError: the file is no GGUF file, or its header is damaged.
    """
    cursor, _, entries = begun(source)
    architecture, keys = "", set()
    for key, kind in cursor.metadata(entries):
        keys.add(key)
        if key == "general.architecture" and kind == _STRING:
            architecture = cursor.text("an architecture")
        if architecture and f"{architecture}.block_count" in keys:
            return architecture
    return None


def _next_entry(cursor: Cursor) -> Entry:
    """The next tensor of the list, its place counted from where the elements begin."""
    name = cursor.text("the name of a tensor")
    what = f"{cursor.source.name}: tensor {name[:200]!r}"
    rank = cursor.number("I")
    if rank > MOST_DIMS:
        raise ModelError(f"{what}: has {rank:,} dimensions; at most {MOST_DIMS} are possible")
    shape = tuple(cursor.number("Q") for _ in range(rank))[::-1]
    code, offset = cursor.number("I"), cursor.number("Q")
    if code not in TYPES:
        raise ModelError(f"{what}: has the unknown type {code}")
    if any(dim >= 1 << 63 for dim in shape):
        raise ModelError(f"{what}: has the impossible shape {shape}")
    kind = TYPES[code]
    if kind.elements > 1 and (not shape or shape[-1] % kind.elements):
        raise ModelError(f"{what}: rows of {shape[-1] if shape else 1} elements are not whole blocks of {kind.name}")
    return Entry(name, kind, shape, offset, offset + _length(kind, shape))


def _with_places(listed: list[Entry], data: int, alignment: int, source: Source) -> list[Entry]:
    """The tensors with their places.

    Raises:
        ModelError: two have the same name or overlap, or one lies outside the file.
    """
    entries = [one._replace(start=data + one.start, end=data + one.end) for one in listed]
    names: set[str] = set()
    for one in entries:
        if one.name in names:
            raise ModelError(f"{source.name}: two tensors are named {one.name[:200]!r}")
        names.add(one.name)
        if (one.start - data) % alignment:
            raise ModelError(f"{source.name}: tensor {one.name[:200]!r} does not begin at a multiple of {alignment}")
        if one.end > source.size:
            raise ModelError(
                f"{source.name}: truncated: tensor {one.name[:200]!r} ends at byte {one.end:,}, "
                f"but the file has {source.size:,}"
            )
    before: Entry | None = None
    for one in sorted((e for e in entries if e.end > e.start), key=lambda e: e.start):
        if before is not None and one.start < before.end:
            raise ModelError(f"{source.name}: tensors {before.name[:200]!r} and {one.name[:200]!r} overlap")
        before = one
    return entries


def _length(kind: Type, shape: tuple[int, ...]) -> int:
    stored = encoding_of(kind)
    return math.prod(shape) // stored.elements * stored.nbytes


class Cursor:
    """A position in a GGUF header, from which little-endian numbers and texts are read one after the other.

    Reading and skipping raise ModelError where the file ends before.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._start = 0
        self._at = 0
        self._buffer = b""

    @property
    def position(self) -> int:
        return self._start + self._at

    def take(self, length: int) -> bytes:
        """The next ``length`` bytes."""
        if self._at + length > len(self._buffer):
            self._fill(length)
        data = self._buffer[self._at : self._at + length]
        self._at += length
        return data

    def _fill(self, length: int) -> None:
        here = self.position
        if here + length > self.source.size:
            raise ModelError(f"{self.source.name}: its header is truncated (at byte {here:,})")
        within_limit("header_bytes", here + length, f"{self.source.name}: its header has")
        self._buffer = self.source.read(here, min(max(length, READ), self.source.size - here))
        self._start, self._at = here, 0

    def skip(self, length: int) -> None:
        """Move on by ``length`` bytes without reading them; ModelError beyond the end of the file."""
        if self._at + length <= len(self._buffer):
            self._at += length
            return
        here = self.position + length
        if here > self.source.size:
            raise ModelError(f"{self.source.name}: its header is truncated (at byte {self.position:,})")
        self._start, self._at, self._buffer = here, 0, b""

    def number(self, kind: str) -> int:
        """The next unsigned integer; its ``kind`` is "I" (4 bytes) or "Q" (8 bytes)."""
        value: int = struct.unpack("<" + kind, self.take(4 if kind == "I" else 8))[0]
        return value

    def text(self, what: str) -> str:
        """The next text: its length in bytes as 8 bytes, then UTF-8; ``what`` names it in errors."""
        length = self.number("Q")
        if length > LONGEST_NAME:
            raise ModelError(f"{self.source.name}: damaged: {what} has {length:,} bytes (at byte {self.position:,})")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            raise ModelError(f"{self.source.name}: damaged: {what} is not UTF-8 (at byte {self.position:,})") from None

    def expect(self, count: int, least: int, what: str) -> None:
        """Refuse a number of things for which the remaining file has no room.

        Raises:
            ModelError: it has not.
        """
        if count * least > self.source.size - self.position:
            raise ModelError(
                f"{self.source.name}: truncated or damaged: {count:,} {what} do not fit into {self.source.size:,} bytes"
            )

    def metadata(self, entries: int) -> Iterator[tuple[str, int]]:
        """The keys of the metadata and the types of their values; a value that is not taken is passed over."""
        for _ in range(entries):
            key, kind = self.text("a key"), self.number("I")
            here = self.position
            yield key, kind
            if self.position == here:
                self.skip_value(kind, 0)

    def skip_value(self, kind: int, depth: int) -> None:
        """Pass over a value of the metadata."""
        if kind in _WIDTHS:
            self.skip(_WIDTHS[kind])
        elif kind == _STRING:
            self.skip(self.number("Q"))
        elif kind == _ARRAY and depth < DEEPEST:
            inner, count = self.number("I"), self.number("Q")
            self.expect(count, _WIDTHS.get(inner, _LEAST_TEXT), "values")
            if inner in _WIDTHS:
                self.skip(count * _WIDTHS[inner])
            else:
                for _ in range(count):
                    self.skip_value(inner, depth + 1)
        else:
            raise ModelError(f"{self.source.name}: damaged: metadata of type {kind} (at byte {self.position:,})")


def encoding_of(kind: Type) -> Encoding:
    """The encoding of tensors of a type; blocks of weights become float32."""
    if not kind.nbytes:
        stored = encoding(kind.name)
        assert stored is not None
        return stored
    return Encoding(kind.elements, kind.nbytes, lambda data: _dequantised(data, kind), made_by=(encoding_of, (kind,)))


def _dequantised(data: Array, kind: Type) -> Array:
    """The numbers in blocks.

    Raises:
        ModelError: the package is missing, or knows no such blocks.
    """
    try:
        from gguf import GGMLQuantizationType, quants
    except ImportError:
        raise ModelError(
            f"blocks of type {kind.name} are dequantised by the gguf package: pip install 'flopwise[gguf]'"
        ) from None
    try:
        weights = quants.dequantize(data, GGMLQuantizationType[kind.name.upper()])
    except (KeyError, NotImplementedError):
        raise ModelError(f"the gguf package cannot dequantise blocks of type {kind.name}") from None
    import numpy

    return numpy.ascontiguousarray(weights, numpy.float32).reshape(-1)
