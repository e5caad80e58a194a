"""Where the elements of stored tensors lie, those of small ones as Python's numbers, and how to load one.

Type codes and field numbers are those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

import functools
import math
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from flopwise.errors import ModelError
from flopwise.formats.sources.source import Source
from flopwise.formats.sources.wire import BYTES, VARINT, fields, message, varints
from flopwise.graph.construction import record
from flopwise.graph.dtypes import BITS, DTYPES
from flopwise.graph.stored import Array

if TYPE_CHECKING:
    from flopwise.formats.weights.storage import SourceStorage

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
    #: Of a quantised tensor: the names of the stored tensors with its scales and zero points.
    scale: str = ""
    zero_point: str = ""
    #: Of one that is stored without its zeros in a way of the format's own: its elements from the file.
    unpack: Callable[[SourceStorage], Any] | None = None

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


# The elements of small stored tensors as Python's numbers, texts and flags.

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


def packed(dtype: str, values: Sequence[Any]) -> bytes:
    """Numbers as raw data; b"" for what the type cannot hold."""
    try:
        if dtype == "bfloat16":
            return b"".join(struct.pack("<f", value)[2:] for value in values)
        return struct.pack(f"<{len(values)}{_CODES[dtype]}", *values)
    except (KeyError, OverflowError, struct.error):
        return b""


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


# Stored tensors of an ONNX model: where they are allowed to lie, and how to load one when somebody asks.

#: Opens the source of a model again; None when the model did not come from one.
Reopen = Callable[[], Source]


def check_external(stored: Iterable[Stored]) -> None:
    """Refuse external data outside the model's folder; the data itself need not be there.

    Raises:
        ModelError: a location is absolute, climbs out of the folder, or is not the name of a file.
    """
    for tensor, location in _locations(stored):
        if "\0" in location:
            raise ModelError(f"the data of tensor {tensor.name!r} are in {location!r}, and there is no such file")
        for path in (PurePosixPath(location), PureWindowsPath(location)):
            if path.anchor or ".." in path.parts:
                raise ModelError(
                    f"the data of tensor {tensor.name!r} are in {location!r}, outside the model's folder; refused"
                )


def hard_links(stored: Iterable[Stored], folder: Path | None) -> list[str]:
    """Remarks on files of external data that have further names, which may be those of files elsewhere.

    Nothing tells a hard link to a file outside from a file of the model's own, so such data is read, but not silently.

    Args:
        stored: tensors whose locations have been checked.
        folder: the folder of the model; None when it did not come from a file.
    """
    remarks = []
    for location in dict.fromkeys(location for _, location in _locations(stored)) if folder else ():
        try:
            names = os.stat(folder / location).st_nlink  # type: ignore[operator] # there is a folder
        except (OSError, ValueError):
            continue
        if names > 1:
            remarks.append(
                f"the data file {location!r} is a hard link: the same file has {names - 1} more "
                f"{'names' if names > 2 else 'name'}, perhaps outside the model's folder"
            )
    return remarks


def _locations(stored: Iterable[Stored]) -> Iterator[tuple[Stored, str]]:
    """The tensors whose data is in another file, and that file."""
    for tensor in [tensor for tensor in stored if tensor.external or tensor.sparse]:  # few among many
        if "location" in tensor.external:
            yield tensor, tensor.external["location"]
        yield from _locations(tensor.sparse or ())


def with_small(stored: Stored, name: str, reopen: Reopen) -> Stored:
    """A tensor with its elements if they may steer shapes and lie in a file of external data that can be had.

    Args:
        stored: the tensor.
        name: the model, for messages.
        reopen: opens its source.
    """
    if not stored.external or not kept(CODES[stored.dtype], stored.dims):
        return stored
    try:
        data = external_bytes(stored, name, reopen)
    except ModelError:  # the shapes that depend on it stay unresolved, and the report says so
        return stored
    return replace(stored, payload=data) if len(data) == stored.nbytes else stored


def load(stored: Stored, name: str, reopen: Reopen | None) -> object:
    """The elements of a stored tensor as a numpy array, read now.

    Args:
        stored: where they lie.
        name: the model, for messages.
        reopen: opens the source that the places of ``stored`` are in.

    Raises:
        ModelError: the data is not there, or is not what the tensor's type and shape say.
    """
    try:
        if stored.sparse:
            return _dense(stored, name, reopen)
        if stored.dtype == "string":
            return _texts(stored, name, reopen)
        return _array(stored, name, reopen)
    except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
        raise ModelError(f"{name}: tensor {stored.name!r} cannot be loaded ({' '.join(str(error).split())})") from error


def _array(stored: Stored, name: str, reopen: Reopen | None) -> Any:
    """The elements of a tensor as numbers."""
    import numpy

    from flopwise.formats.weights.tensor import encoding, numpy_type

    encoded = encoding(stored.dtype)
    assert encoded is not None
    if stored.external:
        data = numpy.frombuffer(external_bytes(stored, name, reopen), numpy.uint8)
    elif stored.places:
        parts = [_as_stored(place, data, stored.dtype) for place, data in _content(stored, name, reopen)]
        data = numpy.concatenate(parts)
    else:
        data = numpy.frombuffer(stored.payload, numpy.uint8)
    count = math.prod(stored.dims)
    if BITS[stored.dtype] == 6 and data.size == count and not stored.external:  # as numbers they take a byte each
        return data.view(numpy_type(stored.dtype)).astype(numpy.float32).reshape(stored.dims)
    if data.size != stored.nbytes:
        raise ValueError(
            f"shape {stored.dims} and type {stored.dtype} take {stored.nbytes} bytes, but {data.size} are stored"
        )
    return encoded.decode(data)[:count].reshape(stored.dims)


def _texts(stored: Stored, name: str, reopen: Reopen | None) -> object:
    """The elements of a tensor of texts."""
    import numpy

    contents = [data for _, data in _content(stored, name, reopen)] if stored.places else [stored.payload]
    texts = [data[a:b].decode() for data in contents for tag, a, b in fields(data) if tag >> 3 == FIELDS["string"]]
    return numpy.array(texts, object).reshape(stored.dims)


def _content(stored: Stored, name: str, reopen: Reopen | None) -> Iterator[tuple[Place, bytes]]:
    """The bytes with the elements of a tensor in the model's own file."""
    source = _opened(stored, name, reopen)
    try:
        for place in stored.places:
            yield place, source.read(place.start, place.end - place.start)
    finally:
        source.close()


