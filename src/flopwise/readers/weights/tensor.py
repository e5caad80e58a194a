"""The stored tensors of a model together, with the files that are open for them, and how one is made from its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from flopwise.errors import ModelError
from flopwise.graph.stored import Storage, StoredTensor
from flopwise.readers.source.location import shown
from flopwise.readers.weights.encoding import EncodedElements, encoding, length
from flopwise.readers.weights.memory import ArrayElements
from flopwise.readers.weights.storage import Runs, SourceStorage

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
