"""Configurations of Keras models as files have them, written down here, so that none of Keras is needed for one."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from typing import Any


def layer(kind: str, name: str, **config: Any) -> dict[str, Any]:
    """The configuration of a layer of Keras 3."""
    return {"module": "keras.layers", "class_name": kind, "config": {"name": name, **config}, "registered_name": None}


def sequential(*layers: dict[str, Any], shape: tuple[int | None, ...] = (None, 16, 16, 3)) -> dict[str, Any]:
    """The configuration of layers in a row."""
    start = layer("InputLayer", "image", batch_shape=list(shape), dtype="float32")
    config = {"name": "net", "layers": [start, *layers]}
    return {"module": "keras", "class_name": "Sequential", "config": config, "registered_name": None}


def convolution() -> dict[str, Any]:
    """A small network of images: 8·3·9·14·14 + 8·3 MACs, 251 trained weights and 16 statistics."""
    return sequential(
        layer("Conv2D", "conv", filters=8, kernel_size=[3, 3], activation="relu"),
        layer("BatchNormalization", "norm"),
        layer("GlobalAveragePooling2D", "pool"),
        layer("Dense", "head", units=3),
    )


def graph() -> dict[str, Any]:
    """A graph of layers with two inputs, taken by name, of which one size is open: 10·4 MACs a row."""

    def reads(*names: str) -> list[dict[str, Any]]:
        shapes = {"a": [None, 10], "b": [None, 4], "dense": [None, 4]}
        tensors = [
            {
                "class_name": "__keras_tensor__",
                "config": {"shape": shapes[name], "dtype": "float32", "keras_history": [name, 0, 0]},
            }
            for name in names
        ]
        return [{"args": [tensors] if len(tensors) > 1 else tensors, "kwargs": {}}]

    layers = [
        {**layer("InputLayer", "a", batch_shape=[None, 10], dtype="float32"), "name": "a", "inbound_nodes": []},
        {**layer("InputLayer", "b", batch_shape=[None, 4], dtype="float32"), "name": "b", "inbound_nodes": []},
        {**layer("Dense", "dense", units=4), "name": "dense", "inbound_nodes": reads("a")},
        {**layer("Add", "sum"), "name": "sum", "inbound_nodes": reads("dense", "b")},
    ]
    config = {
        "name": "two",
        "layers": layers,
        "input_layers": {"a": ["a", 0, 0], "b": ["b", 0, 0]},
        "output_layers": [["sum", 0, 0]],
    }
    return {"module": "keras.src.models.functional", "class_name": "Functional", "config": config}


def older() -> dict[str, Any]:
    """Layers in a row as Keras 2 writes them: without modules."""
    layers = [
        {"class_name": "Dense", "config": {"name": "first", "units": 5, "batch_input_shape": [None, 7]}},
        {"class_name": "Dense", "config": {"name": "second", "units": 2, "activation": "softmax"}},
    ]
    return {"class_name": "Sequential", "config": {"name": "old", "layers": layers}}


CONFIGS: Mapping[str, Callable[[], dict[str, Any]]] = {"convolution": convolution, "graph": graph, "older": older}


def archive(config: object, **members: str) -> bytes:
    """A ``.keras`` file with a configuration and no weights."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as opened:
        opened.writestr("config.json", config if isinstance(config, str) else json.dumps(config))
        for name, text in members.items():
            opened.writestr(name, text)
    return held.getvalue()
