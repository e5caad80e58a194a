"""Gradients of reductions along axes: G is spread over what was reduced. n = numel(X), m = numel(Y)."""

from __future__ import annotations

from collections.abc import Iterable

from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.gradient import Wanted


def extreme(node: Node, wanted: Wanted) -> Counts:
    """numel(X) cmp: G where x = y; nothing where the forward pass gave the places too."""
    return Counts(cmp=0 if len(node.known_outputs) > 1 else node.input(0).numel)


def extreme_keeps(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """The places where the forward pass gave them, else X and Y."""
    return node.known_outputs[1:] if len(node.known_outputs) > 1 else (node.input(0), node.output())
