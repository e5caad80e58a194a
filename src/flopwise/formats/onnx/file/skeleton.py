"""An ONNX model without its weights: what is left to read, and where the weights lie.

Field numbers and type codes are those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from flopwise.errors import ModelError
from flopwise.formats.sources.wire import message
from flopwise.graph.construction import record
from flopwise.graph.dtypes import BITS, DTYPES

#: Integer tensors up to this many elements may steer shapes and are kept.
INTEGERS_KEPT = 1024

#: Tensors of other types up to this many elements are kept: Resize scales, Clip bounds, Pow exponents.
OTHERS_KEPT = 8

#: How the names begin by which tensors in attributes are found again.
TAG = "flopwise#"

#: The field of ModelProto that holds the graph.
GRAPH = 7

#: Bytes of a piece of a graph.
_PIECE = 1 << 17

#: How deep control flow and types may nest.
DEEPEST = 32

#: numpy has no arrays of higher rank.
MOST_DIMS = 64

#: flopwise's name of an element type -> TensorProto.DataType.
CODES: dict[str, int] = {name: code for code, name in DTYPES.items()}

_INTEGERS = frozenset({2, 3, 4, 5, 6, 7, 9, 12, 13})

#: Fields of TensorProto that hold elements: float, int32, string, int64, raw, double and uint64 data.
PAYLOAD = frozenset({4, 5, 6, 7, 9, 10, 11})

#: Raw data.
RAW = 9

#: Those among them whose length follows from the number of elements: float, raw and double data.
_FIXED = frozenset({4, RAW, 10})


class Place(NamedTuple):
    """Bytes [start, end) of a source that hold elements of a tensor."""

    #: The field of TensorProto they belong to.
    number: int
    start: int
    end: int
    #: Whether the bytes are whole fields, tags included (elements written one by one), or the content of one.
    whole: bool = False


@record
class Stored:
    """Where the elements of one stored tensor are."""

    name: str
    dims: tuple[int, ...]
    dtype: str
    #: The places of its elements, or the start of raw data in one piece, as a usual tensor has them.
    lies: tuple[Place, ...] | int = ()
    #: For external data: its keys and values (location, offset, length), else empty.
    external: Mapping[str, str] = field(default_factory=dict)
    #: For a sparse tensor: its values, and their indices.
    sparse: tuple[Stored, Stored] | None = None
    #: A small tensor: its elements as raw data has them; of texts, the fields with the elements.
    payload: bytes = b""
    #: Tells a tensor in an attribute from all others, where several nodes may hold it.
    mark: str = ""

    @property
    def places(self) -> tuple[Place, ...]:
        """Where its elements are in the file."""
        start = self.lies
        return (Place(RAW, start, start + self.nbytes),) if isinstance(start, int) else start

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, by type and dims."""
        return (math.prod(self.dims) * BITS[self.dtype] + 7) // 8


class Pieces:
    """Fields of a graph in pieces, each a serialised GraphProto with some hundred or thousand of them."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._fields: list[bytes] = []
        self._length = 0

    def append(self, field: bytes) -> None:
        """Take in a field, or several."""
        self._fields.append(field)
        self._length += len(field)
        if self._length > _PIECE:
            self._join()

    def _join(self) -> None:
        self._pieces.append(b"".join(self._fields))
        self._fields, self._length = [], 0

    def __iter__(self) -> Iterator[bytes]:
        if self._fields:
            self._join()
        return iter(self._pieces)


class Skeleton(NamedTuple):
    """A model without its weights."""

    #: A serialised ModelProto. Its graph has the nodes and stored tensors that are not in pieces.
    head: bytes
    #: The initialisers of the graph by name.
    initializers: dict[str, Stored]
    #: Other tensors: those left out of an attribute by the name that their TensorProto has in the skeleton (tensors in
    #: attributes need no name of their own), and those stored in the bodies of control flow.
    inner: dict[str, Stored]
    #: Nodes of the graph.
    nodes: Pieces
    #: Stored tensors of the graph. Those that are left out have dims and a type, but no elements.
    tensors: Pieces

    @property
    def model(self) -> bytes:
        """The whole as one serialised ModelProto."""
        return self.head + b"".join(message(GRAPH, [piece]) for piece in (*self.nodes, *self.tensors))

    def mentions(self, text: str) -> bool:
        """True if the bytes of the model contain a text."""
        return any(text.encode() in part for part in (self.head, *self.nodes, *self.tensors))


def kept(code: int, dims: Sequence[int]) -> bool:
    """True if a tensor is so small that its elements stay in the skeleton, as they may steer shapes."""
    return math.prod(dims) <= (INTEGERS_KEPT if code in _INTEGERS else OTHERS_KEPT)


def tag(*place: int) -> str:
    """A name for a tensor in an attribute; such tensors need no name of their own."""
    return TAG + ".".join(map(str, place))


def refuse_impossible(source: str, name: str, code: int, dims: Sequence[int], places: Sequence[Place] = ()) -> None:
    """Refuse a tensor that cannot exist.

    Raises:
        ModelError: its type is unknown, a dim is negative, or the stored bytes are not what type and dims say.
    """
    what = f"{source}: tensor {name!r}"
    if code not in DTYPES:
        raise ModelError(f"{what} has the unknown element type {code}")
    if len(dims) > MOST_DIMS:
        raise ModelError(f"{what} has {len(dims)} dimensions; more than {MOST_DIMS} are not possible")
    if min(dims, default=0) < 0:
        raise ModelError(f"{what} has a negative dimension: {tuple(dims)}")
    if len(places) == 1 and places[0].number in _FIXED and not places[0].whole and code != CODES["string"]:
        stored = places[0].end - places[0].start
        expected = (math.prod(dims) * BITS[DTYPES[code]] + 7) // 8
        if stored != expected:
            raise ModelError(
                f"{what} of shape {tuple(dims)} and type {DTYPES[code]} takes {expected} bytes, but {stored} are stored"
            )


def refuse_twin(source: str, first: Stored, second: Stored) -> None:
    """Refuse two stored tensors of one name that differ.

    Raises:
        ModelError: their shapes or types differ.
    """
    if (first.dtype, first.dims) != (second.dtype, second.dims):
        raise ModelError(
            f"{source}: two stored tensors are named {first.name!r}: one of shape {first.dims}, "
            f"one of {second.dims}{', of other elements' if first.dims == second.dims else ''}"
        )
