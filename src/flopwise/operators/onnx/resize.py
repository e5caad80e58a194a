"""Resampling: each element of the result is a weighted average of its neighbourhood in X, 1 mul + 1 add per neighbour.

A neighbour beyond the edge is processed like any other, and finding a neighbour is addressing, not arithmetic.
"""

from __future__ import annotations

from flopwise.errors import ShapeError
from flopwise.graph import Dim, Node
from flopwise.operators import gradient
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, product
from flopwise.operators.inputs import DATA, SETTING, inputs
from flopwise.operators.operator import Operator, by

#: Neighbours along one axis, by mode. Old operator sets and PyTorch say bilinear and bicubic whatever the rank.
TAPS: dict[str, int] = {"nearest": 1, "linear": 2, "bilinear": 2, "trilinear": 2, "cubic": 4, "bicubic": 4}


def resize(node: Node) -> Counts:
    """numel(Y) × taps × (1 mul + 1 add), taps = 2ʳ for mode linear and 4ʳ for cubic, r the number of axes that change;
    nearest: nothing. antialias: 2 ⌈n/m⌉ (cubic: 2 ⌈2n/m⌉) taps along an axis that shrinks from n to m.

    The weights follow from shapes, scales and attributes alone: constants.

    https://onnx.ai/onnx/operators/onnx__Resize.html
    """
    taps = _taps(node, "nearest")
    if taps == 1:
        return Counts()
    before, after = node.input(0).dims, node.output().dims
    if len(before) != len(after):
        raise ShapeError(f"{node.op} {node.name!r}: {before} and {after} differ in rank")
    changed = [(n, m) for n, m in zip(before, after, strict=True) if n != m]
    if node.attrs.get("antialias", 0):
        taps_of = [_stretched_taps(node, taps, n, m) for n, m in changed]
    else:
        taps_of = [taps for _ in changed]
    return Counts(mul=1, add=1) * (node.output().numel * product(taps_of) if taps_of else 0)


def _stretched_taps(node: Node, taps: int, before: Dim, after: Dim) -> int:
    """Taps along one axis of a filter that is stretched to cover all elements that an output element stands for.

    Raises:
        ShapeError: the extents are symbols, so whether the axis shrinks is unknown.
    """
    if not isinstance(before, int) or not isinstance(after, int):
        raise ShapeError(
            f"{node.op} {node.name!r} with antialias needs numbers for {before} and {after}: --dim NAME=VALUE"
        )
    if before <= after:
        return taps
    radius = taps // 2
    return 2 * -(-before * radius // after)


def grid_sample(node: Node) -> Counts:
    """numel(Y) × taps × (1 mul + 1 add), taps = 2ʳ for mode linear and 4ʳ for cubic, r = grid.shape[-1]; nearest:
    nothing. For each sampling position taps × (r − 1) mul (weights of the neighbours), and for each coordinate 2 add +
    1 mul + 1 div (1 add less with align_corners), rounding 1 cmp, and the weights along its axis: linear 2 add, cubic
    14 add + 12 mul.

    The grid is data, so coordinates and weights are computed, once for all channels.

    https://onnx.ai/onnx/operators/onnx__GridSample.html
    """
    taps = _taps(node, "linear")
    grid = node.input(1)
    axes = extent(node, grid, -1)
    if axes != len(grid.dims) - 2:  # an extent becomes an exponent below, and a file may claim any
        raise ShapeError(
            f"{node.op} {node.name!r}: {grid.name!r} of shape {grid.dims} has no coordinates of "
            f"{len(grid.dims) - 2} spatial axes"
        )
    counts = Counts(mul=1, div=1, cmp=1, add=1 if node.attrs.get("align_corners", 0) else 2) * grid.numel
    if taps == 1:
        return counts
    counts += (Counts(add=2) if taps == 2 else Counts(add=14, mul=12)) * grid.numel
    weights = product(grid.dims[:-1]) * taps**axes * (axes - 1)
    return counts + Counts(mul=weights) + Counts(mul=1, add=1) * samples(node)


def samples(node: Node) -> int:
    """The elements of X that a GridSample averages: numel(Y) × taps; 0 for nearest."""
    taps = _taps(node, "linear")
    return 0 if taps == 1 else node.output().numel * taps ** extent(node, node.input(1), -1)


def affine_grid(node: Node) -> Counts:
    """numel(Y) × (r + 1) mac, r = Y.shape[-1]: each coordinate is a dot product with a position in homogeneous
    coordinates.

    The positions follow from the size alone: constants. For r = 2 the schema's body computes a third coordinate from
    four terms and drops it; that is not counted.

    https://onnx.ai/onnx/operators/onnx__AffineGrid.html
    """
    y = node.output()
    return Counts(mac=y.numel * (extent(node, y, -1) + 1))


def _taps(node: Node, default: str) -> int:
    """Neighbours along one axis for the node's mode.

    Raises:
        ShapeError: there is no such mode.
    """
    mode = node.attrs.get("mode", default)
    if mode not in TAPS:
        raise ShapeError(f"{node.op} {node.name!r}: unknown mode {mode!r}")
    return TAPS[mode]


OPERATORS: dict[str, Operator] = {
    "Resize": by(
        resize,
        inputs=inputs(DATA, SETTING, SETTING, SETTING),
        gradient=gradient.by("pooling:resize", gradient.none),
        shape="windows:resized",
    ),
    "Upsample": by(
        resize,
        inputs=inputs(DATA, SETTING),
        gradient=gradient.by("pooling:resize", gradient.none),
        shape="windows:resized",
    ),
    "GridSample": by(
        grid_sample, gradient=gradient.by("pooling:grid_sample", gradient.inputs), shape="windows:grid_sampled"
    ),
    "AffineGrid": by(
        affine_grid, gradient=gradient.by("pooling:affine_grid", gradient.none), shape="windows:affine_grid"
    ),
}
