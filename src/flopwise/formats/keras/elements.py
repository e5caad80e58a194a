"""The elements of a rebuilt model's weights: in its file, opened when somebody reads them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from flopwise.errors import ModelError
from flopwise.formats.keras.layers import own_variables, sublayers
from flopwise.formats.keras.stored import stored_in_keras
from flopwise.graph import Graph, StoredTensor
from flopwise.graph.stored import Array, Elements
from flopwise.readers.options import TorchOptions

if TYPE_CHECKING:
    import keras


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
        return {one.name: one for one in stored_in_keras(self.path, TorchOptions()).tensors}


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
