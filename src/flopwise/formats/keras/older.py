"""Configurations that Keras 2 and tf.keras wrote, in the words of Keras 3.

Sources: keras/engine/functional.py (``get_network_config``, ``_should_skip_first_node``) and
keras/engine/node.py (``Node.serialize``) of Keras 2.15; keras/src/models/functional.py of Keras 3.15.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping

from flopwise._results import Json
from flopwise.errors import ModelError

#: Classes of Keras 2 by what does the same in Keras 3, and the arguments that say so.
_CLASSES: Mapping[str, tuple[str, Json]] = {
    "CuDNNLSTM": ("LSTM", {}),
    "CuDNNGRU": ("GRU", {"reset_after": True}),
    "BatchNormalizationV1": ("BatchNormalization", {}),
    "BatchNormalizationV2": ("BatchNormalization", {}),
}

#: Arguments of Keras 2 that layers no longer have, by the value at which they ask for nothing, as None does.
_NEUTRAL: Mapping[str, object] = {
    "groups": 1,
    **dict.fromkeys(("time_major", "renorm", "adjustment", "causal", "dynamic", "output_padding", "ragged"), False),
    "virtual_batch_size": None,
}

#: Arguments that Keras 3 does not have and no cost depends on.
_WITHOUT_COST = frozenset(
    {
        "fused",
        "renorm_clipping",
        "renorm_momentum",
        "input_length",
        "implementation",
        "autocast",
        "experimental_autocast",
    }
)

#: Arguments that every layer takes.
_COMMON = frozenset(
    {
        "name",
        "dtype",
        "trainable",
        "activity_regularizer",
        "input_shape",
        "batch_input_shape",
        "batch_shape",
        "input_dim",
    }
)

#: Layers that Keras 2 gave their initial states behind their sequence.
_RECURRENT = frozenset({"LSTM", "GRU", "SimpleRNN", "RNN", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "Bidirectional"})

#: What stands in a call for a value that is no tensor.
_CONSTANT = "_CONSTANT_VALUE"


def modern(value: Json) -> Json | str:
    """One object of a configuration as Keras 3 has it; what is in it stays as it is, but for the calls of layers."""
    name, config = value.get("class_name"), value.get("config")
    if name == "Policy" and isinstance(config, dict) and isinstance(config.get("name"), str):
        return str(config["name"])
    if name == "Sequential" and isinstance(config, list):  # until Keras 2.2.3
        return {**value, "config": {"name": "sequential", "layers": config}}
    if not isinstance(config, dict):
        return value
    if isinstance(name, str) and name in _CLASSES:
        name, more = _CLASSES[name]
        value = {**value, "class_name": name, "config": {**config, **more}}
    axis = config.get("axis")
    if isinstance(axis, list) and len(axis) == 1:
        value = {**value, "config": {**config, "axis": axis[0]}}
    if name == "InputLayer" and "batch_input_shape" in config:
        renamed = {"batch_shape" if key == "batch_input_shape" else key: part for key, part in config.items()}
        value = {**value, "config": renamed}
    layers = config.get("layers")
    if isinstance(layers, list) and any(map(_calls, layers)):
        return {**value, "config": _with_calls(config, [one for one in layers if isinstance(one, dict)])}
    return value


def without_gone(kind: type, config: Json, layer: str) -> Json:
    """The arguments of a layer without those that Keras 3 no longer has and that ask for nothing.

    Raises:
        ModelError: one asks for something.
    """
    makers = [vars(base)["__init__"] for base in kind.__mro__ if "__init__" in vars(base)]
    taken = {name for maker in makers for name in inspect.signature(maker).parameters}
    kept = {}
    for key, value in config.items():
        if key in taken or key in _COMMON:
            kept[key] = value
        elif key in _NEUTRAL:
            if value is not None and value != _NEUTRAL[key]:
                raise ModelError(f"{layer} ({kind.__name__}) has {key} {value!r}, which Keras 3 does not know")
        elif key not in _WITHOUT_COST:
            kept[key] = value
    return kept


def _calls(layer: object) -> list[list[object]]:
    """The calls of a layer in the form of Keras 2: lists of tensors."""
    nodes = layer.get("inbound_nodes") if isinstance(layer, dict) else None
    return [node for node in nodes if isinstance(node, list) and node] if isinstance(nodes, list) else []


def _with_calls(config: Json, layers: list[Json]) -> Json:
    """The configuration of a graph of layers with its calls in the form of Keras 3.

    Keras 2 numbers the calls of a model inside a model from 1, since its own inputs are call 0.
    """
    outputs = config.get("output_layers")
    named = {one["name"]: one for one in layers if isinstance(one.get("name"), str)}
    used: dict[str, set[int]] = {}
    for name, number in _tensors([*(_calls(one) for one in layers), outputs], named):
        used.setdefault(name, set()).add(number)
    shifts = {name: 1 for name, calls in used.items() if _starts_built(named[name]) and min(calls) > 0}

    def tensor(ref: object) -> object:
        if not _is_tensor(ref, named):
            if isinstance(ref, list) and len(ref) > 2 and ref[0] == _CONSTANT:
                return ref[2]
            if isinstance(ref, dict):
                return {key: tensor(part) for key, part in ref.items()}
            return [tensor(part) for part in ref] if isinstance(ref, list) else ref
        history = [ref[0], ref[1] - shifts.get(ref[0], 0), ref[2]]  # type: ignore[index] # a list of a name and numbers
        made = {"shape": [None], "dtype": "float32", "keras_history": history}
        return {"class_name": "__keras_tensor__", "config": made}

    def call(node: list[object], kind: object) -> Json:
        tensors = [tensor(ref) for ref in node]
        last = node[-1]
        kwargs = tensor(last[3]) if isinstance(last, list) and len(last) > 3 and isinstance(last[3], dict) else {}
        assert isinstance(kwargs, dict)
        if kind in _RECURRENT and len(tensors) > 1:
            return {"args": tensors[:1], "kwargs": {**kwargs, "initial_state": tensors[1:]}}
        return {"args": tensors if len(tensors) == 1 else [tensors], "kwargs": kwargs}

    def output(ref: object) -> object:
        if _is_tensor(ref, named):
            name, number, place = ref[:3]  # type: ignore[index] # as above
            several = len(named[name].get("inbound_nodes") or ()) > 1 and "input_layers" in named[name]["config"]
            return [name, number - shifts.get(name, 0) + several, place]  # Keras 3 takes 1 away from that of a graph
        if isinstance(ref, dict):
            return {key: output(part) for key, part in ref.items()}
        return [output(part) for part in ref] if isinstance(ref, list) else ref

    made = [
        {**one, "inbound_nodes": [call(node, one.get("class_name")) for node in _calls(one)]} if _calls(one) else one
        for one in layers
    ]
    return {**config, "layers": made, "output_layers": output(outputs)}


def _tensors(value: object, named: Mapping[str, Json]) -> Iterator[tuple[str, int]]:
    """The tensors in a part of a configuration: the layers that make them, and at which of their calls."""
    if _is_tensor(value, named):
        yield value[0], value[1]  # type: ignore[index] # a list of a name and numbers
        value = value[3:]  # type: ignore[index]
    if isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors(part, named)


def _is_tensor(value: object, named: Mapping[str, Json]) -> bool:
    """True for the name of a layer, one of its calls, and one of its results."""
    if not (isinstance(value, list) and 3 <= len(value) <= 4 and isinstance(value[0], str) and value[0] in named):
        return False
    return type(value[1]) is int and type(value[2]) is int


def _starts_built(layer: Json) -> bool:
    """True for a model that states its inputs."""
    config = layer.get("config")
    layers = config.get("layers") if isinstance(config, dict) else None
    if not isinstance(layers, list) or not layers or not isinstance(layers[0], dict):
        return False
    first = layers[0].get("config")
    return layers[0].get("class_name") == "InputLayer" or (
        isinstance(first, dict) and bool({"batch_input_shape", "input_shape"} & first.keys())
    )
