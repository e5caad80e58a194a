"""The stored blobs of a Caffe net as stored tensors: with their layers alone, or under the names of a net's graph.

Weights in HDF5 (.caffemodel.h5) lie in groups ``data/<layer>/<index>``; only shapes are read. Source: BVLC Caffe,
src/caffe/net.cpp (ToHDF5).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from flopwise._limits import within_unpacking
from flopwise.errors import ModelError, message
from flopwise.formats.caffe.decode import Blob, Caffemodel, read_caffemodel
from flopwise.formats.caffe.message import Message
from flopwise.graph import StoredTensor
from flopwise.readers.source.open import open_source
from flopwise.readers.source.source import Source
from flopwise.readers.weights.hdf5 import Dataset, Hdf5
from flopwise.readers.weights.storage import SourceStorage
from flopwise.readers.weights.tensor import StoredTensors, in_memory, in_storage

#: NumPy's names of the element types of blobs -> flopwise's.
DTYPES = {"<f4": "float32", "<f8": "float64", "<f2": "float16"}

#: First bytes of an HDF5 file.
SIGNATURE = b"\x89HDF\r\n"


def read_h5(source: Source) -> Caffemodel:
    """The shapes of the blobs of each layer; such a file has neither types nor connections.

    Raises:
        ModelError: h5py is not installed, or the file is damaged or no such file.
    """
    if find_spec("h5py") is None:
        raise ModelError(f"{source.name}: reading HDF5 needs h5py; pip install 'flopwise[h5]'")
    file = Hdf5(source.later())
    try:
        content = file.content()
    except ModelError as error:
        why = message(error).removeprefix(f"{source.name}: ")
        raise ModelError(f"{source.name}: not Caffe weights, or damaged ({why})") from None
    for link in content.links:
        if link == "data" or link.startswith("data/"):
            raise ModelError(f"{source.name}: /{link} is a link to another place; links are not followed")
    inner = [group.removeprefix("data/") for group in content.groups if group.startswith("data/")]
    around = {group.rpartition("/")[0] for group in inner}  # of a layer whose name has a slash
    layers: dict[str, dict[int, Blob]] = {group: {} for group in inner if group not in around}
    for dataset in content.datasets:
        _, _, inside = dataset.place.partition("data/")
        layer, _, number = inside.rpartition("/")
        if dataset.place != f"data/{inside}" or not number.isdecimal():
            raise ModelError(f"{source.name}: not Caffe weights, or damaged (it holds {dataset.place!r})")
        layers.setdefault(layer, {})[int(number)] = _blob(file, dataset, source.name)
    if "data" not in content.groups:
        raise ModelError(f"{source.name}: not Caffe weights, or damaged (it has no group 'data')")
    blobs = {layer: tuple([members[key] for key in sorted(members)]) for layer, members in layers.items()}
    return Caffemodel(Message([]), blobs, {}, hdf5=True)


def _blob(file: Hdf5, dataset: Dataset, path: str) -> Blob:
    """A blob by its place in the file; without one where it is compressed or in pieces.

    Raises:
        ModelError: its elements are those of other files, are no floating-point numbers, or take much more memory than
            they take in the file.
    """
    what = f"{path}: /{dataset.place}"
    if dataset.elsewhere:
        raise ModelError(f"{what} has its elements in other files; they are not read")
    if dataset.code[1:2] != "f" or dataset.shape is None:
        raise ModelError(f"{what} does not hold floating-point numbers")
    if dataset.offset is None or dataset.code not in DTYPES:
        within_unpacking(dataset.stored, dataset.nbytes, what)
        return Blob(dataset.shape, (), dataset.code, functools.partial(file.elements, dataset))
    return Blob(dataset.shape, ((dataset.offset, dataset.offset + dataset.nbytes),), dataset.code)


#: Types of layers whose blobs are statistics.
STATISTICS = frozenset({"BatchNorm"})


def read_stored(source: Source) -> Caffemodel:
    """The content of a file with weights, whichever of its two forms it has.

    Raises:
        ModelError: it is damaged, or is no such file.
    """
    is_hdf5 = source.read(0, min(source.size, len(SIGNATURE))) == SIGNATURE
    return read_h5(source) if is_hdf5 else read_caffemodel(source)


def open_caffemodel(model: str) -> StoredTensors:
    """The stored blobs of a .caffemodel or .caffemodel.h5.

    Raises:
        ModelError: the file cannot be read, or holds no layers.
    """
    source = open_source(model)
    if source.size == 0:
        raise ModelError(f"{source.name}: the file is empty")
    stored = read_stored(source)
    if not stored.blobs and not stored.net.names():
        raise ModelError(f"{source.name}: holds no layers; not a .caffemodel")
    storage = SourceStorage.from_source(source)
    layers = [*stored.net.messages("layer"), *stored.net.messages("layers")]
    kinds = {layer.text("name", ""): layer.text("type", "") for layer in layers}
    tensors = []
    for layer, blobs in stored.blobs.items():
        kind = kinds.get(layer, "")
        role = "buffer" if kind in STATISTICS else "weight"
        for slot, blob in enumerate(blobs):
            if blob.runs or stored.hdf5:
                facts = {"layer": layer, "op": kind, "slot": slot, "role": role}
                tensors.append(stored_blob(f"{layer}/{slot}", blob.shape, blob, storage, **facts))
    return StoredTensors.from_file(storage, "caffe", tensors)


def stored_blob(name: str, shape: tuple[int, ...], blob: Blob, storage: SourceStorage, **facts: object) -> StoredTensor:
    """A blob as a stored tensor.

    Args:
        name: what to call it.
        shape: its shape where it is used; the stored one may have leading ones.
        blob: where its elements lie, or what reads them.
        storage: the file.
        facts: further fields of ``StoredTensor``.

    Raises:
        ModelError: the file does not hold the elements that the shape says.
    """
    dtype = DTYPES.get(blob.dtype, "float32")
    if blob.runs:
        return in_storage(name, shape, dtype, storage, blob.runs, **facts)
    assert blob.load is not None
    return in_memory(name, functools.partial(_shaped, blob.load, shape), shape, dtype, **facts)


def _shaped(load: Callable[[], Any], shape: tuple[int, ...]) -> object:
    return load().reshape(shape)
