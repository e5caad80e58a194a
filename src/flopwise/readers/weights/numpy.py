"""The arrays in NumPy's files as stored tensors. Nothing is ever unpickled; compressed arrays come in a stream.

Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import functools
import io
import math
import zipfile
from typing import IO, Any

import numpy
from numpy.lib import format as npy

from flopwise.errors import ModelError
from flopwise.graph import StoredTensor
from flopwise.graph.dtypes import BITS
from flopwise.graph.stored import Elements
from flopwise.readers.source.location import shown
from flopwise.readers.source.source import Source
from flopwise.readers.weights.encoding import encoding
from flopwise.readers.weights.storage import ArrayElements, EncodedElements, Runs, SourceStorage, Span, Stream, reading
from flopwise.readers.weights.tensor import StoredTensors, in_slots, parted, role_of
from flopwise.readers.weights.zip import LOCAL, Reading

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}

#: Longest header of an array, in bytes.
LONGEST_HEADER = 1 << 16


def of_npy(source: Source) -> StoredTensors:
    """The array of a .npy file.

    Raises:
        ModelError: the file is damaged, or holds Python objects.
    """
    storage = SourceStorage.of(source)
    name = shown(source.name)
    with reading(name):
        file = Reading(source)
        shape, by_columns, dtype = _header(file, name)  # type: ignore[arg-type] # it reads as one
        place = (file.tell(), file.tell() + _length(shape, dtype))
        if place[1] > source.size:
            raise ModelError(f"{name}: is truncated; an array of shape {shape} takes {place[1] - place[0]:,} bytes")
    array = _tensor("array", shape, by_columns, dtype, Runs(storage, (place,)), name)
    return StoredTensors.of(storage, "npy", [array])


def of_npz(source: Source) -> StoredTensors:
    """The arrays of a .npz archive.

    Raises:
        ModelError: the archive is damaged, or holds Python objects.
    """
    storage = SourceStorage.of(source)
    name = shown(source.name)
    tensors: list[StoredTensor] = []
    names: set[str] = set()
    with reading(name):
        try:
            archive = zipfile.ZipFile(Reading(source))
        except zipfile.BadZipFile as error:
            raise ModelError(f"{name}: no archive of NumPy's, or truncated or damaged ({error})") from None
        for member in archive.infolist():
            if not member.filename.endswith(".npy"):
                continue
            key = member.filename.removesuffix(".npy")
            if key in names:
                raise ModelError(f"{name}: two arrays are named {key[:200]!r}")
            names.add(key)
            what = f"{name}: array {key[:200]!r}"
            with archive.open(member) as stream:
                shape, by_columns, dtype = _header(stream, what)
                head = stream.tell()
            length = _length(shape, dtype)
            if head + length > member.file_size:
                raise ModelError(f"{what}: is truncated; an array of shape {shape} takes {length:,} bytes")
            span: Span
            if member.compress_type == zipfile.ZIP_STORED:
                start = _data(source, member, what) + head
                if start + length > source.size:
                    raise ModelError(f"{what}: is truncated; it ends at byte {start + length:,} of {source.size:,}")
                span = Runs(storage, ((start, start + length),))
            else:
                span = Stream(what, functools.partial(_open, source, member.filename), head, length)
            tensors.append(_tensor(key, shape, by_columns, dtype, span, what))
    return StoredTensors.of(storage, "npz", in_slots(tensors))


def _open(source: Source, member: str) -> IO[bytes]:
    """A member by itself, so that several threads may read members."""
    again = source.later()()
    archive = zipfile.ZipFile(Reading(again))
    stream: IO[bytes] = archive.open(member)
    return stream


def _data(source: Source, member: zipfile.ZipInfo, what: str) -> int:
    """Where the bytes of a member begin that is not compressed."""
    head = source.read(member.header_offset, LOCAL)
    if head[:4] != b"PK\x03\x04" or member.flag_bits & 1 or member.compress_size != member.file_size:
        raise ModelError(f"{what}: its archive is damaged or encrypted")
    skip = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
    return member.header_offset + LOCAL + skip


def _header(file: IO[bytes], what: str) -> tuple[tuple[int, ...], bool, numpy.dtype[Any]]:
    """Shape, order and type of an array.

    Raises:
        ModelError: it holds no plain numbers.
    """
    version = npy.read_magic(file)
    if version not in _HEADERS:
        raise ModelError(f"{what}: is of the unknown format version {version}")
    width = 2 if version == (1, 0) else 4
    front = file.read(width)
    size = int.from_bytes(front, "little")
    if size > LONGEST_HEADER:
        raise ModelError(f"{what}: its header of {size:,} bytes is longer than {LONGEST_HEADER:,}; refused")
    shape, by_columns, dtype = _HEADERS[version](io.BytesIO(front + file.read(size)))
    if dtype.hasobject:
        raise ModelError(f"{what}: holds Python objects, which are never loaded")
    if dtype.names is not None or min(shape, default=0) < 0 or len(shape) > 64 or max(shape, default=0) >= 1 << 63:
        raise ModelError(f"{what}: holds no plain numbers, or has an impossible shape")
    return shape, by_columns, dtype


def _length(shape: tuple[int, ...], dtype: numpy.dtype[Any]) -> int:
    return math.prod(shape) * dtype.itemsize


def _tensor(
    name: str, shape: tuple[int, ...], by_columns: bool, dtype: numpy.dtype[Any], span: Span, what: str
) -> StoredTensor:
    kind = dtype.name if dtype.name in BITS else ""
    order = ">" if dtype.str.startswith(">") else "<"
    stored = encoding(kind, order) if kind else None
    if stored is None:
        raise ModelError(f"{what}: holds elements of type {dtype}, which are no numbers")
    layer = parted(name)[0]
    count = math.prod(shape)
    elements: Elements = EncodedElements(span, stored, count)
    if by_columns and len(shape) > 1:
        elements = ArrayElements(functools.partial(_turned, elements, shape))
    return StoredTensor(name, shape, kind, _length(shape, dtype), layer, role=role_of(name, kind), elements=elements)


def _turned(elements: Elements, shape: tuple[int, ...]) -> Any:
    """An array that is stored column by column."""
    flat = elements.raw()
    if flat is None:
        parts = list(elements.blocks(1 << 18))
        flat = numpy.concatenate(parts) if parts else numpy.empty(0, numpy.float32)
    return flat.reshape(shape, order="F")
