"""A model that is a protobuf message in memory, as the bytes that it would be in a file; weights are not copied."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

from flopwise.errors import ModelError
from flopwise.formats.kit.tensors import RAW
from flopwise.formats.sources.open import open_source
from flopwise.formats.sources.source import Source
from flopwise.formats.sources.wire import BYTES, fields, varint
from flopwise.graph.dtypes import BITS, DTYPES

#: Tensors up to this many bytes are serialised whole.
WHOLE = 1 << 12

#: Messages that may hold tensors; what else there is is small.
_HOLDERS = frozenset({"ModelProto", "GraphProto", "FunctionProto", "SparseTensorProto"})

#: Types of attributes that may hold tensors: tensor, graph and sparse tensor, one or several; the oldest have none.
_HEAVY = frozenset({0, 4, 5, 9, 10, 11, 12})

#: The fields of a TensorProto that hold elements, but for texts, and those that come with them.
_ELEMENTS = {4: "float_data", 5: "int32_data", 7: "int64_data", 9: "raw_data", 10: "double_data", 11: "uint64_data"}
_HEAD = ("dims", "data_type", "name", "external_data", "data_location")


def is_message(model: object) -> bool:
    """True if a model is a protobuf message with a graph, in memory."""
    return hasattr(model, "SerializeToString") and hasattr(model, "ListFields") and hasattr(model, "graph")


@contextlib.contextmanager
def opened(model: object) -> Iterator[Source]:
    """The bytes of a model, which is anything that the reader takes.

    Raises:
        ModelError: it is not there.
    """
    if is_message(model):
        yield MessageSource(model)
        return
    with contextlib.closing(open_source(model)) as source:
        yield source


class MessageSource(Source):
    """A ModelProto in pieces, of which those with the elements of large tensors are made when they are read."""

    def __init__(self, model: Any) -> None:
        self.name = str(model.graph.name or "<ModelProto>")
        self._pieces: list[bytes | _Elements] = []
        try:
            self._pieces = list(_joined(_pieces(model)))
        except (
            TypeError,
            ValueError,
        ) as error:  # protobuf gives as bytes what is not UTF-8, and takes no such name
            raise ModelError(f"{self.name}: a name is not UTF-8 ({error})") from error
        self._starts = [0, *itertools.accumulate(map(len, self._pieces))]
        self.size = self._starts.pop()
        #: The elements read last: they are read a part at a time.
        self._last: tuple[int, bytes] = (-1, b"")

    def at_hand(self, offset: int) -> int:
        place = bisect.bisect_right(self._starts, offset)
        return (self._starts[place] if place < len(self._starts) else self.size) - offset

    def part(self, offset: int, length: int) -> bytes:
        parts = []
        place = bisect.bisect_right(self._starts, offset) - 1
        while length > 0 and place < len(self._pieces):
            at = offset - self._starts[place]
            piece = self._piece(place)[at : at + length]
            parts.append(piece)
            offset, length, place = offset + len(piece), length - len(piece), place + 1
        return b"".join(parts)

    def _piece(self, place: int) -> bytes:
        piece = self._pieces[place]
        if isinstance(piece, bytes):
            return piece
        if self._last[0] != place:
            self._last = (place, piece.content())
        return self._last[1]


class _Elements:
    """The elements of a tensor as the content of their field."""

    def __init__(self, tensor: Any, name: str, length: int) -> None:
        self._tensor = tensor
        self._name = name
        self._length = length

    def __len__(self) -> int:
        return self._length

    def content(self) -> bytes:
        """The bytes.

        Raises:
            ModelError: there are more or fewer than there should be.
        """
        held = getattr(self._tensor, self._name)
        if not isinstance(held, bytes):
            held = _content(_alone(self._tensor, self._name))
        if len(held) != self._length:
            raise ModelError(f"tensor {self._tensor.name!r} takes {self._length} bytes, but {len(held)} are stored")
        return bytes(held)


def _pieces(message: Any) -> Iterator[bytes | _Elements]:
    """A message, piece by piece. Protobuf measures a message by serialising it, so none with weights is asked."""
    kind = message.DESCRIPTOR.name
    if kind == "TensorProto":
        yield from _tensor(message)
    elif (
        kind in _HOLDERS
        or (kind == "NodeProto" and any(attribute.type in _HEAVY for attribute in message.attribute))
        or (kind == "AttributeProto" and message.type in _HEAVY)
    ):
        for descriptor, value in message.ListFields():
            if descriptor.message_type is None:
                yield _alone(message, descriptor.name)
                continue
            for inner in value if hasattr(value, "add") else (value,):
                pieces = list(_pieces(inner))
                yield varint(descriptor.number << 3 | BYTES) + varint(sum(map(len, pieces)))
                yield from pieces
    else:
        yield message.SerializeToString()


def _tensor(tensor: Any) -> Iterator[bytes | _Elements]:
    """A tensor; to ask a message for its elements is to copy them."""
    held = [number for number, name in _ELEMENTS.items() if _has(tensor, name)]
    bits = BITS.get(DTYPES.get(tensor.data_type, ""), 0)
    nbytes = (math.prod(tensor.dims) * bits + 7) // 8
    if len(held) != 1 or nbytes <= WHOLE or max(tensor.dims, default=0) > 1 << 62:
        yield tensor.SerializeToString()
        return
    number, name = held[0], _ELEMENTS[held[0]]
    if number == RAW:
        length = nbytes
    elif number in (4, 10):
        length = len(getattr(tensor, name)) * (4 if number == 4 else 8)
    else:
        length = len(_content(_alone(tensor, name)))
    head = type(tensor)()
    for part in _HEAD:
        if _has(tensor, part):
            _copy(tensor, head, part)
    yield head.SerializeToString() + varint(number << 3 | BYTES) + varint(length)
    yield _Elements(tensor, name, length)


def _content(field: bytes) -> bytes:
    """The content of a serialised field."""
    ((_, start, end),) = fields(field)
    return field[start:end]


def _has(message: Any, name: str) -> bool:
    """True if a field of a message is set, or a list in it has members."""
    try:
        return bool(message.HasField(name))
    except ValueError:
        return len(getattr(message, name)) > 0


def _alone(message: Any, name: str) -> bytes:
    """A field of a message by itself, serialised."""
    alone = type(message)()
    _copy(message, alone, name)
    data: bytes = alone.SerializeToString()
    return data


def _copy(message: object, other: object, name: str) -> None:
    value = getattr(message, name)
    if hasattr(value, "extend"):
        getattr(other, name).extend(value)
    else:
        setattr(other, name, value)


def _joined(pieces: Iterator[bytes | _Elements]) -> Iterator[bytes | _Elements]:
    """The pieces with those joined that lie beside each other and are made already."""
    is_made: Callable[[object], bool] = lambda piece: isinstance(piece, bytes)  # noqa: E731 - short
    for made, group in itertools.groupby(pieces, is_made):
        if made:
            yield b"".join(group)  # type: ignore[arg-type] # all of them are bytes
        else:
            yield from group
