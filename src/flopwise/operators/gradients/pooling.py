"""Gradients of pooling, resampling and extremes along axes: each result's gradient goes back to where it came from.

Windows that overlap add up; resampling has the weights of its forward pass, from the result back to the neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable

from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, integers, product
from flopwise.operators.gradient import Wrt
from flopwise.operators.onnx import spatial as forward

#: Bytes of the kept place of a maximum.
PLACE = 8


def places(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """X and the places of the maxima are kept."""
    yield node.input(0)
    further = [t for t in node.outputs[1:2] if t is not None]
    yield further[0] if further else PLACE * node.output().numel


def average_pool(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) div + numel(Y) × prod(kernel_shape) add: G / prod(kernel_shape) to each cell."""
    outputs = node.output().numel
    return Counts(div=outputs, add=outputs * product(integers(node, "kernel_shape")))


def lp_pool(node: Node, wrt: Wrt) -> Counts:
    """cells = numel(Y) × prod(kernel_shape). p = 2: numel(Y) div + cells × (1 mul + 1 add): x × G/y to each cell;
    p = 1: cells × (1 cmp + 1 mul + 1 add); else numel(Y) × (1 pow + 1 div) + cells × (1 bit + 1 pow + 1 cmp + 2 mul + 1
    add).
    """
    outputs = node.output().numel
    return _norm(node, outputs * product(integers(node, "kernel_shape")), Counts(mul=1, add=1))


def global_lp_pool(node: Node, wrt: Wrt) -> Counts:
    """p = 2: numel(Y) div + numel(X) mul: x × G/y; p = 1: numel(X) × (1 cmp + 1 mul); else numel(Y) × (1 pow + 1 div) +
    numel(X) × (1 bit + 1 pow + 1 cmp + 2 mul).
    """
    return _norm(node, node.input(0).numel, Counts(mul=1))


def _norm(node: Node, cells: int, last: Counts) -> Counts:
    """Gradients of p-norms: sign(x) |x|^(p−1) × G y^(1−p)."""
    p, outputs = node.attrs.get("p", 2), node.output().numel
    if p == 1:
        return (Counts(cmp=1) + last) * cells
    if p == 2:
        return last * cells + Counts(div=outputs)
    return (Counts(bit=1, pow=1, cmp=1, mul=1) + last) * cells + Counts(pow=1, div=1) * outputs


def extreme(node: Node, wrt: Wrt) -> Counts:
    """numel(X) cmp: G where x = y; nothing where the forward pass gave the places too."""
    return Counts(cmp=0 if len(node.known_outputs) > 1 else node.input(0).numel)


def extreme_keeps(node: Node, wrt: Wrt) -> Iterable[Tensor | int]:
    """The places where the forward pass gave them, else X and Y."""
    return node.known_outputs[1:] if len(node.known_outputs) > 1 else (node.input(0), node.output())


def resize(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) × taps × (1 mul + 1 add), as in the forward pass; nearest: numel(Y) add."""
    if node.input(0).dims == node.output().dims:
        return Counts()
    counts = forward.resize(node)
    return counts if any(counts) else Counts(add=node.output().numel)


def grid_sample(node: Node, wrt: Wrt) -> Counts:
    """places and weights are made again as in the forward pass; dX: numel(Y) × taps × (1 mul + 1 add), nearest
    numel(Y) add; dgrid, r = grid.shape[-1]: numel(Y) × r × (taps + 1) × (1 mul + 1 add) and numel(grid) mul, r > 2
    numel(grid) × taps × (r − 2) mul more; nearest: nothing.

    Raises:
        ShapeError: the grid asks for its gradient in mode cubic.
    """
    counts = forward.grid_sample(node)
    outputs, sampled, grid = node.output().numel, forward.samples(node), node.input(1)
    if not sampled:
        return counts + Counts(add=outputs if 0 in wrt else 0)
    if 1 in wrt:
        if node.attrs.get("mode", "linear") in ("cubic", "bicubic"):
            raise ShapeError(f"{node.op} {node.name!r}: there is no rule for the gradient of the grid in mode cubic")
        axes = extent(node, grid, -1)
        counts += Counts(mul=1, add=1) * (axes * (sampled + outputs))
        counts += Counts(mul=grid.numel * (1 + 2**axes * max(axes - 2, 0)))
    return counts if 0 in wrt else counts + Counts(mul=-sampled, add=-sampled)


def affine_grid(node: Node, wrt: Wrt) -> Counts:
    """numel(Y) × (r + 1) mac: each coordinate's G times the position."""
    return forward.affine_grid(node)
