"""Stored tensors of an ONNX model: where they are allowed to lie, and how to load one when somebody asks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import onnx
from onnx import numpy_helper

from flopwise.errors import ModelError
from flopwise.readers import onnx_wire
from flopwise.readers.onnx_wire import DTYPES, INTEGERS_KEPT, OTHERS_KEPT, SMALL, Skeleton, Stored, read_skeleton
from flopwise.readers.source import BytesSource, FileSource
from flopwise.readers.wire import message, number_field

_CODES = {name: code for code, name in DTYPES.items()}


def check_external(stored: Iterable[Stored], name: str) -> None:
    """Refuse external data outside the model's folder; the data itself need not be there.

    Raises:
        ModelError: a location is absolute or climbs out of the folder.
    """
    for tensor in stored:
        location = tensor.external.get("location")
        if location is None:
            continue
        for path in (PurePosixPath(location), PureWindowsPath(location)):
            if path.is_absolute() or path.drive or ".." in path.parts:
                raise ModelError(
                    f"{name}: tensor {tensor.name!r} wants its data from {location!r}, outside the model's folder; "
                    "refused"
                )


def loader(stored: Stored, name: str, base: Path | None) -> Any:
    """The elements of a stored tensor as a numpy array, read now.

    Args:
        stored: where they lie.
        name: the model file.
        base: the folder of the model file; None when the model did not come from a file.

    Raises:
        ModelError: the data is not there, or cannot be read any more.
    """
    if base is None:
        raise ModelError(f"{name}: the weights of a model that did not come from a file cannot be loaded later")
    parts = [number_field(1, d) for d in stored.dims] + [number_field(2, _CODES[stored.dtype])]
    if stored.external:
        parts.append(message(9, [_external_bytes(stored, name, base)]))
    else:
        source = FileSource(name)
        try:
            parts += [message(kind, [source.read(start, end - start)]) for kind, start, end in stored.places]
        finally:
            source.close()
    return numpy_helper.to_array(onnx.TensorProto.FromString(b"".join(parts)))


def _external_bytes(stored: Stored, name: str, base: Path) -> bytes:
    location = stored.external.get("location", "")
    path = base / location
    inside = os.path.realpath(path).startswith(os.path.realpath(base) + os.sep)
    if not inside:  # a link may lead out of the folder although the text does not
        raise ModelError(f"{name}: tensor {stored.name!r} wants its data from {location!r}, outside the model's folder")
    try:
        offset, length = int(stored.external.get("offset", 0)), int(stored.external.get("length", -1))
    except ValueError:
        raise ModelError(f"{name}: tensor {stored.name!r} gives no number as offset or length") from None
    source = FileSource(path)
    try:
        return source.read(offset, source.size - offset if length < 0 else length)
    finally:
        source.close()


def from_proto(model: onnx.ModelProto) -> Skeleton:
    """A model in memory without its weights; large ones are neither serialised nor copied."""
    light = onnx.ModelProto(ir_version=model.ir_version, producer_name=model.producer_name)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    graph, stored = model.graph, dict[str, Stored]()
    light.graph.name = graph.name
    light.graph.input.extend(graph.input)
    light.graph.output.extend(graph.output)
    light.graph.value_info.extend(graph.value_info)
    for node in graph.node:
        if node.ByteSize() <= SMALL:
            light.graph.node.append(node)
        else:  # a node may hold a large constant: the walk over its bytes leaves that out
            wrapped = message(7, [message(1, [node.SerializeToString()])])
            found = read_skeleton(BytesSource(wrapped, graph.name or "<ModelProto>"))
            light.graph.node.extend(onnx.ModelProto.FromString(found.model).graph.node)
            stored.update(found.stored)
    for tensor in graph.initializer:
        head = light.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        head.external_data.extend(tensor.external_data)
        head.data_location = tensor.data_location
        stored[tensor.name] = _in_memory(tensor)
        small = INTEGERS_KEPT if tensor.data_type in onnx_wire.INTEGERS else OTHERS_KEPT
        if stored[tensor.name].dims and _elements(tensor) > small:
            continue
        head.CopyFrom(tensor)
    for sparse in graph.sparse_initializer:
        name = sparse.values.name
        light.graph.initializer.add(name=name, data_type=sparse.values.data_type, dims=sparse.dims)
        stored[name] = Stored(name, tuple(sparse.dims), DTYPES.get(sparse.values.data_type, "float32"))
    return Skeleton(light.SerializeToString(), stored)


def _elements(tensor: onnx.TensorProto) -> int:
    product = 1
    for dim in tensor.dims:
        product *= dim
    return product


def _in_memory(tensor: onnx.TensorProto) -> Stored:
    external = {e.key: e.value for e in tensor.external_data}
    if tensor.data_type not in DTYPES:
        raise ModelError(f"tensor {tensor.name!r} has the unknown element type {tensor.data_type}")
    return Stored(tensor.name, tuple(tensor.dims), DTYPES[tensor.data_type], external=external)
