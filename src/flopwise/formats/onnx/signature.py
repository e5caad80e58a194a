"""The inputs of an ONNX model as the file declares them, open dimensions included, before any size is chosen."""

from __future__ import annotations

from flopwise.formats.onnx.file.model import CONTROL_FLOW, Graph, Value
from flopwise.formats.onnx.types import dims_of, dtype_of
from flopwise.readers.inputs import Declared


def declared(graph: Graph) -> tuple[Declared, ...]:
    """The inputs of a graph as it declares them, those with stored values left out."""
    return tuple(_declared(value) for value in graph.inputs if value.name not in graph.initializers)


def has_loops(graph: Graph) -> bool:
    """True if a graph has control flow, which may repeat an unknown number of times."""
    return any(node.op in CONTROL_FLOW for node in graph.nodes)


def _declared(value: Value) -> Declared:
    return Declared(value.name, dtype_of(value.type), dims_of(value.type))
