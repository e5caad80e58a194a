"""The elements of small stored tensors as Python's numbers, texts and flags."""

from __future__ import annotations

import functools
import math
import struct
from typing import TypeAlias

from flopwise.formats.onnx.file.skeleton import INTEGERS_KEPT, RAW, Stored
from flopwise.formats.sources.wire import BYTES, VARINT, fields, varints
from flopwise.graph.dtypes import BITS

#: Elements up to which what they decode to is remembered: models have thousands of equal small tensors.
_FEW = 16

Element: TypeAlias = "int | float | complex | bool | str"

#: How `struct` writes an element.
_CODES: dict[str, str] = {
    "float64": "d",
    "float32": "f",
    "float16": "e",
    "int64": "q",
    "int32": "i",
    "int16": "h",
    "int8": "b",
    "uint64": "Q",
    "uint32": "I",
    "uint16": "H",
    "uint8": "B",
    "bool": "?",
}

#: The field of TensorProto with the elements of a type if they are no raw data; 5 for all other types.
FIELDS: dict[str, int] = {
    "float32": 4,
    "complex64": 4,
    "string": 6,
    "int64": 7,
    "float64": 10,
    "complex128": 10,
    "uint32": 11,
    "uint64": 11,
}


def elements(stored: Stored) -> tuple[Element, ...] | None:
    """The elements of a small tensor, row by row.

    None where they are not at hand or not as many as the shape says, and for types that Python has no numbers for.

    Raises:
        ModelError: the file is damaged.
    """
    count = math.prod(stored.dims)
    if count == 0:
        return ()
    if not stored.payload or count > INTEGERS_KEPT or stored.sparse:
        return None
    if stored.dtype == "string":
        parts = [stored.payload[a:b] for tag, a, b in fields(stored.payload) if tag == FIELDS["string"] << 3 | BYTES]
        return tuple(part.decode("utf-8", "replace") for part in parts) if len(parts) == count else None
    if len(stored.payload) != stored.nbytes:
        return None
    read = _again if count <= _FEW else _numbers
    return read(stored.payload, stored.dtype, count)


def payload(tensor: bytes, dtype: str) -> bytes:
    """The elements of a serialised tensor as raw data has them; texts as they are.

    Raises:
        ModelError: the file is damaged.
    """
    if dtype == "string":
        return tensor
    raw, own = None, FIELDS.get(dtype, 5)
    width = 8 if own in (7, 10) else max(BITS[dtype] // 8, 1)
    parts: list[bytes] = []
    for tag, start, end in fields(tensor):
        number, wire = tag >> 3, tag & 7
        if number == RAW and wire == BYTES:
            raw = tensor[start:end]
        elif number == own and own in (4, 10):
            parts.append(tensor[start:end])
        elif number == own and wire in (VARINT, BYTES):
            numbers = [start] if wire == VARINT else varints(tensor[start:end])
            parts.extend((value & (1 << 8 * width) - 1).to_bytes(width, "little") for value in numbers)
    return b"".join(parts) if raw is None else raw


def _numbers(raw: bytes, dtype: str, count: int) -> tuple[Element, ...] | None:
    """Raw data as so many numbers; None for a type that Python has no numbers for."""
    if dtype in _CODES:
        return struct.unpack(f"<{count}{_CODES[dtype]}", raw)
    if dtype == "bfloat16":  # the upper half of a float32
        wide = b"".join(b"\0\0" + raw[at : at + 2] for at in range(0, len(raw), 2))
        return struct.unpack(f"<{count}f", wide)
    if dtype in ("complex64", "complex128"):
        parts = struct.unpack(f"<{2 * count}{'f' if dtype == 'complex64' else 'd'}", raw)
        return tuple(map(complex, parts[::2], parts[1::2]))
    if dtype in ("int4", "uint4", "int2", "uint2"):  # the first element is in the lowest bits
        bits, mask = BITS[dtype], (1 << BITS[dtype]) - 1
        values = [byte >> shift & mask for byte in raw for shift in range(0, 8, bits)][:count]
        half = 1 << bits - 1 if dtype.startswith("int") else 1 << bits
        return tuple(value - 2 * half if value >= half else value for value in values)
    return None


#: The same, remembered.
_again = functools.lru_cache(1 << 12)(_numbers)
