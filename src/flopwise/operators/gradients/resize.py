"""Gradients of resampling: the same weights as in the forward pass, from the result back to the neighbours."""

from __future__ import annotations

from flopwise.errors import ShapeError
from flopwise.graph import Node
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent
from flopwise.operators.gradient import Wanted
from flopwise.operators.onnx import resize as forward


def resize(node: Node, wanted: Wanted) -> Counts:
    """numel(Y) × taps × (1 mul + 1 add), as in the forward pass; nearest: numel(Y) add."""
    if node.input(0).dims == node.output().dims:
        return Counts()
    counts = forward.resize(node)
    return counts if any(counts) else Counts(add=node.output().numel)


def grid_sample(node: Node, wanted: Wanted) -> Counts:
    """places and weights are made again as in the forward pass; dX: numel(Y) × taps × (1 mul + 1 add), nearest
    numel(Y) add; dgrid, r = grid.shape[-1]: numel(Y) × r × (taps + 1) × (1 mul + 1 add) and numel(grid) mul, r > 2
    numel(grid) × taps × (r − 2) mul more; nearest: nothing.

    Raises:
        ShapeError: the grid asks for its gradient in mode cubic.
    """
    counts = forward.grid_sample(node)
    outputs, sampled, grid = node.output().numel, forward.samples(node), node.input(1)
    if not sampled:
        return counts + Counts(add=outputs if 0 in wanted else 0)
    if 1 in wanted:
        if node.attrs.get("mode", "linear") in ("cubic", "bicubic"):
            raise ShapeError(f"{node.op} {node.name!r}: there is no rule for the gradient of the grid in mode cubic")
        axes = extent(node, grid, -1)
        counts += Counts(mul=1, add=1) * (axes * (sampled + outputs))
        counts += Counts(mul=grid.numel * (1 + 2**axes * max(axes - 2, 0)))
    return counts if 0 in wanted else counts + Counts(mul=-sampled, add=-sampled)


def affine_grid(node: Node, wanted: Wanted) -> Counts:
    """numel(Y) × (r + 1) mac: each coordinate's G times the position."""
    return forward.affine_grid(node)
