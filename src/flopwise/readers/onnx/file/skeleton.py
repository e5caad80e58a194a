"""An ONNX model without its weights: what is left to read, and where the weights lie.

Field numbers and type codes are those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flopwise.errors import ModelError
from flopwise.graph.construction import made_on_access
from flopwise.graph.dtypes import BITS
from flopwise.readers.source.wire import message

#: Integer tensors up to this many elements may steer shapes and are kept.
INTEGERS_KEPT = 1024

#: Tensors of other types up to this many elements are kept: Resize scales, Clip bounds, Pow exponents.
OTHERS_KEPT = 8

#: How the names begin by which tensors in attributes are found again.
TAG = "flopwise#"

#: The field of ModelProto that holds the graph.
GRAPH = 7

#: Bytes of some thousand nodes.
_MUCH = 1 << 18

#: Bytes of a piece of a graph.
_PIECE = 1 << 17

#: numpy has no arrays of higher rank.
MOST_DIMS = 64

#: TensorProto.DataType -> flopwise's name of the element type.
DTYPES: dict[int, str] = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8e4m3fn",
    18: "float8e4m3fnuz",
    19: "float8e5m2",
    20: "float8e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4e2m1",
    24: "float8e8m0",
    25: "uint2",
    26: "int2",
    27: "float6e2m3",
    28: "float6e3m2",
}

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


@dataclass(frozen=True, slots=True)
class Stored:
    """Where the elements of one stored tensor are."""

    name: str
    dims: tuple[int, ...]
    dtype: str
    places: tuple[Place, ...] = ()
    #: For external data: its keys and values (location, offset, length), else empty.
    external: Mapping[str, str] = field(default_factory=dict)
    #: For a sparse tensor: its values, and their indices.
    sparse: tuple[Stored, Stored] | None = None
    #: The TensorProto itself, for a model that is in memory.
    proto: Any = None

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, by type and dims."""
        return (math.prod(self.dims) * BITS[self.dtype] + 7) // 8


# A usual tensor lies in one piece of raw data, of which the start says all.
made_on_access(Stored, "places", lambda stored, start: (Place(RAW, start, start + stored.nbytes),))


class Pieces:
    """Fields of a graph in pieces, each a serialised GraphProto with some hundred or thousand of them."""

    def __init__(self) -> None:
        #: How many times something was appended.
        self.number = 0
        self._pieces: list[bytes] = []
        self._fields: list[bytes] = []
        self._length = 0

    def append(self, field: bytes) -> None:
        """Take in a field, or several."""
        self.number += 1
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
    def is_large(self) -> bool:
        """Whether there are several thousand nodes, by their bytes."""
        return sum(map(len, self.nodes)) > _MUCH

    @property
    def model(self) -> bytes:
        """The whole as one serialised ModelProto."""
        return self.head + b"".join(message(GRAPH, [piece]) for piece in (*self.nodes, *self.tensors))

    def mentions(self, text: str) -> bool:
        """Whether a text is anywhere in the model."""
        return any(text.encode() in part for part in (self.head, *self.nodes, *self.tensors))


def kept(code: int, dims: Sequence[int]) -> bool:
    """Whether a tensor's elements stay in the skeleton, as they may steer shapes."""
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
