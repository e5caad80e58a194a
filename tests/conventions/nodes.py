"""Nodes made of shapes, and what a convention says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flopwise.conventions import CONVENTIONS
from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.tables import count

Shapes = Sequence["tuple[int, ...] | None"]


def node(
    op: str,
    inputs: Shapes,
    outputs: Shapes,
    attrs: Mapping[str, Any] | None = None,
    version: int = 0,
    name: str = "",
) -> Node:
    """A node on tensors of these shapes; None is an omitted input or output."""

    def tensors(prefix: str, shapes: Shapes) -> tuple[Tensor | None, ...]:
        return tuple(None if s is None else Tensor(f"{prefix}{i}", s, "float32") for i, s in enumerate(shapes))

    return Node(op, name, tensors("x", inputs), tensors("y", outputs), attrs or {}, version=version)


def view(convention: str, one: Node) -> Counts | None:
    """The classes of a node in a convention."""
    return CONVENTIONS[convention].view(one, count(one))


def total(convention: str, one: Node) -> int | None:
    """The count of a node in a convention's unit; None when the convention cannot count it."""
    seen = view(convention, one)
    return None if seen is None else seen.dot(CONVENTIONS[convention].weights)
