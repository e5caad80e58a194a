"""The stored tensors of programs in files, without running or importing anything that the files name."""

from __future__ import annotations

import contextlib
import functools
import math
from dataclasses import replace
from typing import Any

from flopwise.errors import ModelError
from flopwise.graph import StoredTensor
from flopwise.graph.stored import Elements
from flopwise.readers.source.source import FileSource
from flopwise.readers.torch.program.content import Content, Place, last_element
from flopwise.readers.weights.elements import ArrayElements, EncodedElements, strided
from flopwise.readers.weights.encoding import encoding, length
from flopwise.readers.weights.modules import dtype_of, stored_tensor
from flopwise.readers.weights.storage import Runs, SourceStorage
from flopwise.readers.weights.tensor import StoredTensors, in_slots, parted, role_of


def of_exported(path: str) -> StoredTensors:
    """The stored tensors of an exported program.

    Raises:
        ModelError: it is damaged.
    """
    storage = SourceStorage.of(FileSource(path))
    tensors: list[StoredTensor] = []
    notes: tuple[str, ...] = ()
    with contextlib.closing(Content(path)) as content:
        places, loaded, kinds = content.tensors()
        for name, place in places.items():
            tensors.append(at_place(name, place, _role(name, place.dtype, kinds[name]), storage))
        strange = []
        for name, tensor in loaded.items():
            one = stored_tensor(name, tensor, _role(name, str(tensor.dtype), kinds[name]))
            if one is None:
                strange.append(name)
            else:
                tensors.append(one)
        if strange:
            notes = (f"tensor {strange[0]!r} is sparse, nested or of a type that holds no numbers; left out",)
    return replace(StoredTensors.of(storage, "torch", in_slots(tensors), notes), model=path)


def _role(name: str, dtype: str, kind: str) -> str:
    """A single number that counts steps is a constant among the buffers."""
    return "constant" if kind == "buffer" and role_of(name, dtype.removeprefix("torch.")) == "constant" else kind


def at_place(name: str, place: Place, role: str, storage: SourceStorage, op: str = "") -> StoredTensor:
    """A tensor whose elements lie in a member that is not compressed.

    Raises:
        ModelError: the member is shorter than the tensor says, or its type holds no numbers.
    """
    dtype = dtype_of(place.dtype)
    stored = encoding(dtype)
    if stored is None:
        raise ModelError(f"{storage.name}: tensor {name!r} has the type {place.dtype}, which holds no numbers")
    count, last = math.prod(place.shape), last_element(place)
    if last * stored.nbytes > place.nbytes or place.start + place.nbytes > storage.size:
        raise ModelError(f"{storage.name}: tensor {name!r} of shape {place.shape} is longer than what is stored")
    first = place.start + place.offset * stored.nbytes
    held = EncodedElements(Runs(storage, ((first, place.start + last * stored.nbytes),)), stored, last - place.offset)
    elements: Elements = held
    rows = [math.prod(place.shape[i + 1 :]) for i in range(len(place.shape))]
    if count > 1 and any(d > 1 and s != row for d, s, row in zip(place.shape, place.strides, rows, strict=True)):
        elements = ArrayElements(functools.partial(strided, held, place.shape, place.strides))
    return StoredTensor(name, place.shape, dtype, length(count, dtype), parted(name)[0], op, role, elements=elements)


def fits(value: Any) -> bool:
    """Whether a number from a file can be a size, a stride or a place."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
