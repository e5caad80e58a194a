"""Safetensors files: names, types, shapes and places of the tensors from the header; no element is read.

Source: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from flopwise._limits import within_limit
from flopwise._results import Json
from flopwise.errors import ModelError
from flopwise.readers.source.source import Source
from flopwise.readers.weights.encoding import length
from flopwise.readers.weights.storage import SourceStorage
from flopwise.readers.weights.tensor import StoredTensors, in_slots, in_storage, said_by_name

#: Bytes of the number in front of the header.
FRONT = 8

MOST_DIMS = 64

#: The file's names of element types -> flopwise's.
DTYPES: dict[str, str] = {
    "BOOL": "bool",
    "F4": "float4e2m1",
    "F6_E2M3": "float6e2m3",
    "F6_E3M2": "float6e3m2",
    "U8": "uint8",
    "I8": "int8",
    "F8_E5M2": "float8e5m2",
    "F8_E4M3": "float8e4m3fn",
    "F8_E5M2FNUZ": "float8e5m2fnuz",
    "F8_E4M3FNUZ": "float8e4m3fnuz",
    "F8_E8M0": "float8e8m0",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
    "C64": "complex64",
}


class Entry(NamedTuple):
    """A tensor of a file by place: its elements lie at [start, end)."""

    name: str
    #: A name of ``flopwise.graph.dtypes``.
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def open_safetensors(source: Source) -> StoredTensors:
    """The tensors of a file.

    Raises:
        ModelError: as for ``read_header``.
    """
    entries = read_header(source)
    storage = SourceStorage.from_source(source)
    tensors = [
        in_storage(e.name, e.shape, e.dtype, storage, ((e.start, e.end),), **said_by_name(e.name, e.dtype))
        for e in entries
    ]
    return StoredTensors.from_file(storage, "safetensors", in_slots(tensors))


def read_header(source: Source) -> list[Entry]:
    """The tensors of a file, in the order of their places.

    Raises:
        ModelError: the file is not a safetensors file, is truncated or damaged, or has a header that cannot be right.
    """
    name = source.name
    if source.size < FRONT + 2:
        raise ModelError(f"{name}: not a safetensors file, or truncated: it has {source.size} bytes")
    size = int.from_bytes(source.read(0, FRONT), "little")
    if size > source.size - FRONT:
        raise ModelError(f"{name}: not a safetensors file, or truncated: its header should have {size:,} bytes")
    within_limit("header_bytes", size, f"{name}: its header has")
    text = source.read(FRONT, size)
    if not text.startswith(b"{"):
        raise ModelError(f"{name}: not a safetensors file (its header is not a JSON object)")
    header = parsed(text, name, "header")
    entries = [_entry(name, key, value, FRONT + size) for key, value in header.items() if key != "__metadata__"]
    return in_order(entries, FRONT + size, source)


def parsed(text: bytes, name: str, what: str) -> Json:
    """The JSON object in a text.

    Raises:
        ModelError: it is none, a name stands in it twice, or it is nested too deeply.
    """

    def once(pairs: Iterable[tuple[str, object]]) -> Json:
        listed = list(pairs)
        named = dict(listed)
        if len(named) < len(listed):
            twice = next(key for key, count in Counter(key for key, _ in listed).items() if count > 1)
            raise ModelError(f"{name}: its {what} names {twice[:100]!r} twice")
        return named

    try:
        content = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"{name}: its {what} is not JSON, or damaged ({' '.join(str(error).split())[:100]})"
        ) from error
    if not isinstance(content, dict):
        raise ModelError(f"{name}: its {what} is not a JSON object")
    return content


def _entry(file: str, name: str, value: object, data: int) -> Entry:
    def wrong(why: str) -> ModelError:
        return ModelError(f"{file}: tensor {name[:200]!r}: {why}")

    if not isinstance(value, dict):
        raise wrong("is not described by dtype, shape and data_offsets")
    dtype, shape, places = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise wrong(f"has the unknown element type {str(dtype)[:50]!r}")
    if not isinstance(shape, list) or len(shape) > MOST_DIMS or not _natural(shape):
        raise wrong(f"has no shape of at most {MOST_DIMS} dimensions: {str(shape)[:100]}")
    if not isinstance(places, list) or len(places) != 2 or not _natural(places):
        raise wrong(f"has no data_offsets of two numbers: {str(places)[:100]}")
    start, end = places
    needed = length(math.prod(shape), DTYPES[dtype])
    if end < start or end - start != needed:
        raise wrong(
            f"of shape {tuple(shape)} and type {dtype} takes {needed:,} bytes, "
            f"but its data_offsets are {start:,} to {end:,}"
        )
    return Entry(name, DTYPES[dtype], tuple(shape), data + start, data + end)


def _natural(values: list[Any]) -> bool:
    """True where all values are whole numbers from 0 to 2^63 - 1, and none is a flag."""
    return {*map(type, values)} <= {int} and min(values, default=0) >= 0 and max(values, default=0) < 1 << 63


def in_order(entries: list[Entry], start: int, source: Source) -> list[Entry]:
    """The tensors of a file in the order of their places, which cover it without overlap and without holes.

    Raises:
        ModelError: they do not.
    """
    ordered = sorted(entries, key=lambda entry: (entry.start, entry.end))
    here, before = start, ""
    for entry in ordered:
        if entry.start < here:
            raise ModelError(f"{source.name}: tensors {before[:200]!r} and {entry.name[:200]!r} overlap")
        if entry.start > here:
            raise ModelError(
                f"{source.name}: the {entry.start - here:,} bytes before {entry.name[:200]!r} belong to no tensor"
            )
        if entry.end > source.size:
            raise ModelError(
                f"{source.name}: truncated: tensor {entry.name[:200]!r} ends at byte {entry.end:,}, "
                f"but the file has {source.size:,}"
            )
        here, before = entry.end, entry.name
    if here != source.size:
        raise ModelError(f"{source.name}: its last {source.size - here:,} bytes belong to no tensor")
    return ordered
