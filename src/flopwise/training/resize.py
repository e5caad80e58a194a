"""Gradients of resampling: the same weights as in the forward pass, from the result back to the neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flopwise.counts import Counts
from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.ops import resize as forward
from flopwise.training.rule import Backward, Wanted, by, none


def resize(node: Node, wanted: Wanted) -> Counts:
    """numel(Y) × taps mac, as in the forward pass; nearest: numel(Y) add."""
    if node.input(0).dims == node.output().dims:
        return Counts()
    counts = forward.resize(node)
    return counts if counts.mac else Counts(add=node.output().numel)


def grid_sample(node: Node, wanted: Wanted) -> Counts:
    """dX: numel(Y) × taps mac, nearest numel(Y) add, at places and weights that are computed again as in the forward
    pass.

    Raises:
        ShapeError: the grid asks for its gradient.
    """
    if 1 in wanted:
        raise ShapeError(f"{node.op} {node.name!r}: there is no rule for the gradient of the grid")
    counts = forward.grid_sample(node)
    return counts if counts.mac else counts + Counts(add=node.output().numel)


def affine_grid(node: Node, wanted: Wanted) -> Counts:
    """numel(Y) × (r + 1) mac: each coordinate's G times the position."""
    return forward.affine_grid(node)


def inputs(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
    """All inputs are kept."""
    return node.known_inputs


BACKWARD: Mapping[str, Backward] = {
    "Resize": by(resize, none),
    "Upsample": by(resize, none),
    "GridSample": by(grid_sample, inputs),
    "AffineGrid": by(affine_grid, none),
}
