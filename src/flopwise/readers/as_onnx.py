"""Formats whose models are opened in a form of their own, and from there on are read as ONNX models are.

They stand here, and not in their rooms, so that no other model waits for a file of those.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flopwise.readers.format import Format, ends_in
from flopwise.readers.options import CoremlOptions, OnnxOptions, OpenvinoOptions

if TYPE_CHECKING:
    from flopwise.formats.onnx.read import Opened
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


#: The options of a format -> ``(model, options, progress)`` -> a model before any size is chosen.
OPENERS: Mapping[type[OnnxOptions], Callable[..., Opened]] = {
    OnnxOptions: _opened_onnx,
    OpenvinoOptions: _opened_openvino,
    CoremlOptions: _opened_coreml,
}


def _read(model: object, inputs: object, dims: Any, batch_size: Any, progress: Any, options: OnnxOptions) -> Graph:
    from flopwise.formats.onnx.read import graph_of, resolved_at

    opened = OPENERS[type(options)](model, options, progress)
    return graph_of(resolved_at(opened, inputs, dims, batch_size, options, progress), progress)


def _stored(model: object, inputs: object, dims: Any, batch_size: Any, options: OnnxOptions) -> StoredTensors:
    from flopwise.formats.onnx.read import stored_at
    from flopwise.formats.weights.graphs import stored_in_graph

    return stored_in_graph(stored_at(OPENERS[type(options)](model, options), inputs, dims, batch_size, options))


_SIZES = ("inputs", "dims", "batch_size")


def _is_openvino(model: object) -> bool:
    """True for OpenVINO models: by the name of a file, and bytes by the root of their XML."""
    if not isinstance(model, (bytes, bytearray, memoryview)):
        return ends_in(model, OPENVINO.endings)
    from flopwise.formats.openvino.kinds import HEAD, is_net

    return is_net(bytes(model[:HEAD]))


def _is_openvino_file(path: str) -> bool:
    from flopwise.formats.openvino.kinds import is_net_file

    return not path.lower().endswith(OPENVINO.endings) or is_net_file(path)


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
