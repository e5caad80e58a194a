"""Stored tensors, and their elements as numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, NamedTuple

from flopwise.errors import ModelError
from flopwise.formats.sources.location import shown
from flopwise.formats.weights.storage import Runs, SourceStorage, Span
from flopwise.graph.dtypes import BITS
from flopwise.graph.stored import Array, Elements, Storage, StoredTensor

# Stored elements as numbers: decoded from bytes, of an array in memory, or one value that is repeated.
#
# Plain types are taken as they are, narrow ones by a table of all their values. Elements of less than a byte begin
# at the lowest bits, as in ONNX and safetensors. Narrow floats are those of ml_dtypes. NumPy is imported where
# elements are decoded: who asks for names, shapes and bytes does without it.

#: Element types that NumPy has, as they are stored.
PLAIN: dict[str, str] = {
    "float64": "<f8",
    "float32": "<f4",
    "float16": "<f2",
    "bfloat16": "<u2",
    "int64": "<i8",
    "int32": "<i4",
    "int16": "<i2",
    "int8": "|i1",
    "uint64": "<u8",
    "uint32": "<u4",
    "uint16": "<u2",
    "uint8": "|u1",
    "complex64": "<c8",
    "complex128": "<c16",
}

#: Narrow element types -> the name of their type in ml_dtypes, and the type of number that holds their values.
NARROW: dict[str, tuple[str, str]] = {
    "float8e4m3fn": ("float8_e4m3fn", "f4"),
    "float8e4m3fnuz": ("float8_e4m3fnuz", "f4"),
    "float8e5m2": ("float8_e5m2", "f4"),
    "float8e5m2fnuz": ("float8_e5m2fnuz", "f4"),
    "float8e8m0": ("float8_e8m0fnu", "f4"),
    "float6e2m3": ("float6_e2m3fn", "f4"),
    "float6e3m2": ("float6_e3m2fn", "f4"),
    "float4e2m1": ("float4_e2m1fn", "f4"),
    "int4": ("int4", "i1"),
    "int2": ("int2", "i1"),
    "uint4": ("uint4", "u1"),
    "uint2": ("uint2", "u1"),
}


class Encoding(NamedTuple):
    """An element type as it is stored: how many elements take how many bytes, and what makes numbers of them."""

    elements: int
    nbytes: int
    #: uint8 array -> numbers.
    decode: Callable[[Array], Array]
    #: NumPy's name of the stored type; "" where NumPy has no such type.
    stored: str = ""
    #: The function that made it and its arguments, for copies.
    made_by: tuple[Callable[..., Any], tuple[object, ...]] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        assert self.made_by is not None
        return self.made_by


@functools.cache
def encoding(dtype: str, order: str = "<") -> Encoding | None:
    """The encoding of an element type; None for one without numbers (strings).

    Args:
        dtype: a name of ``flopwise.graph.dtypes``.
        order: "<" for the lowest byte first, ">" for the highest.
    """
    origin = (encoding, (dtype, order))
    if dtype in PLAIN:
        stored = PLAIN[dtype].replace("<", order)
        return Encoding(1, BITS[dtype] // 8, _decoder(dtype, stored), stored, origin)
    if dtype == "bool":
        return Encoding(1, 1, lambda data: data != 0, made_by=origin)
    if dtype in ("uint6", "uint3", "uint1"):
        return Encoding(8, BITS[dtype], _across(BITS[dtype]), made_by=origin)
    if dtype not in NARROW:
        return None
    bits = BITS[dtype]
    if bits == 6:
        return Encoding(4, 3, _sixes(dtype), made_by=origin)
    return Encoding(8 // bits, 1, _looked_up(dtype), made_by=origin)


def numpy_type(dtype: str) -> Any:
    """NumPy's type of an element type.

    Raises:
        TypeError: there is none.
    """
    import numpy

    if dtype in NARROW or dtype == "bfloat16":
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, NARROW[dtype][0] if dtype in NARROW else dtype))
    return numpy.dtype(dtype)


def length(elements: int, dtype: str) -> int:
    """Bytes that elements take, bits rounded up."""
    return (elements * BITS[dtype] + 7) // 8


def numbers(array: Array) -> Array:
    """An array with its elements in the types that a payload gives: float16 and narrower floats as float32."""
    import numpy

    kind, name = array.dtype, array.dtype.name
    if name == "bool" or (name in PLAIN and name != "bfloat16"):
        plain = numpy.float32 if kind == numpy.float16 else kind.newbyteorder("=")
        return array.astype(plain, copy=False)
    if name == "bfloat16" or name.startswith("float"):
        return array.astype(numpy.float32)
    if name.startswith(("int", "uint")):
        return array.astype(numpy.uint8 if name.startswith("u") else numpy.int8)
    raise ValueError(f"elements of type {name} are not numbers")


def _decoder(dtype: str, stored: str) -> Callable[[Array], Array]:
    """A function from bytes to numbers in a type that NumPy has; 16 bits of a float32 are shifted to their place."""

    def decode(data: Array) -> Array:
        import numpy

        array = data.view(stored)
        if dtype == "bfloat16":
            return (array.astype(numpy.uint32) << 16).view(numpy.float32)
        return array.astype(numpy.float32 if dtype == "float16" else array.dtype.newbyteorder("="), copy=False)

    return decode


@functools.cache
def _values(dtype: str) -> Any:
    """The number that each pattern of bits stands for."""
    import ml_dtypes
    import numpy

    name, kind = NARROW[dtype]
    patterns = numpy.arange(1 << BITS[dtype], dtype=numpy.uint8)
    return patterns.view(getattr(ml_dtypes, name)).astype(kind)


@functools.cache
def _table(dtype: str) -> Any:
    """The numbers in each byte, lowest bits first."""
    import numpy

    values, bits = _values(dtype), BITS[dtype]
    every = numpy.arange(256, dtype=numpy.uint16)[:, None]
    return values[(every >> numpy.arange(0, 8, bits, dtype=numpy.uint16)) & ((1 << bits) - 1)]


def _looked_up(dtype: str) -> Callable[[Array], Array]:
    """By a table."""
    return lambda data: _table(dtype)[data].reshape(-1)


def _sixes(dtype: str) -> Callable[[Array], Array]:
    """Four elements in three bytes."""

    def decode(data: Array) -> Any:
        import numpy

        padded = numpy.zeros(-(-data.size // 3) * 3, numpy.uint8)
        padded[: data.size] = data
        threes = padded.reshape(-1, 3).astype(numpy.uint32)
        words = threes[:, 0] | threes[:, 1] << 8 | threes[:, 2] << 16
        places = (words[:, None] >> numpy.arange(0, 24, 6, dtype=numpy.uint32)) & 63
        return _values(dtype)[places].reshape(-1)

    return decode


def _across(bits: int) -> Callable[[Array], Array]:
    """Numbers of so many bits, one after the other across the bytes."""

    def decode(data: Array) -> Array:
        import numpy

        flags = numpy.unpackbits(data, bitorder="little")
        rows = flags[: flags.size // bits * bits].reshape(-1, bits)
        return numpy.packbits(rows, axis=1, bitorder="little").reshape(-1)

    return decode


class EncodedElements(Elements):
    """Elements in bytes, in an encoding."""

    def __init__(self, span: Span, encoding: Encoding, count: int) -> None:
        self.storage = span.storage
        self._span = span
        self._encoding = encoding
        self._count = count

    def blocks(self, elements: int) -> Iterator[Array]:
        import numpy

        encoding, left = self._encoding, self._count
        if not left:
            return
        for part in self._span.parts(max(elements // encoding.elements, 1) * encoding.nbytes):
            block = encoding.decode(numpy.frombuffer(part, numpy.uint8))[:left]
            left -= block.size
            yield block

    def raw(self) -> Array | None:
        import numpy

        view = self._span.view() if self._encoding.stored and not self._encoding.stored.startswith(">") else None
        return None if view is None else numpy.frombuffer(view, self._encoding.stored, self._count)


def concatenated(elements: Elements) -> Array:
    """All elements in a row, in memory."""
    import numpy

    parts = list(elements.blocks(1 << 18))
    return numpy.concatenate(parts) if parts else numpy.empty(0, numpy.float32)


def strided(
    elements: EncodedElements,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    each: int = 1,
    marks: tuple[bool, bool] = (False, False),
) -> object:
    """A tensor whose elements do not lie in its order, or are marked as conjugate or negative.

    Args:
        elements: what its storage holds, from its first element to its last.
        shape: its shape, in stored units.
        strides: in stored units.
        each: elements of a unit.
        marks: whether it is marked as conjugate, and as negative.
    """
    import numpy

    flat = concatenated(elements)
    width = flat.itemsize
    steps = (*(stride * each * width for stride in strides), width)
    array = numpy.lib.stride_tricks.as_strided(flat, (*shape, each), steps, writeable=False)
    conjugate, negative = marks
    array = array.conj() if conjugate else array
    return -array if negative else array


# Elements in memory: an array, or one value that is repeated. NumPy is imported when somebody asks for them.


class ArrayElements(Elements):
    """Elements that are an array in memory once somebody asks."""

    def __init__(self, load: Callable[[], object], flat: bool = False) -> None:
        """
        Args:
            load: gives the array.
            flat: whether each call gives the same memory, so that ``raw`` may hand it out.
        """
        self._load = load
        self._flat = flat

    def blocks(self, elements: int) -> Iterator[Array]:
        import numpy

        array = numpy.asanyarray(self._load())
        if array.flags.c_contiguous:
            flat = array.reshape(-1)
            for at in range(0, flat.size, elements):
                yield numbers(flat[at : at + elements])
            return
        for at in range(0, array.size, elements):
            yield numbers(array.flat[at : at + elements])

    def array(self) -> Array | None:
        import numpy

        array: Array = numbers(numpy.asanyarray(self._load()))
        return array

    def raw(self) -> Array | None:
        if not self._flat:
            return None
        import numpy

        array = numpy.asanyarray(self._load())
        if not array.flags.c_contiguous or array.dtype.kind not in "iuf" or not array.dtype.isnative:
            return None
        view: Array = array.reshape(-1).view()
        view.flags.writeable = False
        return view


class RepeatedElements(Elements):
    """One value that stands for all elements, in no more memory than one of them."""

    def __init__(self, value: Callable[[], Array], shape: tuple[int, ...]) -> None:
        """
        Args:
            value: gives the value, an array of one element.
            shape: of the tensor.
        """
        self._value = value
        self._shape = shape

    def blocks(self, elements: int) -> Iterator[Array]:
        import numpy

        value, count = numbers(self._value())[0], math.prod(self._shape)
        for at in range(0, count, elements):
            yield numpy.broadcast_to(value, (min(elements, count - at),))

    def array(self) -> Array | None:
        import numpy

        try:
            return numpy.broadcast_to(numbers(self._value())[0], self._shape)
        except ValueError as error:
            raise ModelError(f"a tensor of shape {self._shape} cannot be made ({error})") from error


# The stored tensors of a model together, with the files that are open for them, and how one is made from its place.

#: What a note says that tells how much came over the network.
NETWORK = " over the network in "

#: What the note on a data file says that has further names.
HARD_LINK = " is a hard link: "


@dataclass(frozen=True)
class StoredTensors:
    """The stored tensors of a model. ``close()`` lets go of the files; arrays that look into them stay valid."""

    model: str
    format: str
    tensors: tuple[StoredTensor, ...]
    #: What the user should know, one line each.
    notes: tuple[str, ...] = ()
    #: Other names of tensors among these.
    others: frozenset[str] = frozenset()
    #: The files that are open.
    storages: tuple[Storage, ...] = field(default=(), repr=False, compare=False)

    @classmethod
    def from_file(
        cls, storage: SourceStorage, format: str, tensors: Iterable[StoredTensor], notes: tuple[str, ...] = ()
    ) -> StoredTensors:
        """The stored tensors of one file."""
        summary = storage.network_summary()
        notes = (*notes, summary) if summary else notes
        return cls(shown(storage.name), format, tuple(tensors), notes, storages=(storage,))

    def notes_by_now(self) -> tuple[str, ...]:
        """The notes, with what came over the network since the file was opened."""
        now = dict.fromkeys(text for storage in self.storages if (text := storage.network_summary()))
        return (*(note for note in self.notes if NETWORK not in note), *now) if now else self.notes

    def close(self) -> None:
        """Let go of the files."""
        for storage in self.storages:
            storage.close()

    def __enter__(self) -> StoredTensors:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def in_memory(name: str, load: Callable[[], object], shape: tuple[int, ...], dtype: str, **facts: Any) -> StoredTensor:
    """A tensor whose elements are an array in memory; ``dtype`` is a name of ``flopwise.graph.dtypes``."""
    return StoredTensor(name, shape, dtype, length(math.prod(shape), dtype), elements=ArrayElements(load), **facts)


def in_storage(
    name: str,
    shape: tuple[int, ...],
    dtype: str,
    storage: SourceStorage,
    runs: tuple[tuple[int, int], ...],
    **facts: Any,
) -> StoredTensor:
    """A tensor whose elements lie in ranges of a storage, the lowest byte first.

    Args:
        name: as in the file.
        shape: its shape.
        dtype: a name of ``flopwise.graph.dtypes``.
        storage: where the elements lie.
        runs: from and to, in bytes, one range after the other.
        facts: further fields of ``StoredTensor``.

    Raises:
        ModelError: the type holds no numbers, or the ranges do not hold the elements that shape and type say.
    """
    stored = encoding(dtype)
    if stored is None:
        raise ModelError(f"{storage.name}: tensor {name!r} has the type {dtype}, which holds no numbers")
    count = math.prod(shape)
    expected, nbytes = length(count, dtype), sum(end - start for start, end in runs)
    if expected != nbytes:
        raise ModelError(
            f"{storage.name}: tensor {name!r} of shape {shape} and type {dtype} takes {expected:,} bytes, "
            f"but {nbytes:,} are stored"
        )
    return StoredTensor(
        name, shape, dtype, nbytes, elements=EncodedElements(Runs(storage, runs), stored, count), **facts
    )


def parted(name: str) -> tuple[str, str]:
    """The layer and the last part of a tensor's name.

    >>> parted("model.layers.0.q_proj.weight"), parted("weight")
    (('model.layers.0.q_proj', 'weight'), ('', 'weight'))
    """
    layer, _, last = name.rpartition(".")
    return layer, last


#: Last parts of the names of tensors that are statistics and tables, not trained weights.
BUFFERS = frozenset({"running_mean", "running_var", "position_ids", "inv_freq", "attn_mask"})


def role_of(name: str, dtype: str) -> str:
    """The role of a tensor, as far as its name and type tell.

    >>> role_of("bn.running_mean", "float32"), role_of("fc.weight", "int8"), role_of("bn.num_batches_tracked", "int64")
    ('buffer', 'weight', 'constant')
    """
    last = parted(name)[1]
    if last in BUFFERS:
        return "buffer"
    if dtype in ("int64", "int32", "int16", "uint64", "uint32", "uint16", "bool") and "weight" not in last:
        return "constant"
    return "weight"


def said_by_name(name: str, dtype: str) -> dict[str, Any]:
    """The layer and the role of a tensor, as far as its name and type tell."""
    return {"layer": parted(name)[0], "role": role_of(name, dtype)}


def in_slots(tensors: list[StoredTensor]) -> tuple[StoredTensor, ...]:
    """The tensors with their positions in their layers: weight first, bias second, then the others as they come."""
    first = {"weight": 0, "bias": 1}
    layers: dict[str, list[StoredTensor]] = {}
    for tensor in tensors:
        layers.setdefault(tensor.layer, []).append(tensor)
    slots: dict[str, int] = {}
    for layer in layers.values():
        for slot, tensor in enumerate(sorted(layer, key=lambda t: first.get(parted(t.name)[1], 2))):
            slots[tensor.name] = slot
    return tuple([replace(t, slot=slots[t.name]) if slots[t.name] else t for t in tensors])
