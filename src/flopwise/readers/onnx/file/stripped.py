"""Weightless models: initialisers that were written without their elements, taken back for initialisers.

ONNX has no initialiser without elements. ``flopwise shapes --no-weights`` writes a Constant operator instead, and marks
it. Its sparse tensor has the shape and the type, and no element that is not zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import onnx

from flopwise.readers.onnx.file.proto import stored_in_memory
from flopwise.readers.onnx.file.skeleton import Skeleton, tag
from flopwise.readers.onnx.types import bodies, refuse_bytes

#: Key of the metadata by which such an operator is known.
MARK = "flopwise.initializer"


def take_back(proto: onnx.ModelProto, skeleton: Skeleton, source: str) -> None:
    """Put initialisers in place of the marked constants, in the graph and in the bodies of its control flow.

    Args:
        proto: the model without weights; it is changed.
        skeleton: where its tensors lie; what is taken back is entered.
        source: the model, for messages.

    Raises:
        ModelError: a tensor cannot exist, or its name is not text.
    """
    if not skeleton.mentions(MARK):
        return
    for graph in _graphs(proto.graph):
        others = []
        for node in graph.node:
            sparse = _marked(node)
            if sparse is None:
                others.append(onnx.NodeProto.FromString(node.SerializeToString()))
                continue
            name = node.output[0]
            refuse_bytes([name])
            new = graph.initializer.add(name=name, data_type=sparse.values.data_type, dims=sparse.dims)
            values = skeleton.inner.get(sparse.values.name) or stored_in_memory(sparse, name, source)
            if graph is proto.graph:
                skeleton.initializers[name] = replace(values, name=name)
            else:
                new.doc_string = tag(len(skeleton.inner))
                skeleton.inner[new.doc_string] = replace(values, name=name)
        if len(others) < len(graph.node):
            del graph.node[:]
            graph.node.extend(others)


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    for node in graph.node:
        for body in bodies(node):
            yield from _graphs(body)
    yield graph  # last: its operators are copied when some are taken out


def _marked(node: onnx.NodeProto) -> onnx.SparseTensorProto | None:
    """The tensor of a marked constant, None for any other operator."""
    if node.op_type != "Constant" or len(node.attribute) != 1 or len(node.output) != 1:
        return None
    if not node.attribute[0].HasField("sparse_tensor") or all(e.key != MARK for e in node.metadata_props):
        return None
    sparse: onnx.SparseTensorProto = node.attribute[0].sparse_tensor
    return sparse
