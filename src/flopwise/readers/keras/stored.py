"""The stored tensors of a Keras model: datasets of HDF5 by place, or the variables of a model in memory.

Source: https://docs.hdfgroup.org/hdf5/latest/_f_m_t3.html; the layout of groups is Keras' own (saving_lib.py).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flopwise._limits import within_limit, within_unpacking
from flopwise.errors import InputError, ModelError
from flopwise.graph import StoredTensor
from flopwise.readers.keras.file import HDF5
from flopwise.readers.keras.kinds import is_name
from flopwise.readers.options import TorchOptions
from flopwise.readers.source.location import explained
from flopwise.readers.source.open import open_source
from flopwise.readers.source.source import Source
from flopwise.readers.weights.storage import SourceStorage, reading
from flopwise.readers.weights.tensor import StoredTensors, in_memory, in_slots, in_storage
from flopwise.readers.weights.zip import Archive

if TYPE_CHECKING:
    import h5py
    import keras

#: The member of an archive that holds the weights.
_MEMBER = "model.weights.h5"

#: Statistics and states, by the last part of their names.
_STATISTICS = frozenset({"moving_mean", "moving_variance", "seed_generator_state"})

#: Parts of paths that say nothing of a layer.
_PLAIN = frozenset({"layers", "vars", "model_weights", "_layer_checkpoint_dependencies"})


def stored_in_keras(model: object, options: TorchOptions) -> StoredTensors:
    """The stored tensors of a model; no element is read yet.

    Raises:
        ModelError: the file cannot be read, or h5py is not there.
    """
    if isinstance(model, (str, os.PathLike)) and not is_name(model):
        return _of_file(os.fspath(model))
    return _of_object(model, options)


def _of_object(model: object, options: TorchOptions) -> StoredTensors:
    from flopwise.readers.keras.build import model_of
    from flopwise.readers.keras.layers import paths_of, weights_of

    layer, name = model_of(model, options, in_memory=True)

    title = name or f"{type(layer).__module__}.{type(layer).__qualname__}"
    paths = paths_of(layer)
    tensors: list[StoredTensor] = []
    weights = weights_of(layer)
    for variable in layer.variables:
        if getattr(variable.value, "is_meta", False):
            raise InputError(f"{title}: its weights are shapes without elements; give the file that holds them")
        path = paths.get(id(variable)) or variable.path.replace("/", ".")
        tensors.append(stored_variable(path, variable, id(variable) in weights))
    return StoredTensors(title, "keras", in_slots(tensors))


def stored_variable(path: str, variable: keras.Variable, weight: bool) -> StoredTensor:
    """A variable of a model in memory as a stored tensor of this name."""
    import keras

    def load() -> object:
        return keras.ops.convert_to_numpy(variable.value)

    role, dtype = "weight" if weight else "buffer", keras.backend.standardize_dtype(variable.dtype)
    return in_memory(path, load, tuple(variable.shape), dtype, layer=path.rpartition(".")[0], role=role)


def _of_file(path: str) -> StoredTensors:
    try:
        import h5py
    except ImportError:
        raise ModelError(f"{path}: h5py is needed for that: pip install 'flopwise[keras]'") from None
    source = open_source(path)
    storage = SourceStorage.from_source(source)
    with explained(lambda error: f"{path}: truncated or damaged ({' '.join(str(error).split())[:150]})"):
        start, size = _place(source, storage)
        with h5py.File(_Part(storage, start, size), "r") as file:
            tensors = list(_tensors(file, storage, start, path))
    return StoredTensors.from_file(storage, "keras", in_slots(tensors))


class _Part:
    """A stretch of a storage as a file that h5py reads."""

    def __init__(self, storage: SourceStorage, start: int, size: int) -> None:
        self._storage, self._start, self._size, self._at = storage, start, size, 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + {0: 0, 1: self._at, 2: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._at + size, self._size)
        within_limit("header_bytes", max(end - self._at, 0), f"{self._storage.name}: a part of it has")
        data = bytes(self._storage.read(self._start + self._at, self._start + end)) if end > self._at else b""
        self._at += len(data)
        return data

    def readinto(self, buffer: memoryview) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def write(self, data: bytes) -> int:
        raise OSError("read only")

    def truncate(self, size: int | None = None) -> int:
        raise OSError("read only")

    def flush(self) -> None:
        pass


def _tensors(file: h5py.File, storage: SourceStorage, start: int, path: str) -> Iterator[StoredTensor]:
    """The datasets of numbers; links, which may lead to other files, are not followed."""
    import h5py

    places: list[str] = []
    file.visit(places.append)
    for place in places:
        dataset = file.get(place, getlink=False)
        if not isinstance(dataset, h5py.Dataset) or "optimizer" in place.split("/")[0]:
            continue
        if dataset.external or dataset.is_virtual:
            raise ModelError(f"{path}: dataset {place!r} lies in another file, which is not opened")
        dtype = str(dataset.dtype)
        name = _name(file, place)
        layer, _, last = name.rpartition(".")
        facts = {"layer": layer, "role": "buffer" if last in _STATISTICS else "weight"}
        shape = tuple(int(size) for size in dataset.shape)
        offset, nbytes = dataset.id.get_offset(), dataset.id.get_storage_size()
        if offset is not None and dataset.dtype.isnative:
            runs = ((start + offset, start + offset + nbytes),)
            yield in_storage(name, shape, dtype, storage, runs, **facts)
            continue
        what = f"{path}: dataset {place!r}"
        within_unpacking(nbytes, dataset.size * dataset.dtype.itemsize, what)
        yield in_memory(name, functools.partial(_elements, path, place), shape, dtype, **facts)


def _elements(path: str, place: str) -> object:
    """The elements of a dataset in chunks or compressed."""
    import h5py

    source = open_source(path)
    try:
        storage = SourceStorage.from_source(source)
        with reading(path), h5py.File(_Part(storage, *_place(source, storage)), "r") as file:
            return file[place][...]
    finally:
        source.close()


def _place(source: Source, storage: SourceStorage) -> tuple[int, int]:
    """Where the HDF5 file lies in a file, and how long it is.

    Raises:
        ModelError: it is an archive without weights, or they are compressed.
    """
    if source.read(0, min(source.size, 8)) == HDF5:
        return 0, source.size
    archive = Archive(storage)
    if _MEMBER not in archive.members:
        raise ModelError(f"{source.name}: an archive without {_MEMBER}, so without the weights of a Keras model")
    size = archive.members[_MEMBER].file_size
    archive.span(_MEMBER, 0, size)  # refuses one that is compressed
    return archive.place(_MEMBER), size


def _name(file: h5py.File, place: str) -> str:
    """The name of a dataset: the layer's path, and its own name or number."""
    *groups, last = place.split("/")
    parts = [part for part in groups if part not in _PLAIN]
    if groups and groups[-1] == "vars":
        own = file["/".join(groups)].attrs.get("name")
        if isinstance(own, str) and parts:
            parts[-1] = own
    elif len(parts) > 1 and groups[0] == "model_weights":
        parts = parts[1:]
    last = last.partition(":")[0]
    return ".".join([*(part.replace(".", "_") for part in dict.fromkeys(parts)), last])
