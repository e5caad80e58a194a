"""Weightless models: initialisers that were written without their elements, taken back for initialisers.

ONNX has no initialiser without elements. ``flopwise shapes --no-weights`` writes a Constant operator instead, and marks
it. Its sparse tensor has the shape and the type, and no element that is not zero.
"""

from __future__ import annotations

from dataclasses import replace

from flopwise.formats.onnx.file.decode import entries
from flopwise.formats.onnx.file.model import Graph, Node
from flopwise.formats.onnx.file.skeleton import Stored

#: Key of the metadata by which such an operator is known.
MARK = "flopwise.initializer"


def with_initializers(graph: Graph) -> Graph:
    """The graph with initialisers in place of the marked constants, and so in the bodies of its control flow."""
    nodes: list[Node] = []
    initializers = dict(graph.initializers)
    for node in graph.nodes:
        stored = _marked(node)
        if stored is None:
            nodes.append(node.with_bodies(with_initializers))
        else:
            initializers[node.outputs[0]] = replace(stored, name=node.outputs[0])
    return replace(graph, nodes=nodes, initializers=initializers)


def _marked(node: Node) -> Stored | None:
    """The tensor of a marked constant, None for any other operator."""
    if node.op != "Constant" or len(node.outputs) != 1 or MARK not in entries(node.metadata):
        return None
    held = node.attributes.get("sparse_value")
    return held if isinstance(held, Stored) and len(node.attributes.values) == 1 else None
