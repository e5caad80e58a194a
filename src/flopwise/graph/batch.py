"""The batch that a model runs on."""

from __future__ import annotations

from flopwise.graph.graph import Dim, Graph


def batch_of(graph: Graph) -> Dim:
    """The number of images in the inputs: the first dimension of the first input with at least two, 1 without one."""
    return next((t.shape[0] for t in graph.inputs if t.shape is not None and len(t.shape) > 1), 1)
