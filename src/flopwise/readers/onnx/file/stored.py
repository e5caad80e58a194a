"""The stored tensors of an ONNX model: what each is for, and where it lies."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
import onnx
from onnx import numpy_helper

from flopwise.errors import ModelError
from flopwise.graph import Kind, StoredTensor
from flopwise.readers.onnx.build import roles
from flopwise.readers.onnx.file.elements import stored_tensor
from flopwise.readers.onnx.file.exporter_notes import Notes
from flopwise.readers.onnx.file.proto import stored_in_memory
from flopwise.readers.onnx.file.skeleton import DTYPES, TAG, Stored
from flopwise.readers.onnx.listing import Listed
from flopwise.readers.onnx.types import Shapes
from flopwise.readers.weights.elements import RepeatedElements
from flopwise.readers.weights.encoding import numbers
from flopwise.readers.weights.storage import SourceStorage
from flopwise.readers.weights.tensor import in_memory


@dataclass(frozen=True, slots=True)
class StoredTensors:
    """What is known about the tensors of a model that are not made anew in each inference."""

    #: Name -> what the tensor is; activations are left out.
    kinds: dict[str, Kind] = field(default_factory=dict)
    #: The tensors with elements.
    weights: dict[str, StoredTensor] = field(default_factory=dict)
    #: Name -> the first name of the same stored tensor (a function's constant appears wherever the function is called).
    first: dict[str, str] = field(default_factory=dict)
    #: Mark of a tensor in an attribute -> the first name of its value.
    marks: dict[str, str] = field(default_factory=dict)


def stored_tensors(
    graph: onnx.GraphProto,
    own: Sequence[Listed],
    nodes: Sequence[Listed],
    shapes: Shapes,
    initializers: Mapping[str, Stored],
    inner: Mapping[str, Stored],
    name: str,
    storage: SourceStorage | None,
    notes: Notes,
) -> StoredTensors:
    """Kinds and elements of the initialisers of a graph, and of the constants that its nodes hold.

    Args:
        graph: without weights, its nodes in execution order.
        own: its nodes.
        nodes: the nodes that may use its tensors: its own, and those in its bodies.
        shapes: its shapes.
        initializers: where its initialisers lie.
        inner: where the tensors in attributes lie.
        name: the model, for messages.
        storage: its file; None where it is in memory.
        notes: what an exporter wrote about tensors.
    """
    stored = StoredTensors()
    initial = [(t.name, t.data_type) for t in graph.initializer]
    uses = roles.uses(nodes, [key for key, _ in initial])
    noted = bool(notes.kinds or notes.origins)
    kinds: dict[object, Kind] = {}  # models of 100,000 tensors have a handful of cases
    for key, code in initial:
        place = initializers.get(key)
        if place is not None:
            taken, said = uses.get(key, ()), notes.kind(key, initializers) if noted else None
            case = (code, len(place.dims), said, *map(id, taken))
            kind = kinds.get(case)
            if kind is None:
                kind = kinds[case] = roles.kind_of(DTYPES.get(code), len(place.dims), taken, said)
            stored.kinds[key] = kind
            stored.weights[key] = stored_tensor(key, place, kind, name, storage)
    constants = [n for n in own if n.op in ("Constant", "ConstantOfShape") and n.outputs]
    names = {*initializers, *(n.outputs[0] for n in constants if n.op == "Constant")} if constants else set()
    for node in constants:
        op, inputs, key = node.op, node.inputs, node.outputs[0]
        if node.domain or not key:
            continue
        dtype, shape, taken = shapes.dtype(key), shapes.shape(key), uses.get(key, ())
        if op == "ConstantOfShape":
            # Zeros in the shape of an activation are work space; a shape that the file states is that of a weight.
            stated = bool(inputs) and inputs[0] in names
            if stated and shape is not None and (filled := roles.kind_of_filled(dtype, len(shape), taken)):
                stored.kinds[key] = filled
                stored.weights[key] = _repeated(key, shape, dtype, filled, node.proto)
            continue
        kind = stored.kinds[key] = roles.kind_of_constant(dtype, len(shape or ()), math.prod(shape or ()), taken)
        mark, held = _held(node, key, kind, inner, name, storage)
        first = stored.marks.setdefault(mark, key) if mark.startswith(TAG) else key
        if first != key:
            stored.first[key] = first
        elif held is not None:
            stored.weights[key] = held
    return stored


def _held(
    node: Listed, key: str, kind: Kind, inner: Mapping[str, Stored], name: str, storage: SourceStorage | None
) -> tuple[str, StoredTensor | None]:
    """The name of the message in which a Constant's tensor lies, and the tensor."""
    for attribute in map(onnx.AttributeProto.FromString, node.attributes):
        form = attribute.type
        if form == onnx.AttributeProto.TENSOR:
            tensor: Any = attribute.t
            mark = str(tensor.name)
        elif form == onnx.AttributeProto.SPARSE_TENSOR:
            tensor = attribute.sparse_tensor
            mark = str(tensor.values.name)
        elif form in (onnx.AttributeProto.FLOATS, onnx.AttributeProto.INTS):
            return "", _listed(key, attribute, kind)
        else:
            continue
        if mark in inner:
            return mark, stored_tensor(key, inner[mark], kind, name, storage)
        return mark, stored_tensor(key, stored_in_memory(tensor, key, name), kind, name, None)
    return "", None


def _listed(key: str, attribute: onnx.AttributeProto, kind: Kind) -> StoredTensor:
    """A tensor that is written as a list of numbers."""
    if attribute.type == onnx.AttributeProto.FLOATS:
        shape, dtype = (len(attribute.floats),), "float32"
    else:
        shape, dtype = (len(attribute.ints),), "int64"
    values = numpy.array(attribute.floats or attribute.ints, dtype)
    return in_memory(key, functools.partial(numpy.array, values), shape, dtype, role=kind)


def _repeated(key: str, shape: tuple[int, ...], dtype: str | None, kind: Kind, node: onnx.NodeProto) -> StoredTensor:
    """What a ConstantOfShape makes: one value everywhere, 0 if none is given."""

    elements = RepeatedElements(functools.partial(_value, key, node.attribute[0].t if node.attribute else None), shape)
    return StoredTensor(key, shape, dtype or "float32", 0, role=kind, repeated=True, elements=elements)


def _value(key: str, tensor: onnx.TensorProto | None) -> Any:
    """The value that a ConstantOfShape repeats, as an array of one element."""
    try:
        one = numpy.zeros(1, numpy.float32) if tensor is None else numpy_helper.to_array(tensor)
        return numbers(one.ravel()[:1])
    except (IndexError, TypeError, ValueError) as error:
        raise ModelError(f"tensor {key!r} cannot be made ({error})") from error
