"""A .caffemodel made by hand: names, types and blobs of random numbers, field by field."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number: int, payload: bytes) -> bytes:
    """A field of bytes with its length."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def blob(shape: Sequence[int]) -> bytes:
    """A BlobProto: its shape (7) and positive random data (5), both packed."""
    data = np.random.default_rng(0).uniform(0.1, 1.0, math.prod(shape)).astype("<f4")
    return field(7, field(1, b"".join(map(varint, shape)))) + field(5, data.tobytes())


def caffemodel(layers: Iterable[tuple[str, str, Sequence[Sequence[int]]]]) -> bytes:
    """A NetParameter of layers (100), each with its name (1), type (2) and blobs (7) of these shapes."""
    return b"".join(
        field(100, field(1, name.encode()) + field(2, kind.encode()) + b"".join(field(7, blob(s)) for s in shapes))
        for name, kind, shapes in layers
    )
