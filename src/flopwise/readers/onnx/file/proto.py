"""An ONNX model in memory without its weights: large tensors are neither serialised nor copied."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx

from flopwise.errors import ModelError
from flopwise.readers.onnx.file.skeleton import DTYPES, Pieces, Skeleton, Stored, kept, refuse_impossible, tag

#: Types of attributes that may hold tensors.
_HEAVY = frozenset(
    {
        onnx.AttributeProto.TENSOR,
        onnx.AttributeProto.TENSORS,
        onnx.AttributeProto.GRAPH,
        onnx.AttributeProto.GRAPHS,
        onnx.AttributeProto.SPARSE_TENSOR,
        onnx.AttributeProto.SPARSE_TENSORS,
    }
)

#: Fields of an attribute that may hold tensors.
_HELD = ("t", "tensors", "g", "graphs", "sparse_tensor", "sparse_tensors")


def from_proto(model: onnx.ModelProto) -> Skeleton:
    """The model without its weights; these stay where they are.

    Raises:
        ModelError: a tensor cannot exist.
    """
    light = onnx.ModelProto(ir_version=model.ir_version, producer_name=model.producer_name)
    light.opset_import.extend(model.opset_import)
    copy = _Copy(str(model.graph.name or "<ModelProto>"))
    try:
        copy.graph(model.graph, light.graph, 0)
        for function in model.functions:
            new = light.functions.add()
            _copy_fields(function, new, without=("node", "attribute_proto", "value_info", "doc_string"))
            copy.nodes(function.node, new.node, 0)
            copy.attributes(function.attribute_proto, new.attribute_proto, 0)
    except (TypeError, ValueError) as error:  # protobuf hands over as bytes what is not UTF-8, and takes no such name
        raise ModelError(f"{copy.source}: a name is not UTF-8 ({error})") from error
    return Skeleton(light.SerializeToString(), copy.initializers, copy.inner, Pieces(), Pieces())


def stored_in_memory(tensor: onnx.TensorProto | onnx.SparseTensorProto, name: str, source: str) -> Stored:
    """A tensor that stays where it is.

    Args:
        tensor: the tensor.
        name: what to call it.
        source: the model, for messages.

    Raises:
        ModelError: it cannot exist.
    """
    if isinstance(tensor, onnx.SparseTensorProto):
        values, indices = (stored_in_memory(part, name, source) for part in (tensor.values, tensor.indices))
        refuse_impossible(source, name, tensor.values.data_type, tensor.dims)
        return Stored(name, tuple(tensor.dims), values.dtype, sparse=(values, indices))
    refuse_impossible(source, name, tensor.data_type, tensor.dims)
    external = {e.key: e.value for e in tensor.external_data}
    return Stored(name, tuple(tensor.dims), DTYPES[tensor.data_type], external=external, proto=tensor)


def _copy_fields(old: Any, new: Any, without: tuple[str, ...]) -> None:
    """Copy the fields that are set, but for some."""
    for descriptor, value in old.ListFields():
        if descriptor.name in without:
            continue
        if hasattr(value, "CopyFrom"):
            getattr(new, descriptor.name).CopyFrom(value)
        elif hasattr(value, "extend"):
            getattr(new, descriptor.name).extend(value)
        else:
            setattr(new, descriptor.name, value)


def _copy_head(tensor: onnx.TensorProto, new: onnx.TensorProto) -> None:
    """Copy a tensor but for its elements; to ask a message for these is to copy them."""
    if tensor.name:
        new.name = tensor.name
    new.data_type = tensor.data_type
    new.dims.extend(tensor.dims)
    new.external_data.extend(tensor.external_data)
    if tensor.HasField("data_location"):
        new.data_location = tensor.data_location


class _Copy:
    """The same walk as over a file, over messages."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.initializers: dict[str, Stored] = {}
        self.inner: dict[str, Stored] = {}

    def graph(self, graph: onnx.GraphProto, new: onnx.GraphProto, depth: int) -> None:
        new.name = graph.name
        new.input.extend(graph.input)
        new.output.extend(graph.output)
        new.value_info.extend(graph.value_info)
        new.metadata_props.extend(graph.metadata_props)
        self.nodes(graph.node, new.node, depth)
        for tensor in graph.initializer:
            copied = new.initializer.add()
            self.remember(self.tensor(tensor, copied), copied, depth)
        for sparse in graph.sparse_initializer:
            stored = stored_in_memory(sparse, sparse.values.name, self.source)
            copied = new.initializer.add(name=stored.name, data_type=sparse.values.data_type, dims=sparse.dims)
            self.remember(stored, copied, depth)

    def remember(self, stored: Stored, copied: onnx.TensorProto, depth: int) -> None:
        """Write down an initialiser; one in the body of a control flow gets a mark, as names there repeat."""
        if depth == 0:
            self.initializers[stored.name] = stored
        else:
            copied.doc_string = tag(len(self.inner))
            self.inner[copied.doc_string] = stored

    def nodes(self, nodes: Iterable[onnx.NodeProto], new: Any, depth: int) -> None:
        for node in nodes:
            if not any(a.type in _HEAVY for a in node.attribute):
                new.append(node)
                continue
            copied = new.add()
            _copy_fields(node, copied, without=("attribute", "doc_string"))
            self.attributes(node.attribute, copied.attribute, depth)

    def attributes(self, attributes: Iterable[onnx.AttributeProto], new: Any, depth: int) -> None:
        for attribute in attributes:
            if attribute.type not in _HEAVY:
                new.append(attribute)
                continue
            copied = new.add()
            _copy_fields(attribute, copied, without=(*_HELD, "doc_string"))
            if attribute.HasField("t"):
                self.inner_tensor(attribute.t, copied.t)
            for tensor in attribute.tensors:
                self.inner_tensor(tensor, copied.tensors.add())
            if attribute.HasField("g"):
                self.graph(attribute.g, copied.g, depth + 1)
            for body in attribute.graphs:
                self.graph(body, copied.graphs.add(), depth + 1)
            if attribute.HasField("sparse_tensor"):
                self.inner_sparse(attribute.sparse_tensor, copied.sparse_tensor)
            for sparse in attribute.sparse_tensors:
                self.inner_sparse(sparse, copied.sparse_tensors.add())

    def tensor(self, tensor: onnx.TensorProto, new: onnx.TensorProto) -> Stored:
        """Copy a tensor, its elements only if they may steer shapes."""
        stored = stored_in_memory(tensor, tensor.name, self.source)
        if kept(tensor.data_type, tensor.dims):
            new.CopyFrom(tensor)
        else:
            _copy_head(tensor, new)
        return stored

    def inner_tensor(self, tensor: onnx.TensorProto, new: onnx.TensorProto) -> None:
        stored = self.tensor(tensor, new)
        if not kept(tensor.data_type, tensor.dims):
            new.name = tag(len(self.inner))
            self.inner[new.name] = stored

    def inner_sparse(self, sparse: onnx.SparseTensorProto, new: onnx.SparseTensorProto) -> None:
        stored = stored_in_memory(sparse, sparse.values.name, self.source)
        new.dims.extend(sparse.dims)
        _copy_head(sparse.values, new.values)
        _copy_head(sparse.indices, new.indices)
        new.values.name = tag(len(self.inner))
        self.inner[new.values.name] = stored