def _opened(stored: Stored, name: str, reopen: Reopen | None) -> Source:
    if reopen is None:
        raise ModelError(f"{name}: the data of tensor {stored.name!r} was not loaded with the model")
    return reopen()


def _as_stored(place: Place, content: bytes, dtype: str) -> Array:
    """Elements as raw data has them, from the content of a field or from fields of one element each."""
    import numpy

    data = numpy.frombuffer(content, numpy.uint8)
    if place.number in (4, 10):
        width = 4 if place.number == 4 else 8
        return data.reshape(-1, 1 + width)[:, 1:].reshape(-1) if place.whole else data
    if place.number == RAW:
        return data
    numbers = varints_of(data)
    numbers = numbers[1::2] if place.whole else numbers  # each follows its tag
    width = 8 if FIELDS.get(dtype, 5) == 7 else max(BITS[dtype] // 8, 1)
    return numbers.astype(f"<u{width}").view(numpy.uint8)


def varints_of(data: Array) -> Array:
    """The numbers in an array of bytes that holds one varint after the other.

    Raises:
        ValueError: the last one does not end, or one is longer than ten bytes.
    """
    import numpy

    ends = numpy.flatnonzero(data < 128)
    if data.size and (not ends.size or ends[-1] != data.size - 1):
        raise ValueError("a number does not end")
    starts = numpy.concatenate([[0], ends[:-1] + 1]).astype(numpy.int64) if ends.size else ends
    lengths = ends - starts + 1
    if ends.size and lengths.max() > 10:
        raise ValueError("a number does not end")
    numbers = numpy.zeros(ends.size, numpy.uint64)
    for place in range(int(lengths.max()) if ends.size else 0):
        there = lengths > place
        numbers[there] |= (data[starts[there] + place] & 127).astype(numpy.uint64) << numpy.uint64(7 * place)
    return numbers


def external_bytes(stored: Stored, name: str, reopen: Reopen | None) -> bytes:
    """The elements of a tensor that lie in another file.

    Raises:
        ModelError: they are not there.
    """
    source = _opened(stored, name, reopen)
    try:
        other = source.beside(stored.external.get("location", ""), f"{name}: tensor {stored.name!r}")
        try:
            start, end = external_range(stored, None, other.size, name)
            return other.read(start, end - start)
        finally:
            if other is not source:
                other.close()
    finally:
        source.close()


def external_range(stored: Stored, needed: int | None, size: int, name: str) -> tuple[int, int]:
    """Where the external data of a tensor begins and ends in its file.

    Args:
        stored: the tensor.
        needed: the bytes that its shape and type say; None: whatever the file has.
        size: bytes of the file.
        name: the model, for messages.

    Raises:
        ModelError: there is no such place in the file, or it does not hold what is needed.
    """
    what, location = f"{name}: tensor {stored.name!r}", stored.external.get("location", "")
    try:
        offset, length = int(stored.external.get("offset", 0)), int(stored.external.get("length", -1))
    except ValueError:
        raise ModelError(f"{what} gives no number as offset or length of its data") from None
    if length < 0:
        length = size - offset if needed is None else needed
    if offset < 0 or length < 0 or offset > size:
        raise ModelError(f"the data of {what} begin at byte {offset} of {location!r}, which has {size}")
    if needed is not None and length != needed:
        raise ModelError(f"{what} of shape {stored.dims} and type {stored.dtype} takes {needed} bytes, not {length}")
    if needed is not None and offset + length > size:
        raise ModelError(
            f"the data of {what} are bytes {offset} to {offset + length} of {location!r}, which has {size}"
        )
    return offset, offset + length


def _dense(stored: Stored, name: str, reopen: Reopen | None) -> Array:
    """A sparse tensor's elements, zeros included. Its indices are places in row order, or one row of indices each."""
    import numpy

    assert stored.sparse is not None
    values, indices = (_array(part, name, reopen) for part in stored.sparse)
    dense = numpy.zeros(math.prod(stored.dims), dtype=values.dtype)
    places = indices if indices.ndim == 1 else numpy.ravel_multi_index(tuple(indices.T), stored.dims)
    dense[places] = values
    return dense.reshape(stored.dims)
