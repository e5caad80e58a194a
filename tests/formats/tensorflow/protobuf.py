"""TensorFlow graphs written down for tests, field by field."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    """A number of the wire format; negative ones have 64 bits."""
    value &= (1 << 64) - 1
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def field(number: int, value: int | bytes | str) -> bytes:
    """A field with a number, or with a length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def entry(key: str, value: bytes) -> bytes:
    """An entry of a map."""
    return field(1, key) + field(2, value)


def shape(*sizes: int) -> bytes:
    return b"".join(field(2, field(1, size)) for size in sizes)


def node(name: str, op: str, *inputs: str, **attrs: bytes) -> bytes:
    """A node; attributes are values already encoded."""
    parts = [field(1, name), field(2, op), *(field(3, one) for one in inputs)]
    return b"".join([*parts, *(field(5, entry(key, value)) for key, value in attrs.items())])


def placeholder(name: str, *sizes: int) -> bytes:
    return node(name, "Placeholder", dtype=field(6, 1), shape=field(7, shape(*sizes)))


def constant(name: str, *sizes: int, data: bytes | None = None) -> bytes:
    """A constant of floats: zeros, or what ``data`` holds."""
    count = 1
    for size in sizes:
        count *= size
    content = struct.pack(f"<{count}f", *[0.0] * count) if data is None else data
    tensor = field(1, 1) + field(2, shape(*sizes)) + field(4, content)
    return node(name, "Const", dtype=field(6, 1), value=field(8, tensor))


def scalar(name: str, value: int) -> bytes:
    """A constant of one whole number."""
    tensor = field(1, 3) + field(2, b"") + field(7, value)
    return node(name, "Const", dtype=field(6, 3), value=field(8, tensor))


def function(name: str, argument: str, result: str, *nodes: bytes) -> bytes:
    """A function of one argument and one result."""
    signature = field(1, name) + field(2, field(1, argument)) + field(3, field(1, "out"))
    return field(1, signature) + b"".join(field(3, one) for one in nodes) + field(4, field(1, "out") + field(2, result))


def graph(*nodes: bytes, functions: tuple[bytes, ...] = ()) -> bytes:
    library = field(2, b"".join(field(1, one) for one in functions)) if functions else b""
    return b"".join(field(1, one) for one in nodes) + library
