"""Nodes for tests, from shapes alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flopwise.graph import Node, Shape, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.gradient import Gradient
from flopwise.operators.tables import ROWS, count


def node(
    op: str,
    inputs: Sequence[Shape | None],
    outputs: Sequence[Shape | None],
    attrs: Mapping[str, Any] | None = None,
    version: int = 0,
) -> Node:
    """An operator on inputs and outputs of the given shapes; None is an omitted one."""

    def tensors(prefix: str, shapes: Sequence[Shape | None]) -> tuple[Tensor | None, ...]:
        return tuple(
            None if shape is None else Tensor(f"{prefix}{i}", tuple(shape), "float32") for i, shape in enumerate(shapes)
        )

    return Node(op, op.lower(), tensors("x", inputs), tensors("y", outputs), attrs or {}, version=version)


def cost(
    op: str,
    inputs: Sequence[Shape | None],
    outputs: Sequence[Shape | None],
    version: int = 0,
    **attrs: Any,
) -> Counts:
    """The canonical operations of such a node."""
    counts = count(node(op, inputs, outputs, attrs, version))
    assert counts is not None, f"no rule for {op}"
    return counts


def gradient_of(op: str) -> Gradient:
    """The gradient of an operator that has one."""
    gradient = ROWS[op].gradient
    assert gradient is not None, op
    return gradient
