"""A model in several files of weights with an index: model.safetensors.index.json, pytorch_model.bin.index.json.

Source: https://huggingface.co/docs/safetensors/metadata_parsing and https://huggingface.co/docs/transformers/big_models
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from flopwise._limits import within_limit
from flopwise.errors import ModelError, counted
from flopwise.graph.stored import Storage, StoredTensor
from flopwise.readers.source.source import Source
from flopwise.readers.weights.safetensors import parsed
from flopwise.readers.weights.storage import SourceStorage
from flopwise.readers.weights.tensor import NETWORK, StoredTensors, in_slots

#: Gives the stored tensors of one open file.
Opener = Callable[[Source], StoredTensors]


def of_index(source: Source, format: str, opener: Opener, endings: tuple[str, ...]) -> StoredTensors:
    """The tensors of all files that an index names; these lie beside it.

    Args:
        source: the index.
        format: of the model.
        opener: gives the tensors of one of its files.
        endings: what the names of these files end in.

    Raises:
        ModelError: the index or a file is damaged, or they do not fit together.
    """
    within_limit("header_bytes", source.size, f"{source.name}: the index has")
    index = parsed(source.read(0, source.size), source.name, "index")
    places = index.get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(v, str) for v in places.values()):
        raise ModelError(f"{source.name}: no index: it has no weight_map from names to files")
    tensors: list[StoredTensor] = []
    storages: list[Storage] = []
    notes: list[str] = []
    names: dict[str, set[str]] = {}
    for name, file in places.items():
        names.setdefault(file, set()).add(name)
    for file, here in names.items():
        if os.path.basename(file) != file or "\\" in file or file in ("", ".", ".."):
            raise ModelError(f"{source.name}: its shard {file[:200]!r} does not lie beside it; refused")
        if not file.lower().endswith(endings):
            raise ModelError(f"{source.name}: its shard {file[:200]!r} is not a weights file")
        stored = opener(source.beside(file, f"{source.name}: a shard"))
        storages += stored.storages
        tensors += [tensor for tensor in stored.tensors if tensor.name in here]
        there = stored.others.union(tensor.name for tensor in stored.tensors)
        missing = here - there
        if missing:
            raise ModelError(f"{source.name}: {file} has no tensor {min(missing)[:200]!r}, but the index says so")
        extra = len(there) - len(here)
        if extra:
            notes.append(f"{file} holds {counted(extra, 'tensor')} that the index does not name; left out")
        notes += [note for note in stored.notes if NETWORK not in note]
    index_file = SourceStorage.of(source)  # its count of bytes over the network is that of all files
    whole = StoredTensors.of(index_file, format, in_slots(tensors), tuple(notes))
    return replace(whole, storages=(index_file, *storages))
