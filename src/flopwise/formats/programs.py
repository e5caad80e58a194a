"""Formats whose models are opened as programs, and from there on are read one way.

They stand here, and not in their rooms, so that no other model waits for a file of those.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flopwise.formats.format import Format, ends_in
from flopwise.formats.options import (
    CoremlOptions,
    OnnxOptions,
    OpenvinoOptions,
    Progress,
    Sizes,
    TensorflowOptions,
    TfliteOptions,
)

if TYPE_CHECKING:
    from flopwise.formats.kit.read import Opened
    from flopwise.formats.weights.tensor import StoredTensors
    from flopwise.graph import Graph


def _opened_onnx(*arguments: Any) -> Opened:
    from flopwise.formats.onnx.read import opened_onnx

    return opened_onnx(*arguments)


def _opened_openvino(*arguments: Any) -> Opened:
    from flopwise.formats.openvino.read import opened_openvino

    return opened_openvino(*arguments)


def _opened_coreml(*arguments: Any) -> Opened:
    from flopwise.formats.coreml.read import opened_coreml

    return opened_coreml(*arguments)


def _opened_tflite(*arguments: Any) -> Opened:
    from flopwise.formats.tflite.read import opened_tflite

    return opened_tflite(*arguments)


def _opened_tensorflow(*arguments: Any) -> Opened:
    from flopwise.formats.tensorflow.read import opened_tensorflow

    return opened_tensorflow(*arguments)


#: The options of a format -> ``(model, options, progress)`` -> a model before any size is chosen.
OPENERS: Mapping[type[OnnxOptions], Callable[..., Opened]] = {
    OnnxOptions: _opened_onnx,
    OpenvinoOptions: _opened_openvino,
    CoremlOptions: _opened_coreml,
    TfliteOptions: _opened_tflite,
    TensorflowOptions: _opened_tensorflow,
}


def _read(model: object, inputs: object, dims: Any, batch_size: Any, progress: Any, options: OnnxOptions) -> Graph:
    from flopwise.formats.kit.read import graph_of, resolved_at

    opened = OPENERS[type(options)](model, options, progress)
    return graph_of(resolved_at(opened, inputs, dims, batch_size, options, progress), progress)


def _stored(model: object, inputs: object, dims: Any, batch_size: Any, options: OnnxOptions) -> StoredTensors:
    from flopwise.formats.kit.read import stored_at
    from flopwise.formats.weights.graphs import stored_in_graph

    return stored_in_graph(stored_at(OPENERS[type(options)](model, options), inputs, dims, batch_size, options))


_SIZES = ("inputs", "dims", "batch_size")


def _is_openvino(model: object) -> bool:
    """True for OpenVINO models: by the name of a file, and bytes by the root of their XML."""
    if not isinstance(model, (bytes, bytearray, memoryview)):
        return ends_in(model, OPENVINO.endings)
    return _is_net(bytes(model[:_HEAD]))


def _is_openvino_file(path: str) -> bool:
    from flopwise.formats.sources.source import head

    return not path.lower().endswith(OPENVINO.endings) or _is_net(head(path, _HEAD))


#: Bytes in which the root of a model begins.
_HEAD = 4096


def _is_net(head: bytes) -> bool:
    """True where bytes begin as the XML of a model.

    >>> _is_net(b'<?xml version="1.0"?><net name="m">'), _is_net(b"<project/>")
    (True, False)
    """
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") and b"<net " in head


OPENVINO = Format(
    "openvino",
    "OpenVINO models (.xml)",
    _read,
    endings=(".xml",),
    matches=_is_openvino,
    takes=_SIZES,
    options=OpenvinoOptions,
    stored=_stored,
    in_directories=(".xml",),
    is_model=_is_openvino_file,
    formulas=True,
)


def _is_coreml(model: object) -> bool:
    """True for Core ML models: by the name of a file or package, or by what is in a folder."""
    if not isinstance(model, (str, os.PathLike)):
        return False
    if ends_in(model, COREML.endings):
        return True
    from flopwise.formats.coreml.decode import is_package

    return os.path.isdir(model) and is_package(os.fsdecode(model))


COREML = Format(
    "coreml",
    "Core ML programs (.mlpackage, .mlmodel)",
    _read,
    endings=(".mlpackage", ".mlmodel"),
    matches=_is_coreml,
    takes=_SIZES,
    options=CoremlOptions,
    stored=_stored,
    in_directories=(".mlmodel", ".mlpackage"),
    formulas=True,
)


def _is_tflite(model: object) -> bool:
    """True where a model is one by its name, or by the identifier behind its first four bytes."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model[4:8]) == b"TFL3"
    if not isinstance(model, (str, os.PathLike)) or ends_in(model, TFLITE.endings):
        return ends_in(model, TFLITE.endings)
    from flopwise.formats.sources.source import head

    return head(model, 8)[4:] == b"TFL3"


TFLITE = Format(
    "tflite",
    "TensorFlow Lite models (.tflite)",
    _read,
    endings=(".tflite", ".lite", ".task"),
    matches=_is_tflite,
    takes=_SIZES,
    options=TfliteOptions,
    stored=_stored,
    in_directories=(".tflite",),
    formulas=True,
)


#: The file of a SavedModel's directory.
_SAVED_MODEL = "saved_model.pb"


def _is_tensorflow(model: object) -> bool:
    """True for a ``.pb`` file that begins with a node, a ``saved_model.pb``, and the directory of one."""
    if not isinstance(model, (str, os.PathLike)):
        return False
    from flopwise.formats.sources.source import head

    path = os.fsdecode(model)
    if not path.lower().endswith(".pb"):
        return os.path.isfile(os.path.join(path, _SAVED_MODEL))
    # field 1 of a GraphDef, where an ONNX model has a number
    return os.path.basename(path) == _SAVED_MODEL or head(path, 1) in (b"\n", b"")


TENSORFLOW = Format(
    "tensorflow",
    "TensorFlow graphs (.pb, SavedModel)",
    _read,
    endings=(".pb",),
    matches=_is_tensorflow,
    takes=_SIZES,
    options=TensorflowOptions,
    stored=_stored,
    in_directories=(_SAVED_MODEL,),
    formulas=True,
)


def _is_onnx(model: object) -> bool:
    return not isinstance(model, (str, os.PathLike)) or ends_in(model, ONNX.endings)


def _read_onnx(
    model: object, inputs: object, dims: Sizes, batch_size: int | None, progress: Progress, options: OnnxOptions
) -> Graph:
    from flopwise.formats.onnx.read import read_onnx

    return read_onnx(model, inputs, dims, batch_size, options, progress)


ONNX = Format(
    "onnx",
    "ONNX models",
    _read_onnx,
    endings=(".onnx",),
    matches=_is_onnx,
    takes=_SIZES,
    options=OnnxOptions,
    stored=_stored,
    in_directories=(".onnx",),
    formulas=True,
    writable=True,
)
