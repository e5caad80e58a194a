"""The configuration of a model in a file, in the words of Keras 3."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping

from flopwise._limits import within_limit
from flopwise._results import Json
from flopwise.errors import ModelError
from flopwise.formats.keras.kinds import PRESET
from flopwise.formats.sources.open import open_source
from flopwise.formats.sources.source import Source
from flopwise.formats.weights.storage import Archive, SourceStorage

# The configuration of a model in a file: a member of a ``.keras`` archive, a text inside an ``.h5`` file, or a file
# in the folder of a preset.
#
# Sources: keras/src/saving/saving_lib.py (``config.json``, ``model.weights.h5``) and
# keras/src/legacy/saving/legacy_h5_format.py (the attribute ``model_config``) of Keras 3.15.

#: The signature of HDF5 files, section II.A of their specification.
HDF5 = b"\x89HDF\r\n\x1a\n"

_CONFIG, _ATTRIBUTE = "config.json", b"model_config\0"

#: Bytes that are searched at once.
_STEP = 4 << 20

#: Bytes that an attribute's message may have before its value: its sizes, its name, a type and a shape.
_MESSAGE = 512

#: Classes of datatypes: strings of a fixed length, and of any length.
_FIXED, _VARIABLE = 3, 9

#: Attributes of one name that are looked at, and members of a heap, which have numbers of 16 bits.
_MOST_ATTRIBUTES, _MOST_MEMBERS = 16, 1 << 16


def config_of(path: str | os.PathLike[str]) -> Json:
    """The configuration of the model in a file, or in the folder of a preset, as plain values.

    Raises:
        ModelError: the file cannot be read, or holds weights alone.
    """
    source = open_source(os.path.join(path, PRESET) if os.path.isdir(path) else path)
    try:
        if os.path.isdir(path):
            return _parsed(_text(source, 0, source.size), source.name)
        head = source.read(0, min(source.size, 8))
        if head == HDF5:
            return _in_hdf5(source)
        if not head.startswith(b"PK"):
            raise ModelError(f"{source.name}: not a Keras model: neither a ZIP archive nor an HDF5 file")
        return _parsed(_in_archive(source), source.name)
    finally:
        source.close()


def _in_archive(source: Source) -> bytes:
    storage = SourceStorage.from_source(source)
    try:
        archive = Archive(storage)
        if _CONFIG not in archive.members:
            raise ModelError(f"{source.name}: an archive without {_CONFIG}, so no Keras model")
        within_limit("text_bytes", archive.members[_CONFIG].file_size, f"{source.name}: {_CONFIG} has")
        return archive.content(_CONFIG)
    except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError) as error:
        raise ModelError(f"{source.name}: truncated or damaged archive ({error})") from error


def _in_hdf5(source: Source) -> Json:
    """The value of the attribute; so HDF5's library, which trusts a file, is not needed.

    Source: https://docs.hdfgroup.org/hdf5/latest/_f_m_t3.html, sections III.E (global heaps) and IV.A.2.m (attributes).

    Raises:
        ModelError: there is none.
    """
    texts = filter(None, (_attribute(source, at) for at in _places(source, _ATTRIBUTE)))
    for text in itertools.islice(texts, _MOST_ATTRIBUTES):
        config = _decoded(text.decode("utf-8", "replace"))
        if isinstance(config, dict) and {"class_name", "config"} <= config.keys():
            return config
    if next(_places(source, _ATTRIBUTE[:-1]), -1) < 0:
        raise ModelError(
            f"{source.name}: an HDF5 file without the configuration of a Keras model; if it holds weights alone, save "
            "the model with model.save('NAME.keras')"
        )
    raise ModelError(f"{source.name}: the configuration of its model is truncated or damaged")


def _places(source: Source, what: bytes) -> Iterator[int]:
    """The places where some bytes stand in a file, one after the other: each byte is read once."""
    for start in range(0, source.size, _STEP):
        part, at = _read(source, start, _STEP + len(what) - 1), -1
        while (at := part.find(what, at + 1)) >= 0:
            yield start + at


def _read(source: Source, start: int, length: int) -> bytes:
    """So many bytes from a place on, or those that there are."""
    return bytes(source.read(start, max(0, min(length, source.size - start)))) if 0 <= start < source.size else b""


def _attribute(source: Source, at: int) -> bytes | None:
    """The text of an attribute whose name stands at a place; None where no attribute does."""
    if at < 9:
        return None
    message = _read(source, at - 9, _MESSAGE)
    first = 0 if message[0] == 3 else 1  # version 3 says the encoding of the name as well
    sizes = struct.unpack_from("<HHH", message, first + 2)
    if message[first] not in (1, 2, 3) or sizes[0] != len(_ATTRIBUTE):
        return None
    padded = [-(-size // 8) * 8 for size in sizes] if message[first] == 1 else sizes
    datatype, value = message[9 + padded[0] :][:8], at + sum(padded)
    if len(datatype) < 8:
        return None
    kind, length = datatype[0] & 15, int.from_bytes(datatype[4:], "little")
    if kind == _VARIABLE:
        place = _read(source, value, 16)
        return _in_heap(source, *struct.unpack("<IQI", place)) if len(place) == 16 else None
    return _text(source, value, length) if kind == _FIXED else None


def _in_heap(source: Source, length: int, address: int, index: int) -> bytes | None:
    """The first bytes of a member of a global heap; None where there is no such member."""
    at = address + 16
    for _ in range(_MOST_MEMBERS):
        head = _read(source, at, 16)
        if len(head) < 16:
            return None
        number, _, size = struct.unpack("<HHxxxxQ", head)
        if number == index:
            return _text(source, at + 16, min(length, size))
        at += 16 + -(-size // 8) * 8
    return None


def _text(source: Source, start: int, length: int) -> bytes:
    """A text of so many bytes, without the zeros behind it."""
    within_limit("text_bytes", length, f"{source.name}: has")
    return _read(source, start, length).rstrip(b"\0")


def _decoded(text: str) -> object:
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def _parsed(text: bytes, name: str) -> Json:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{name}: {_CONFIG} is no JSON ({' '.join(str(error).split())[:100]})") from error
    if not isinstance(config, dict):
        raise ModelError(f"{name}: {_CONFIG} holds no model")
    return config


# Configurations that Keras 2 and tf.keras wrote, in the words of Keras 3.
#
# Sources: keras/engine/functional.py (``get_network_config``, ``_should_skip_first_node``) and keras/engine/node.py
# (``Node.serialize``) of Keras 2.15; keras/src/models/functional.py of Keras 3.15.

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
