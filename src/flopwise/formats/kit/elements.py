"""The elements of an ONNX model's tensors: in a stream where they are stored as they are, else loaded whole."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

from flopwise._limits import within_unpacking
from flopwise.errors import ModelError
from flopwise.formats.kit.tensors import RAW, Place, Stored, external_range, load
from flopwise.formats.weights.storage import Runs, SourceStorage, reading
from flopwise.formats.weights.tensor import ArrayElements, EncodedElements, encoding, length
from flopwise.graph import StoredTensor
from flopwise.graph.dtypes import BITS
from flopwise.graph.stored import Array, Elements

#: Fields of TensorProto whose bytes are the elements as they are, beside raw data: float and double data.
_PLAIN_FIELDS = {4: "float32", 10: "float64"}

#: Elements of a sparse tensor, zeros included, that are looked at one by one.
MOST_SPARSE = 1 << 36


def stored_tensor(name: str, stored: Stored, role: str, model: str, storage: SourceStorage | None) -> StoredTensor:
    """A tensor of a model.

    Args:
        name: what to call it.
        stored: where it lies.
        role: "weight", "buffer" or "constant".
        model: the model, for messages.
        storage: its file; None where it is in memory.
    """
    elements: Elements = OnnxElements(stored, model, storage)
    if stored.unpack is not None and storage is not None:
        nbytes = length(math.prod(stored.dims), stored.dtype)
        if stored.places:
            within_unpacking(_nbytes(stored), nbytes, f"{model}: sparse tensor {name!r}")
        elements = ArrayElements(functools.partial(stored.unpack, storage))
        return StoredTensor(name, stored.dims, stored.dtype, nbytes, role=role, elements=elements)
    zero, scale = stored.zero_point, stored.scale
    return StoredTensor(
        name, stored.dims, stored.dtype, _nbytes(stored), "", "", role, 0, zero, scale, False, None, elements
    )


def _nbytes(stored: Stored) -> int:
    if stored.unpack is not None:
        return sum(place.end - place.start for place in stored.places)
    if stored.sparse is not None:
        return sum(_nbytes(part) for part in stored.sparse)
    if stored.dtype not in BITS or stored.dtype == "string":
        return sum(place.end - place.start for place in stored.places)
    return length(math.prod(stored.dims), stored.dtype)


class OnnxElements(Elements):
    """The elements of one tensor."""

    __slots__ = ("_model", "storage", "stored")

    def __init__(self, stored: Stored, model: str, storage: SourceStorage | None) -> None:
        self.stored = stored
        self.storage: SourceStorage | None = storage
        self._model = model

    @property
    def place(self) -> tuple[str, int] | None:
        offset = self.stored.external.get("offset", "0") if self.stored.external else ""
        return (
            (self.stored.external.get("location", ""), int(offset)) if offset.isdecimal() and len(offset) < 20 else None
        )

    def blocks(self, elements: int) -> Iterator[Array]:
        return self._elements().blocks(elements)

    def raw(self) -> Array | None:
        return self._elements().raw()

    def array(self) -> Array | None:
        return self._elements().array()

    def _elements(self) -> Elements:
        stored, storage = self.stored, self.storage
        count = math.prod(stored.dims)
        encoded = encoding(stored.dtype)
        if storage is not None and encoded is not None and not stored.sparse:
            if stored.external:
                return EncodedElements(self._external(storage, length(count, stored.dtype)), encoded, count)
            if _as_they_are(stored.places, stored.dtype):
                return EncodedElements(Runs(storage, [(p.start, p.end) for p in stored.places]), encoded, count)
        if stored.sparse and count > MOST_SPARSE:
            raise ModelError(
                f"tensor {stored.name!r} is sparse and has {count:,} elements, too many to look at one by one"
            )
        if stored.sparse:
            what = f"{self._model}: tensor {stored.name!r} is sparse, it"
            within_unpacking(_nbytes(stored), length(count, stored.dtype), what)
        return ArrayElements(self._load)

    def _external(self, storage: SourceStorage, nbytes: int) -> Runs:
        stored = self.stored
        other = storage.beside(stored.external.get("location", ""), f"{self._model}: tensor {stored.name!r}")
        return Runs(other, [external_range(stored, nbytes, other.size, self._model)])

    def _load(self) -> object:
        with reading(f"{self._model}: tensor {self.stored.name!r}"):
            return load(self.stored, self._model, self.storage.reopened if self.storage else None)


def _as_they_are(places: tuple[Place, ...], dtype: str) -> bool:
    """True if the bytes of the fields are the elements of the tensor without decoding."""
    if any(place.whole for place in places) or not places:
        return False
    if len(places) == 1 and places[0].number == RAW:
        return True
    return all(_PLAIN_FIELDS.get(place.number) == dtype for place in places)
