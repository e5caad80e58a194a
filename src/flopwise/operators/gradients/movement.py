"""Gradients of data movement: elements go back where they came from; one that was read more than once is added up."""

from __future__ import annotations

from collections.abc import Iterable

from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.gradient import Wrt


def repeated(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) add when Y has more elements than X: the copies of an element are added up."""
    outputs = node.output().numel
    return Counts(add=outputs) if outputs != node.input(0).numel else Counts()


def picked(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) add: results may come from the same element."""
    return Counts(add=node.output().numel)


def pad(node: Node, wrt: Wrt) -> Counts:
    """nothing for constant borders, which are cut off; other modes: numel(Y) − numel(X) add."""
    if node.attrs.get("mode", "constant") == "constant":
        return Counts()
    return Counts(add=max(node.output().numel - node.input(0).numel, 0))


def scatter(node: Node, wrt: Wrt) -> Counts:
    """nothing for the reductions none and add: elements of G are copied.

    Raises:
        ShapeError: another reduction.
    """
    if node.attrs.get("reduction", "none") not in ("none", "add"):
        raise ShapeError(f"{node.op} {node.name!r}: there is no rule for the gradient of this reduction")
    return Counts()


def dropped(node: Node) -> bool:
    """True where a Dropout drops: its argument in a program, its third input in a file."""
    if args := node.arguments:
        on = args.get("train", args.get("training", False))
        return bool(on) and args.get("p", 0.5) != 0
    if 0 < node.version < 7:
        return not node.attrs.get("is_test", 0)
    return node.has_input(2)


def dropout(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) mul in training mode: G × the scaled mask of the forward pass; else nothing."""
    return Counts(mul=node.output().numel) if dropped(node) else Counts()


def mask(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """In training mode the scaled mask is kept."""
    return (node.output().nbytes,) if dropped(node) else ()
