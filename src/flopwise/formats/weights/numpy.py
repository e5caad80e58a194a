"""The arrays in NumPy's files as stored tensors. Nothing is ever unpickled; compressed arrays come in a stream.

Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import functools
import io
import math
import warnings
import zipfile
from typing import Any

from numpy.lib import format as npy

from flopwise._limits import within_unpacking
from flopwise.errors import ModelError
from flopwise.formats.sources.location import shown
from flopwise.formats.sources.source import Source
from flopwise.formats.weights.storage import Archive, Reading, Runs, SourceStorage, Span, Stream, reading
from flopwise.formats.weights.tensor import (
    ArrayElements,
    EncodedElements,
    StoredTensors,
    concatenated,
    encoding,
    in_slots,
    parted,
    role_of,
)
from flopwise.graph import StoredTensor
from flopwise.graph.dtypes import BITS
from flopwise.graph.stored import DType, Elements

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}

#: Bytes that hold the header of nearly every array, and those of the longest.
HEAD = 256
LONGEST_HEADER = 1 << 16


def open_npy(source: Source) -> StoredTensors:
    """The array of a .npy file.

    Raises:
        ModelError: the file is damaged, or holds Python objects.
    """
    storage = SourceStorage.from_source(source)
    name = shown(source.name)
    with reading(name):
        shape, by_columns, dtype, skip = _header(Reading(source), name)
        length = _length(shape, dtype)
        if skip + length > source.size:
            raise ModelError(f"{name}: is truncated; an array of shape {shape} takes {length:,} bytes")
    array = _tensor("array", shape, by_columns, dtype, Runs(storage, ((skip, skip + length),)), name)
    return StoredTensors.from_file(storage, "npy", [array])


def open_npz(source: Source) -> StoredTensors:
    """The arrays of a .npz archive.

    Raises:
        ModelError: the archive is damaged, or holds Python objects.
    """
    storage = SourceStorage.from_source(source)
    name = shown(source.name)
    tensors: list[StoredTensor] = []
    with reading(name):
        try:
            archive = Archive(storage)
        except zipfile.BadZipFile as error:
            raise ModelError(f"{name}: not a NumPy archive, or truncated or damaged ({error})") from None
        for member, info in archive.members.items():
            if not member.endswith(".npy"):
                continue
            key = member.removesuffix(".npy")
            what = f"{name}: array {key[:200]!r}"
            stored = info.compress_type == zipfile.ZIP_STORED
            opened = _head(archive, member, info.file_size) if stored else archive.stream(member)
            with opened as head:
                shape, by_columns, dtype, skip = _header(head, what)
            length = _length(shape, dtype)
            if skip + length > info.file_size:
                raise ModelError(f"{what}: is truncated; an array of shape {shape} takes {length:,} bytes")
            if by_columns:  # it is turned in memory
                within_unpacking(info.compress_size, length, what)
            span: Span = Stream(what, functools.partial(archive.stream, member), skip, length)
            if stored:
                start = archive.place(member) + skip
                span = Runs(storage, ((start, start + length),))
            tensors.append(_tensor(key, shape, by_columns, dtype, span, what))
    return StoredTensors.from_file(storage, "npz", in_slots(tensors))


def _head(archive: Archive, member: str, size: int) -> io.BytesIO:
    """The bytes of an array's header, in one read where it is a usual one."""
    head = bytes(archive.read(member, 0, min(HEAD, size)))
    width = 2 if head[6:7] == b"\x01" else 4
    end = npy.MAGIC_LEN + width + int.from_bytes(head[npy.MAGIC_LEN : npy.MAGIC_LEN + width], "little")
    if len(head) < end <= LONGEST_HEADER:
        head = bytes(archive.read(member, 0, min(end, size)))
    return io.BytesIO(head)


def _header(file: Any, what: str) -> tuple[tuple[int, ...], bool, DType, int]:
    """Shape, order and type of an array, and where its elements begin.

    Args:
        file: a stream that begins with the array's header.
        what: the array, for messages.

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
    shape, by_columns, dtype = _read_header(version, front + file.read(size))
    if dtype.hasobject:
        raise ModelError(f"{what}: holds Python objects, which are never loaded")
    if dtype.names is not None or min(shape, default=0) < 0 or len(shape) > 64 or max(shape, default=0) >= 1 << 63:
        raise ModelError(f"{what}: holds no plain numbers, or has an impossible shape")
    return shape, by_columns, dtype, npy.MAGIC_LEN + width + size


@functools.lru_cache(1024)  # arrays of an archive have few headers between them
def _read_header(version: tuple[int, int], header: bytes) -> tuple[tuple[int, ...], bool, DType]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that Python 2 wrote it
        return _HEADERS[version](io.BytesIO(header))


def _length(shape: tuple[int, ...], dtype: DType) -> int:
    return math.prod(shape) * dtype.itemsize


def _tensor(name: str, shape: tuple[int, ...], by_columns: bool, dtype: DType, span: Span, what: str) -> StoredTensor:
    kind = dtype.name if dtype.name in BITS else ""
    order = ">" if dtype.str.startswith(">") else "<"
    stored = encoding(kind, order) if kind else None
    if stored is None:
        raise ModelError(f"{what}: holds elements of type {dtype}, which are not numbers")
    layer = parted(name)[0]
    count = math.prod(shape)
    elements: Elements = EncodedElements(span, stored, count)
    if by_columns and len(shape) > 1:
        elements = ArrayElements(functools.partial(_by_rows, elements, shape))
    return StoredTensor(name, shape, kind, _length(shape, dtype), layer, role=role_of(name, kind), elements=elements)


def _by_rows(elements: Elements, shape: tuple[int, ...]) -> object:
    """An array that is stored column by column."""
    flat = elements.raw()
    return (concatenated(elements) if flat is None else flat).reshape(shape, order="F")
