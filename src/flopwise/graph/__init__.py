"""The graph that every reader hands over: operators with resolved shapes. It imports no framework.

Comes in: nothing. Goes out: Graph, Node, Tensor and StoredTensor, and the names of element types.
"""

from __future__ import annotations

from flopwise.graph.graph import (
    STORED,
    Attrs,
    Body,
    Call,
    Dim,
    Graph,
    Invocation,
    Kind,
    Layout,
    Module,
    Node,
    Program,
    ProgramTensor,
    Shape,
    Share,
    Submodule,
    Tensor,
    Way,
)
from flopwise.graph.stored import StoredTensor

__all__ = [
    "STORED",
    "Attrs",
    "Body",
    "Call",
    "Dim",
    "Graph",
    "Invocation",
    "Kind",
    "Layout",
    "Module",
    "Node",
    "Program",
    "ProgramTensor",
    "Shape",
    "Share",
    "StoredTensor",
    "Submodule",
    "Tensor",
    "Way",
]
