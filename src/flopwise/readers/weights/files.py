"""Files with tensors and no graph, one or several with an index: their payloads."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flopwise.errors import ModelError
from flopwise.readers.formats import shown, weight_file
from flopwise.readers.source.source import Source, open_source
from flopwise.readers.weights import gguf, safetensors
from flopwise.readers.weights.storage import Coded, Runs, Store
from flopwise.readers.weights.tensor import NETWORK, Payload, Stored, in_slots, in_store, parted, role_of

#: Longest index of the files of a model, in bytes.
LONGEST_INDEX = 64 << 20

#: What a reader of a format takes apart: an open source, and the name of its file.
Opener = Callable[[Source], Stored]


def open_file(name: str, kind: str) -> Stored:
    """The stored tensors of a file of a format.

    Args:
        name: path or URL of the file.
        kind: as :func:`flopwise.readers.formats.weight_file` says.

    Raises:
        ModelError: the file cannot be read.
    """
    source = open_source(name)
    try:
        return _OPENERS[kind](source)
    except BaseException:
        source.close()
        raise


def _safetensors(source: Source) -> Stored:
    entries = safetensors.read_header(source)
    store = Store(source)
    found = [in_store(e.name, e.shape, e.dtype, store, ((e.start, e.end),), **_known(e.name, e.dtype)) for e in entries]
    return Stored(
        shown(source.name),
        "safetensors",
        in_slots(found),
        _told(source),
        closing=(store.close,),
        telling=(source.told,),
    )


def _gguf(source: Source) -> Stored:
    entries = gguf.read_header(source)
    store = Store(source)
    found = []
    for entry in entries:
        held = Coded(Runs(store, ((entry.start, entry.end),)), gguf.coding_of(entry.type), math.prod(entry.shape))
        known = _known(entry.name, entry.type.name)
        found.append(Payload(entry.name, entry.shape, entry.type.name, entry.end - entry.start, elements=held, **known))
    return Stored(
        shown(source.name), "gguf", in_slots(found), _told(source), closing=(store.close,), telling=(source.told,)
    )


def _index(source: Source) -> Stored:
    """The tensors of all files that an index names; these lie beside it."""
    if source.size > LONGEST_INDEX:
        raise ModelError(f"{source.name}: {source.size:,} bytes are too many for an index")
    index = safetensors.parsed(source.read(0, source.size), source.name, "index")
    places = index.get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(v, str) for v in places.values()):
        raise ModelError(f"{source.name}: no index: it has no weight_map from names to files")
    kept: list[Payload] = []
    closing: list[Callable[[], None]] = []
    notes: list[str] = []
    for file in dict.fromkeys(places.values()):
        if os.path.basename(file) != file or "\\" in file or file in ("", ".", ".."):
            raise ModelError(f"{source.name}: its shard {file[:200]!r} does not lie beside it; refused")
        _, kind = weight_file(file)
        if kind not in ("safetensors", "torch"):
            raise ModelError(f"{source.name}: its shard {file[:200]!r} is no file of weights")
        stored = _OPENERS[kind](source.beside(file, f"{source.name}: a shard"))
        closing += stored.closing
        here = {name for name, place in places.items() if place == file}
        kept += [payload for payload in stored.payloads if payload.name in here]
        there = stored.others.union(payload.name for payload in stored.payloads)
        missing = here - there
        if missing:
            raise ModelError(f"{source.name}: {file} has no tensor {min(missing)[:200]!r}, but the index says so")
        extra = len(there) - len(here)
        if extra:
            notes.append(f"{file} holds {extra} tensors that the index does not name; left out")
        notes += [note for note in stored.notes if NETWORK not in note]
    told = (*notes, *_told(source))
    return Stored(
        shown(source.name),
        "safetensors",
        in_slots(kept),
        told,
        closing=tuple(closing),
        telling=(source.told,),
    )


def _torch_index(source: Source) -> Stored:
    return replace(_index(source), format="torch")


def _torch(source: Source) -> Stored:
    from flopwise.readers.weights.checkpoint import of_checkpoint

    return of_checkpoint(source)


def _npz(source: Source) -> Stored:
    from flopwise.readers.weights.numpy import of_npz

    return of_npz(source)


def _npy(source: Source) -> Stored:
    from flopwise.readers.weights.numpy import of_npy

    return of_npy(source)


_OPENERS: dict[str, Opener] = {
    "safetensors": _safetensors,
    "safetensors-index": _index,
    "torch-index": _torch_index,
    "torch": _torch,
    "gguf": _gguf,
    "npz": _npz,
    "npy": _npy,
}


def _known(name: str, dtype: str) -> dict[str, Any]:
    """What the name of a tensor tells."""
    return {"layer": parted(name)[0], "role": role_of(name, dtype)}


def _told(source: Source) -> tuple[str, ...]:
    return (source.told(),) if source.told() else ()
