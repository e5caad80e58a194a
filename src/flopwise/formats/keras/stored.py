"""The stored tensors of a Keras model: datasets of HDF5 by place, or the variables of a model in memory."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from flopwise._limits import within_unpacking
from flopwise.errors import InputError, ModelError, message
from flopwise.formats.keras.file import HDF5
from flopwise.formats.keras.kinds import is_name
from flopwise.formats.options import TorchOptions
from flopwise.formats.sources.location import explained
from flopwise.formats.sources.open import open_source
from flopwise.formats.sources.source import Source
from flopwise.formats.weights.hdf5 import Dataset, Hdf5
from flopwise.formats.weights.storage import Archive, SourceStorage
from flopwise.formats.weights.tensor import StoredTensors, in_memory, in_slots, in_storage
from flopwise.graph import Graph, StoredTensor
from flopwise.graph.stored import Array, Elements

if TYPE_CHECKING:
    import keras


# The layers of a model by their paths, and the names of their variables.


def sublayers(layer: keras.Layer) -> dict[str, keras.Layer]:
    """The layers that a layer is made of, by their names; those of one name are told apart by numbers.

    Layers that other layers wrap or keep in lists are among them; those that stand for inputs alone are not.
    """
    inner: dict[str, keras.Layer] = {}
    for part in [*getattr(layer, "_layers", ())]:
        if part is getattr(layer, "_functional", None) or type(part).__name__ == "InputLayer":
            continue
        name, number = part.name.replace(".", "_") or "layer", 1
        while (key := name if number == 1 else f"{name}_{number}") in inner:
            number += 1
        inner[key] = part
    return inner


def named(variables: Iterable[keras.Variable]) -> dict[str, keras.Variable]:
    """Variables of a layer by their names; those of one name are told apart by numbers."""
    result: dict[str, keras.Variable] = {}
    for variable in variables:
        name, number = variable.name.replace(".", "_"), 1
        while (key := name if number == 1 else f"{name}_{number}") in result:
            number += 1
        result[key] = variable
    return result


#: Element types of weights that a model keeps quantized; Keras trains none of them.
_QUANTIZED = frozenset({"int8", "uint8", "int4", "uint4"})


def own_variables(layer: keras.Layer) -> tuple[dict[str, keras.Variable], dict[str, keras.Variable]]:
    """The weights of a layer itself, frozen and quantized ones too, and its statistics and states of random numbers."""
    trained = getattr(layer, "_trainable_variables", ())
    still = getattr(layer, "_non_trainable_variables", ())
    quantized = [variable for variable in still if str(variable.dtype) in _QUANTIZED]
    statistics = [variable for variable in still if str(variable.dtype) not in _QUANTIZED]
    states = [generator.state for generator in getattr(layer, "_seed_generators", ())]
    return named([*trained, *quantized]), named([*statistics, *states])


def weights_of(root: keras.Layer) -> set[int]:
    """The ids of the variables of a model that are weights."""
    weights: set[int] = set()
    seen: set[int] = set()
    rest = [root]
    while rest:
        layer = rest.pop()
        if id(layer) not in seen:
            seen.add(id(layer))
            weights |= {id(variable) for variable in own_variables(layer)[0].values()}
            rest += sublayers(layer).values()
    return weights


def paths_of(root: keras.Layer) -> dict[int, str]:
    """The path of each variable of a model, by its id."""
    paths: dict[int, str] = {}
    seen: set[int] = set()
    rest = [(root, "")]
    while rest:
        layer, path = rest.pop()
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        for variables in own_variables(layer):
            for name, variable in variables.items():
                paths.setdefault(id(variable), f"{path}{name}")
        rest += [(part, f"{path}{name}.") for name, part in sublayers(layer).items()]
    return paths


# Source: https://docs.hdfgroup.org/hdf5/latest/_f_m_t3.html; the layout of groups is Keras' own (saving_lib.py).

#: The member of an archive that holds the weights.
_MEMBER = "model.weights.h5"

#: Statistics and states, by the last part of their names.
_STATISTICS = frozenset({"moving_mean", "moving_variance", "seed_generator_state"})

#: How the short names of types begin whose bytes stand in the other order than here.
_FOREIGN = ">" if sys.byteorder == "little" else "<"

#: Parts of paths that say nothing of a layer.
_PLAIN = frozenset({"layers", "vars", "model_weights", "_layer_checkpoint_dependencies"})


def stored_in_keras(
    model: object, inputs: object, dims: object, batch_size: object, options: TorchOptions
) -> StoredTensors:
    """The stored tensors of a model, which are the same at all sizes; no element is read yet.

    Raises:
        ModelError: the file cannot be read, or h5py is not there.
    """
    if isinstance(model, (str, os.PathLike)) and not is_name(model):
        return _of_file(os.fspath(model))
    return _of_object(model, options)


def _of_object(model: object, options: TorchOptions) -> StoredTensors:
    from flopwise.formats.keras.build import model_of

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


# The elements of a rebuilt model's weights: in its file, opened when somebody reads them.


def with_elements(graph: Graph, root: keras.Layer, path: str) -> Graph:
    """The graph of a model with the elements that its file holds.

    Args:
        graph: its weights have no elements.
        root: the model.
        path: the file.
    """
    file, places = _File(path), _places(root)
    weights = {
        name: replace(one, elements=_InFile(file, one, places.get(name, ""))) for name, one in graph.weights.items()
    }
    return replace(graph, weights=weights)


class _File:
    """The stored tensors of a file by name, listed once."""

    def __init__(self, path: str) -> None:
        self.path = path

    @functools.cached_property
    def tensors(self) -> dict[str, StoredTensor]:
        """The stored tensors."""
        return {one.name: one for one in _of_file(self.path).tensors}


class _InFile(Elements):
    """The elements of one weight: by its number in its layer, as Keras 3 saves it, or by its name, as Keras 2 did."""

    def __init__(self, file: _File, weight: StoredTensor, place: str) -> None:
        self._file, self._weight, self._place = file, weight, place

    def blocks(self, elements: int) -> Iterator[Array]:
        own, tensors = self._weight, self._file.tensors
        older = [name for name in tensors if name == own.name or name.endswith(f".{own.name}")]
        for name in (self._place, *(older if len(older) == 1 else ())):
            stored = tensors.get(name)
            if stored is not None and (stored.shape, stored.dtype) == (own.shape, own.dtype):
                return stored.blocks(elements)
        raise ModelError(f"{self._file.path}: holds no elements of {own.name!r} ({own.dtype})")


def _places(root: keras.Layer) -> dict[str, str]:
    """The name of each variable -> the path of its layer, and its number among the layer's variables."""
    places: dict[str, str] = {}
    rest, seen = [(root, "")], set[int]()
    while rest:
        layer, path = rest.pop()
        if id(layer) in seen:
            continue
        seen.add(id(layer))
        saved = [*getattr(layer, "_trainable_variables", ()), *getattr(layer, "_non_trainable_variables", ())]
        numbers = {id(variable): number for number, variable in enumerate(saved)}
        for variables in own_variables(layer):
            for name, variable in variables.items():
                if id(variable) in numbers:
                    places[f"{path}{name}"] = f"{path}{numbers[id(variable)]}"
        rest += [(part, f"{path}{name}.") for name, part in sublayers(layer).items()]
    return places
