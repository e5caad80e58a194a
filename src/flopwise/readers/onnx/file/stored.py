"""The stored tensors of an ONNX model: what each is for, and what loads it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
import onnx
from onnx import numpy_helper

from flopwise.errors import ModelError
from flopwise.graph import Kind
from flopwise.readers.onnx.build import roles
from flopwise.readers.onnx.file.exporter_notes import Notes
from flopwise.readers.onnx.file.proto import stored_in_memory
from flopwise.readers.onnx.file.skeleton import DTYPES, TAG, Stored
from flopwise.readers.onnx.file.weights import Reopen, load
from flopwise.readers.onnx.types import Shapes


@dataclass(frozen=True, slots=True)
class StoredTensors:
    """What is known about the tensors of a model that are not made anew in each inference."""

    #: Name -> what the tensor is; activations are left out.
    kinds: dict[str, Kind] = field(default_factory=dict)
    #: Name -> loader of a numpy array.
    weights: dict[str, Callable[[], Any]] = field(default_factory=dict)
    #: Name -> the first name of the same stored tensor (a function's constant appears wherever the function is called).
    first: dict[str, str] = field(default_factory=dict)
    #: Mark of a tensor in an attribute -> the first name of its value.
    marks: dict[str, str] = field(default_factory=dict)


def stored_tensors(
    graph: onnx.GraphProto,
    nodes: Sequence[onnx.NodeProto],
    shapes: Shapes,
    initializers: Mapping[str, Stored],
    inner: Mapping[str, Stored],
    name: str,
    reopen: Reopen | None,
    notes: Notes,
) -> StoredTensors:
    """Kinds and loaders of the initialisers of a graph, and of the constants that its nodes hold.

    Args:
        graph: without weights, its nodes in execution order.
        nodes: the nodes that may use its tensors: its own, and those in its bodies.
        shapes: its shapes.
        initializers: where its initialisers lie.
        inner: where the tensors in attributes lie.
        name: the model, for messages.
        reopen: opens its source.
        notes: what an exporter wrote about tensors.
    """
    found = StoredTensors()
    uses = roles.uses(nodes)
    for tensor in graph.initializer:
        key = tensor.name
        if key in initializers:
            dtype, taken = DTYPES.get(tensor.data_type), uses.get(key, ())
            said = notes.kind(key, initializers)
            found.kinds[key] = roles.kind_of(dtype, len(tensor.dims), taken, said)
            found.weights[key] = functools.partial(load, initializers[key], name, reopen)
    given = {*initializers, *(n.output[0] for n in graph.node if n.op_type == "Constant" and n.output)}
    for node in graph.node:
        if node.domain or node.op_type not in ("Constant", "ConstantOfShape") or not node.output or not node.output[0]:
            continue
        key = node.output[0]
        dtype, shape, taken = shapes.dtype(key), shapes.shape(key), uses.get(key, ())
        if node.op_type == "ConstantOfShape":
            # Zeros in the shape of an activation are work space; a shape that the file states is that of a weight.
            stated = bool(node.input) and node.input[0] in given
            if stated and shape is not None and (kind := roles.kind_of_filled(dtype, len(shape), taken)):
                found.kinds[key] = kind
                found.weights[key] = functools.partial(_filled, key, shape, node)
            continue
        found.kinds[key] = roles.kind_of_constant(dtype, len(shape or ()), math.prod(shape or ()), taken)
        mark, loader = _held(node, key, inner, name, reopen)
        first = found.marks.setdefault(mark, key) if mark.startswith(TAG) else key
        if first != key:
            found.first[key] = first
        elif loader is not None:
            found.weights[key] = loader
    return found


def _held(
    node: onnx.NodeProto, key: str, inner: Mapping[str, Stored], name: str, reopen: Reopen | None
) -> tuple[str, Callable[[], Any] | None]:
    """The name of the message in which a Constant's tensor lies, and what loads the tensor."""
    for attribute in node.attribute:
        kind = attribute.type
        if kind == onnx.AttributeProto.TENSOR:
            tensor: Any = attribute.t
            mark = str(tensor.name)
        elif kind == onnx.AttributeProto.SPARSE_TENSOR:
            tensor = attribute.sparse_tensor
            mark = str(tensor.values.name)
        elif kind in (onnx.AttributeProto.FLOATS, onnx.AttributeProto.INTS):
            return "", functools.partial(_listed, attribute)
        else:
            continue
        if mark in inner:
            return mark, functools.partial(load, inner[mark], name, reopen)
        return mark, functools.partial(_in_attribute, tensor, key, name)
    return "", None


def _in_attribute(tensor: onnx.TensorProto | onnx.SparseTensorProto, key: str, name: str) -> Any:
    """The elements of a tensor that the skeleton holds."""
    return load(stored_in_memory(tensor, key, name), name, None)


def _listed(attribute: onnx.AttributeProto) -> Any:
    """The elements of a tensor that is written as a list of numbers."""
    if attribute.type == onnx.AttributeProto.FLOATS:
        return numpy.array(attribute.floats, numpy.float32)
    return numpy.array(attribute.ints, numpy.int64)


def _filled(name: str, shape: tuple[int, ...], node: onnx.NodeProto) -> Any:
    """What a ConstantOfShape makes, in no more memory than one element: one value everywhere, 0 if none is given."""
    try:
        value = numpy_helper.to_array(node.attribute[0].t).ravel() if node.attribute else numpy.zeros(1, numpy.float32)
        return numpy.broadcast_to(value[0], shape)
    except (IndexError, TypeError, ValueError) as error:
        raise ModelError(f"tensor {name!r} cannot be made ({error})") from error
