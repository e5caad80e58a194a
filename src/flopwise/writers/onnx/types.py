"""Types of values as bytes; what the file says of them beside element types and extents stays.

Field numbers: see https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flopwise.formats.onnx.file.model import (
    Dim,
    MapType,
    SequenceType,
    SparseType,
    TensorType,
    Type,
)
from flopwise.formats.onnx.file.skeleton import CODES
from flopwise.formats.sources.wire import BYTES, VARINT, fields, message, number_field

#: Fields of TypeProto.
_TENSOR, _SEQUENCE, _MAP, _SPARSE, _OPTIONAL = 1, 4, 5, 8, 9
_KINDS = frozenset({_TENSOR, _SEQUENCE, _MAP, _SPARSE, _OPTIONAL, 7})


def entry(name: str, type_: Type | None) -> bytes:
    """A ValueInfoProto."""
    return message(1, [name.encode()]) + (b"" if type_ is None else message(2, [encoded(type_)]))


def encoded(type_: Type | None) -> bytes:
    """A TypeProto."""
    if isinstance(type_, TensorType):
        parts = [number_field(1, CODES[type_.dtype]) if type_.dtype else b""]
        if type_.dims is not None:
            parts.append(message(2, [message(1, [_dim(dim)]) for dim in type_.dims]))
        return message(_SPARSE if isinstance(type_, SparseType) else _TENSOR, parts)
    if isinstance(type_, MapType):
        key = number_field(1, CODES[type_.key]) if type_.key else b""
        return message(_MAP, [key, message(2, [encoded(type_.value)])])
    if type_ is None:
        return b""
    return message(_SEQUENCE if isinstance(type_, SequenceType) else _OPTIONAL, [message(1, [encoded(type_.element)])])


def _dim(dim: Dim) -> bytes:
    """The extent of a dimension."""
    if dim is None:
        return b""
    return number_field(1, dim) if isinstance(dim, int) else message(2, [dim.encode()])


def with_type(value: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """A ValueInfoProto with its TypeProto changed."""
    before: list[bytes] = []
    after: list[bytes] = []
    type_ = b""
    for tag, content, raw in _fields(value):
        if tag == 2 << 3 | BYTES:
            type_ += content
        else:
            (before if tag >> 3 == 1 else after).append(raw)
    return b"".join([*before, message(2, [change(type_)]), *after])


def retyped(old: bytes, new: Type) -> bytes:
    """A TypeProto with another type in its place; of a tensor's, what the file notes about its parts stays."""
    kinds = {tag >> 3 for tag, _, _ in _fields(old)} & _KINDS
    if kinds != {_TENSOR} or type(new) is not TensorType:
        return encoded(new)
    code = shape = b""
    others: list[bytes] = []
    for tag, content, raw in _fields(_joined(old, _TENSOR)):
        if tag == 1 << 3 | VARINT:
            code = raw
        elif tag == 2 << 3 | BYTES:
            shape += content
        else:
            others.append(raw)
    code = number_field(1, CODES[new.dtype]) if new.dtype else code
    dims = [content for tag, content, _ in _fields(shape) if tag == 1 << 3 | BYTES]
    parts = [code]
    if new.dims is not None:
        notes = dims if len(dims) == len(new.dims) else [b""] * len(new.dims)
        dims = [message(1, [_dim(d), _without(n, 1, 2)]) for d, n in zip(new.dims, notes, strict=True)]
        parts.append(message(2, [*dims, _without(shape, 1)]))
    return message(_TENSOR, [*parts, *others]) + _without(old, _TENSOR)


def opened(old: bytes) -> bytes:
    """A TypeProto without the shape of its tensor, which may be optional or sparse."""
    for kind in (_TENSOR, _SPARSE):
        if content := _joined(old, kind):
            return message(kind, [_without(content, 2)]) + _without(old, kind)
    if content := _joined(old, _OPTIONAL):
        inner = message(1, [opened(_joined(content, 1))])
        return message(_OPTIONAL, [inner, _without(content, 1)]) + _without(old, _OPTIONAL)
    return old


def _fields(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The tags of the fields of a message, their contents, and the fields with their tags; nothing is left out."""
    last = 0
    for tag, start, end in fields(data, with_groups=True):
        yield tag, b"" if tag & 7 == VARINT else data[start:end], data[last:end]
        last = end


def _joined(data: bytes, number: int) -> bytes:
    """The content of the message in a field; several are one."""
    return b"".join(content for tag, content, _ in _fields(data) if tag == number << 3 | BYTES)


def _without(data: bytes, *numbers: int) -> bytes:
    """A message without some fields."""
    return b"".join(raw for tag, _, raw in _fields(data) if tag >> 3 not in numbers)
