"""The stored blobs of a Caffe net: of a .caffemodel as they are there, of a net as text through its graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from flopwise.errors import ModelError
from flopwise.readers.caffe.file.binary import read_caffemodel
from flopwise.readers.caffe.file.hdf5 import SIGNATURE
from flopwise.readers.formats import ending_of
from flopwise.readers.source.source import Source, open_source
from flopwise.readers.weights.storage import Store, reading
from flopwise.readers.weights.tensor import Payload, Stored, in_memory, in_store

#: Types of layers whose blobs are statistics.
STATISTICS = frozenset({"BatchNorm"})

_TYPES = {"<f4": "float32", "<f8": "float64", "<f2": "float16"}


def of_caffe(model: object, options: Mapping[str, Any]) -> Stored:
    """The stored blobs of a Caffe net.

    Raises:
        ModelError: the net cannot be read, or has no weights.
    """
    if not ending_of(str(model)).endswith((".caffemodel", ".caffemodel.h5")):
        from flopwise.readers.caffe.read import read_caffe
        from flopwise.readers.weights.graphs import of_graph

        keys = ("inputs", "dims", "batch_size", "phase", "stages", "level", "weights")
        return of_graph(read_caffe(model, **{key: options[key] for key in keys if options.get(key)}))
    source = open_source(model)
    if source.size == 0:
        raise ModelError(f"{source.name}: the file is empty")
    if source.read(0, min(source.size, len(SIGNATURE))) == SIGNATURE:
        return _of_h5(source)
    stored = read_caffemodel(source)
    store = Store(source)
    if not stored.blobs and not stored.net.names():
        raise ModelError(f"{source.name}: holds no layers; not a .caffemodel")
    layers = [*stored.net.messages("layer"), *stored.net.messages("layers")]
    kinds = {layer.text("name", ""): layer.text("type", "") for layer in layers}
    found: list[Payload] = []
    for layer, blobs in stored.blobs.items():
        kind = kinds.get(layer, "")
        for slot, blob in enumerate(blobs):
            if not blob.runs:
                continue
            role = "buffer" if kind in STATISTICS else "weight"
            known = {"layer": layer, "op": kind, "slot": slot, "role": role}
            found.append(in_store(f"{layer}/{slot}", blob.shape, _TYPES[blob.dtype], store, blob.runs, **known))
    notes = (source.told(),) if source.told() else ()
    return Stored(store.name, "caffe", tuple(found), notes, closing=(store.close,), telling=(source.told,))


def _of_h5(source: Source) -> Stored:
    from flopwise.readers.caffe.file.hdf5 import read_h5

    stored = read_h5(source)
    again = source.later()
    if not source.remote:
        source.close()
    found = []
    for layer, blobs in stored.blobs.items():
        for slot, blob in enumerate(blobs):
            load = functools.partial(_h5_blob, again, layer, slot)
            dtype = _TYPES.get(blob.dtype, "float32")
            found.append(in_memory(f"{layer}/{slot}", load, blob.shape, dtype, layer=layer, slot=slot))
    notes = (source.told(),) if source.told() else ()
    return Stored(source.name, "caffe", tuple(found), notes, closing=(source.close,), telling=(source.told,))


def _h5_blob(again: Callable[[], Source], layer: str, slot: int) -> Any:
    import h5py

    from flopwise.readers.caffe.file.hdf5 import opened

    source = again()
    with reading(source.name), h5py.File(opened(source), "r") as file:
        members = file["data"][layer]
        return members[sorted(members, key=int)[slot]][()]
