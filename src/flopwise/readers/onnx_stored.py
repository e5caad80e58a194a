"""The stored tensors of an ONNX model: what each is for, and what loads it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy
import onnx
from onnx import numpy_helper

from flopwise.errors import ModelError
from flopwise.graph import Kind
from flopwise.readers import onnx_roles
from flopwise.readers.onnx_notes import Notes
from flopwise.readers.onnx_skeleton import DTYPES, TAG, Skeleton, Stored
from flopwise.readers.onnx_types import Shapes, has_payload
from flopwise.readers.onnx_weights import Reopen, load


@dataclass(frozen=True, slots=True)
class StoredTensors:
    """What is known about the tensors of a model that are not made anew in each inference."""

    #: Name -> what the tensor is; activations are left out.
    kinds: dict[str, Kind] = field(default_factory=dict)
    #: Name -> loader of a numpy array.
    weights: dict[str, Callable[[], Any]] = field(default_factory=dict)
    #: Name -> the first name of the same stored tensor (a function's constant appears wherever the function is called).
    first: dict[str, str] = field(default_factory=dict)


def stored_tensors(
    proto: onnx.ModelProto,
    shapes: Shapes,
    skeleton: Skeleton,
    name: str,
    reopen: Reopen | None,
    notes: Notes,
) -> StoredTensors:
    """Kinds and loaders of the initialisers, the inputs, and the constants that nodes hold.

    Args:
        proto: the model without weights, its nodes in execution order.
        shapes: its shapes.
        skeleton: where the weights lie.
        name: the model, for messages.
        reopen: opens its source.
        notes: what an exporter wrote about tensors.
    """
    graph = proto.graph
    found = StoredTensors()
    uses = onnx_roles.uses(graph.node)
    for tensor in graph.initializer:
        key = tensor.name
        if key in skeleton.initializers:
            dtype, taken = DTYPES.get(tensor.data_type), uses.get(key, ())
            said = notes.kind(key, skeleton.initializers)
            found.kinds[key] = onnx_roles.kind_of(dtype, len(tensor.dims), taken, said)
            found.weights[key] = functools.partial(load, skeleton.initializers[key], name, reopen)
    for value in graph.input:
        found.kinds.setdefault(value.name, "input")
    marks: dict[str, str] = {}
    given = {*skeleton.initializers, *(n.output[0] for n in graph.node if n.op_type == "Constant" and n.output)}
    for node in graph.node:
        if node.domain or node.op_type not in ("Constant", "ConstantOfShape") or not node.output or not node.output[0]:
            continue
        key = node.output[0]
        dtype, shape, taken = shapes.dtype(key), shapes.shape(key), uses.get(key, ())
        if node.op_type == "ConstantOfShape":
            # Zeros in the shape of an activation are work space; a shape that the file states is that of a weight.
            stated = bool(node.input) and node.input[0] in given
            if stated and shape is not None and (kind := onnx_roles.kind_of_filled(dtype, len(shape), taken)):
                found.kinds[key] = kind
                found.weights[key] = functools.partial(_filled, key, shape, node)
            continue
        found.kinds[key] = onnx_roles.kind_of_constant(dtype, len(shape or ()), math.prod(shape or ()), taken)
        held = _held(node, key, skeleton.inner)
        if held is None:
            continue
        stored, mark = held
        found.first[key] = marks.setdefault(mark, key) if mark.startswith(TAG) else key
        if found.first[key] == key:
            found.weights[key] = functools.partial(load, stored, name, reopen)
    return found


def _held(node: onnx.NodeProto, key: str, inner: Mapping[str, Stored]) -> tuple[Stored, str] | None:
    """The tensor that a Constant holds, and the name of the message that it lies in."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.TENSOR:
            mark = attribute.t.name
            left_out = inner.get(mark) if not has_payload(attribute.t) else None
            stored = left_out or _in_attribute(attribute.t, key)
            return (stored, mark) if stored else None
        if attribute.type == onnx.AttributeProto.SPARSE_TENSOR:
            sparse, mark = attribute.sparse_tensor, attribute.sparse_tensor.values.name
            if mark in inner:
                return inner[mark], mark
            values, indices = _in_attribute(sparse.values, key), _in_attribute(sparse.indices, key)
            if values and indices:
                return Stored(key, tuple(sparse.dims), values.dtype, sparse=(values, indices)), mark
        if attribute.type in (onnx.AttributeProto.FLOATS, onnx.AttributeProto.INTS):
            floats = numpy.array(attribute.floats, numpy.float32)
            listed = floats if attribute.floats else numpy.array(attribute.ints, numpy.int64)
            stored = _in_attribute(numpy_helper.from_array(listed, key), key)
            return (stored, "") if stored else None
    return None


def _in_attribute(tensor: onnx.TensorProto, key: str) -> Stored | None:
    """A tensor whose elements are in the message itself."""
    if tensor.data_type not in DTYPES:
        return None
    external = {e.key: e.value for e in tensor.external_data}
    return Stored(key, tuple(tensor.dims), DTYPES[tensor.data_type], external=external, proto=tensor)


def _filled(name: str, shape: tuple[int, ...], node: onnx.NodeProto) -> Any:
    """What a ConstantOfShape makes: one value everywhere, 0 if none is given."""
    try:
        value = numpy_helper.to_array(node.attribute[0].t).ravel() if node.attribute else numpy.zeros(1, numpy.float32)
        return numpy.full(shape, value[0])
    except (IndexError, MemoryError, TypeError, ValueError) as error:
        raise ModelError(f"tensor {name!r} cannot be made ({error})") from error
