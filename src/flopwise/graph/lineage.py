"""Which tensors of a graph follow from others."""

from __future__ import annotations

from collections.abc import Collection

from flopwise.graph.graph import Graph


def following(graph: Graph, names: Collection[str]) -> set[str]:
    """Names of the tensors that are computed from any of the named ones, these among them."""
    reached = set(names)
    for node in graph.nodes:
        if any(tensor.name in reached for tensor in node.known_inputs):
            reached.update(tensor.name for tensor in node.known_outputs)
    return reached


def token_ids(graph: Graph) -> str | None:
    """Name of the input that holds token ids: the first of whole numbers that is not a mask; None without one."""
    for tensor in graph.inputs:
        if tensor.kind == "input" and tensor.dtype in ("int64", "int32") and tensor.shape and "mask" not in tensor.name:
            return tensor.name
    return None
