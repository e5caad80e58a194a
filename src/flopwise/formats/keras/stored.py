"""The stored tensors of a Keras model: datasets of HDF5 by place, or the variables of a model in memory.

Source: https://docs.hdfgroup.org/hdf5/latest/_f_m_t3.html; the layout of groups is Keras' own (saving_lib.py).
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

from flopwise._limits import within_unpacking
from flopwise.errors import InputError, ModelError, message
from flopwise.formats.keras.file import HDF5
from flopwise.formats.keras.kinds import is_name
from flopwise.graph import StoredTensor
from flopwise.readers.options import TorchOptions
from flopwise.readers.source.location import explained
from flopwise.readers.source.open import open_source
from flopwise.readers.source.source import Source
from flopwise.readers.weights.hdf5 import Dataset, Hdf5
from flopwise.readers.weights.storage import SourceStorage
from flopwise.readers.weights.tensor import StoredTensors, in_memory, in_slots, in_storage
from flopwise.readers.weights.zip import Archive

if TYPE_CHECKING:
    import keras

#: The member of an archive that holds the weights.
_MEMBER = "model.weights.h5"

#: Statistics and states, by the last part of their names.
_STATISTICS = frozenset({"moving_mean", "moving_variance", "seed_generator_state"})

#: How the short names of types begin whose bytes stand in the other order than here.
_FOREIGN = ">" if sys.byteorder == "little" else "<"

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
    from flopwise.formats.keras.build import model_of
    from flopwise.formats.keras.layers import paths_of, weights_of

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
    if find_spec("h5py") is None:
        raise ModelError(f"{path}: h5py is needed for that: pip install 'flopwise[keras]'")
    source = open_source(path)
    storage = SourceStorage.from_source(source)
    with explained(lambda error: f"{path}: truncated or damaged ({message(error)[:150]})"):
        start, size = _place(source, storage)
    file = Hdf5(storage.reopened, start, size)
    return StoredTensors.from_file(storage, "keras", in_slots(list(_tensors(file, storage, start, path))))


def _tensors(file: Hdf5, storage: SourceStorage, start: int, path: str) -> Iterator[StoredTensor]:
    """The datasets of numbers; links, which may lead to other files, are not followed."""
    for dataset in file.content().datasets:
        if "optimizer" in dataset.place.split("/")[0]:
            continue
        if dataset.elsewhere:
            raise ModelError(f"{path}: dataset {dataset.place!r} lies in another file, which is not opened")
        name = _name(dataset)
        layer, _, last = name.rpartition(".")
        facts = {"layer": layer, "role": "buffer" if last in _STATISTICS else "weight"}
        shape = dataset.shape or ()
        if dataset.offset is not None and not dataset.code.startswith(_FOREIGN):
            runs = ((start + dataset.offset, start + dataset.offset + dataset.stored),)
            yield in_storage(name, shape, dataset.dtype, storage, runs, **facts)
            continue
        within_unpacking(dataset.stored, dataset.nbytes, f"{path}: dataset {dataset.place!r}")
        yield in_memory(name, functools.partial(file.elements, dataset), shape, dataset.dtype, **facts)


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


def _name(dataset: Dataset) -> str:
    """The name of a dataset: the layer's path, and its own name or number."""
    *groups, last = dataset.place.split("/")
    parts = [part for part in groups if part not in _PLAIN]
    if groups and groups[-1] == "vars":
        if dataset.title and parts:
            parts[-1] = dataset.title
    elif len(parts) > 1 and groups[0] == "model_weights":
        parts = parts[1:]
    last = last.partition(":")[0]
    return ".".join([*(part.replace(".", "_") for part in dict.fromkeys(parts)), last])
