"""The stored blobs of a Caffe net as stored tensors: with their layers alone, or under the names of a net's graph.

Weights in HDF5 (.caffemodel.h5) lie in groups ``data/<layer>/<index>``; only shapes are read. Source: BVLC Caffe,
src/caffe/net.cpp (ToHDF5).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flopwise._limits import within_unpacking
from flopwise.errors import ModelError
from flopwise.graph import StoredTensor
from flopwise.readers.caffe.file.binary import Blob, Caffemodel, read_caffemodel
from flopwise.readers.caffe.file.message import Message
from flopwise.readers.source.location import explained, in_words
from flopwise.readers.source.open import open_source
from flopwise.readers.source.source import FileSource, Source
from flopwise.readers.weights.storage import SourceStorage, reading
from flopwise.readers.weights.tensor import StoredTensors, in_memory, in_storage

if TYPE_CHECKING:
    import h5py

#: NumPy's names of the element types of blobs -> flopwise's.
DTYPES = {"<f4": "float32", "<f8": "float64", "<f2": "float16"}

#: First bytes of an HDF5 file.
SIGNATURE = b"\x89HDF\r\n"


def read_h5(source: Source) -> Caffemodel:
    """The shapes of the blobs of each layer; such a file has neither types nor connections.

    Raises:
        ModelError: h5py is not installed, or the file is damaged or no such file.
    """
    try:
        import h5py
    except ImportError:
        raise ModelError(f"{source.name}: reading HDF5 needs h5py; pip install 'flopwise[h5]'") from None
    blobs = {}
    why = explained(lambda error: f"{source.name}: not Caffe weights, or damaged ({in_words(error)})")
    with why, h5py.File(for_h5py(source), "r") as file:
        data = _member(file, "data", source.name)
        for name in data:
            members = _member(data, name, source.name)
            listed = [_member(members, key, source.name) for key in sorted(members, key=int)]
            blobs[name] = tuple([_blob(dataset, source.name) for dataset in listed])
    return Caffemodel(Message([]), blobs, {}, hdf5=True)


def _member(group: h5py.Group, name: str, path: str) -> Any:
    """A member of a group, which has to be in this file.

    Raises:
        ModelError: it is a link, which may lead to another file.
    """
    import h5py

    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise ModelError(f"{path}: {group.name.rstrip('/')}/{name} is a link to another place; links are not followed")
    return group[name]


def _blob(dataset: h5py.Dataset, path: str) -> Blob:
    """A blob by its place in the file; without one where it is compressed or in pieces.

    Raises:
        ModelError: its elements are those of other files, are no floating-point numbers, or take much more memory than
            they take in the file.
    """
    what = f"{path}: {dataset.name}"
    if dataset.is_virtual or dataset.external:
        raise ModelError(f"{what} has its elements in other files; they are not read")
    if dataset.dtype.kind != "f" or dataset.shape is None:
        raise ModelError(f"{what} does not hold floating-point numbers")
    shape, start = tuple(map(int, dataset.shape)), dataset.id.get_offset()
    if start is None or dataset.file.userblock_size or dataset.dtype.str not in DTYPES:
        within_unpacking(dataset.id.get_storage_size(), dataset.nbytes, what)
        return Blob(shape, (), dataset.dtype.str)
    return Blob(shape, ((start, start + dataset.nbytes),), dataset.dtype.str)


def for_h5py(source: Source) -> object:
    """An argument for h5py: the path of a file, a stream of anything else."""
    from flopwise.readers.weights.zip import Reading

    return source.name if isinstance(source, FileSource) else Reading(source)


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
                tensors.append(stored_blob(f"{layer}/{slot}", blob.shape, blob, (layer, slot), storage, **facts))
    return StoredTensors.from_file(storage, "caffe", tensors)


def stored_blob(
    name: str, shape: tuple[int, ...], blob: Blob, place: tuple[str, int], storage: SourceStorage, **facts: object
) -> StoredTensor:
    """A blob as a stored tensor.

    Args:
        name: what to call it.
        shape: its shape where it is used; the stored one may have leading ones.
        blob: where its elements lie; in an HDF5 file by ``place``.
        place: its layer, and its position among the blobs of the layer.
        storage: the file.
        facts: further fields of ``StoredTensor``.

    Raises:
        ModelError: the file does not hold the elements that the shape says.
    """
    dtype = DTYPES.get(blob.dtype, "float32")
    if blob.runs:
        return in_storage(name, shape, dtype, storage, blob.runs, **facts)
    return in_memory(name, functools.partial(_from_hdf5, storage.reopened, *place, shape), shape, dtype, **facts)


def _from_hdf5(reopened: Callable[[], Source], layer: str, slot: int, shape: tuple[int, ...]) -> object:
    """The elements of a blob, read when somebody asks."""
    import h5py

    source = reopened()
    with reading(source.name), h5py.File(for_h5py(source), "r") as file:
        members = file["data"][layer]
        return members[sorted(members, key=int)[slot]][()].reshape(shape)
