"""A file with tensors and no graph as a Graph: one row for each tensor, whose operator is unknown.

So its parameters and bytes can be listed and added up, while what it computes stays unknown, not zero. A model may lie
in several files with an index: model.safetensors.index.json, pytorch_model.bin.index.json.

Source: https://huggingface.co/docs/safetensors/metadata_parsing and https://huggingface.co/docs/transformers/big_models
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from dataclasses import replace

from flopwise._limits import within_limit
from flopwise.errors import ModelError, counted
from flopwise.graph import Graph, Kind, Module, Node, StoredTensor, Tensor
from flopwise.graph.dtypes import BITS
from flopwise.graph.stored import Storage
from flopwise.readers.source.location import is_url, naming, shown
from flopwise.readers.source.open import open_source
from flopwise.readers.source.source import Source
from flopwise.readers.weights.packing import configured, with_packing
from flopwise.readers.weights.safetensors import parsed
from flopwise.readers.weights.storage import SourceStorage
from flopwise.readers.weights.tensor import NETWORK, StoredTensors, in_slots

#: The operator of each row.
OP = "flopwise::Tensor"

#: Parts of a name that are taken for modules inside each other; a longer one is that of one module.
DEEPEST = 64

#: Gives the stored tensors of an open file.
Opener = Callable[[Source], StoredTensors]


def open_weights(opener: Opener, model: str) -> StoredTensors:
    """The stored tensors of a file; no element is read.

    Raises:
        ModelError: the file cannot be read.
    """
    with naming(model):
        source = open_source(model)
        try:
            stored = opener(source)
            tensors, notes = with_packing(stored.tensors)
        except BaseException:
            source.close()
            raise
        quantised = "" if is_url(model) else configured(model)
        if quantised and not notes:
            quantised += "; tensors are counted as they are stored"
        return replace(stored, tensors=tensors, notes=(*stored.notes, *notes, *([quantised] if quantised else [])))


def read_weights(opener: Opener, model: str) -> Graph:
    """The tensors of a file or of all files that an index names; only headers are read.

    Args:
        opener: takes its format apart.
        model: path or URL.

    Raises:
        ModelError: the file cannot be read.
    """
    name = shown(model)
    with open_weights(opener, model) as stored:
        if not stored.tensors:
            raise ModelError(f"{name}: holds no tensors")
        note = f"{name} holds weights only: name the architecture to count it, e.g. torchvision.models:resnet50"
        return Graph(
            name=_title(name),
            format=stored.format,
            source=name,
            inputs=(),
            outputs=(),
            nodes=tuple([_row(tensor, stored.format) for tensor in stored.tensors]),
            weights={tensor.name: tensor for tensor in stored.tensors},
            warnings=(note, *stored.notes),
        )


def _row(stored: StoredTensor, origin: str) -> Node:
    kind: Kind = "weight"
    if stored.role != "weight":  # tables take memory too; single numbers do not count
        kind = "buffer" if stored.shape else "constant"
    attrs: dict[str, object] = {}
    dtype = stored.packed.dtype if stored.packed else stored.dtype
    if stored.dtype in BITS and stored.packed is None:
        tensor = Tensor(stored.name, stored.shape, stored.dtype, kind)
    else:  # bytes, which hold more elements than bytes
        tensor = Tensor(stored.name, (stored.nbytes,), "uint8", kind)
        shape = stored.packed.shape if stored.packed else stored.shape
        attrs |= {"elements": math.prod(shape), "shape": shape, "blocks": dtype}
    input, result = Tensor(f"{stored.name}:input", None, None), Tensor(f"{stored.name}:output", None, None)
    return Node(OP, stored.name, (tensor, input), (result,), attrs, _scope(stored.layer), f"{origin}:{dtype}")


@functools.lru_cache(1 << 12)
def _scope(layer: str) -> tuple[Module, ...]:
    """The modules of a dotted path, outermost first; those around it are shared with its neighbours."""
    if layer.count(".") >= DEEPEST:
        return (Module(layer, ""),)
    return (*_scope(layer.rpartition(".")[0]), Module(layer, "")) if layer else ()


def _title(name: str) -> str:
    base = os.path.basename(name.rstrip("/")) or name
    for ending in (".safetensors.index.json", ".bin.index.json"):
        base = base.removesuffix(ending)
    return os.path.splitext(base)[0] or base


def places_of(source: Source) -> dict[str, str]:
    """The files that the tensors of an index lie in, by the names of the tensors.

    Raises:
        ModelError: the index is damaged.
    """
    within_limit("header_bytes", source.size, f"{source.name}: the index has")
    places = parsed(source.read(0, source.size), source.name, "index").get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(v, str) for v in places.values()):
        raise ModelError(f"{source.name}: no index: it has no weight_map from names to files")
    return places


def open_parts(source: Source, format: str, opener: Opener, endings: tuple[str, ...]) -> StoredTensors:
    """The tensors of all files that an index names, which are in its folder.

    Args:
        source: the index.
        format: of the model.
        opener: gives the tensors of one of its files.
        endings: what the names of these files end in.

    Raises:
        ModelError: the index or a file is damaged, or they do not fit together.
    """
    places = places_of(source)
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
    index_file = SourceStorage.from_source(source)  # its count of bytes over the network is that of all files
    result = StoredTensors.from_file(index_file, format, in_slots(tensors), tuple(notes))
    return replace(result, storages=(index_file, *storages))
