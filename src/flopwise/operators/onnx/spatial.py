"""Pooling, resizing, and the detection of objects."""

from __future__ import annotations

from flopwise.errors import ShapeError
from flopwise.graph import Dim, Node
from flopwise.operators import gradient
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, integers, product, required
from flopwise.operators.inputs import DATA, SETTING, inputs
from flopwise.operators.operator import Operator, by, each_input

# Pooling: a reduction over each window. Padded cells are processed like any other, so a window is its kernel.


def max_pool(node: Node) -> Counts:
    """numel(Y) × prod(kernel_shape) cmp.

    https://onnx.ai/onnx/operators/onnx__MaxPool.html
    """
    return Counts(cmp=_cells(node))


def average_pool(node: Node) -> Counts:
    """numel(Y) × prod(kernel_shape) add + numel(Y) div.

    https://onnx.ai/onnx/operators/onnx__AveragePool.html
    """
    return Counts(add=_cells(node), div=node.output().numel)


def lp_pool(node: Node) -> Counts:
    """numel(Y) × prod(kernel_shape) × (1 mul + 1 add) + numel(Y) sqrt for p = 2; × (1 bit + 1 add) for p = 1; else ×
    (1 bit + 1 pow + 1 add) + numel(Y) pow.

    https://onnx.ai/onnx/operators/onnx__LpPool.html
    """
    return _norm(node, _cells(node))


def global_lp_pool(node: Node) -> Counts:
    """numel(X) × (1 mul + 1 add) + numel(Y) sqrt for p = 2; × (1 bit + 1 add) for p = 1; else × (1 bit + 1 pow + 1
    add) + numel(Y) pow.

    https://onnx.ai/onnx/operators/onnx__GlobalLpPool.html
    """
    return _norm(node, node.input(0).numel)


def _cells(node: Node) -> int:
    """Window cells visited: one kernel for each output element."""
    return node.output().numel * product(integers(node, "kernel_shape"))


def _norm(node: Node, cells: int) -> Counts:
    """The p-norms of all windows together: |x|ᵖ summed, then the p-th root of each sum."""
    p, outputs = node.attrs.get("p", 2), node.output().numel
    if p == 1:
        return Counts(bit=cells, add=cells)
    if p == 2:
        return Counts(mul=cells, add=cells, sqrt=outputs)
    return Counts(bit=cells, pow=cells + outputs, add=cells)


POOLING: dict[str, Operator] = {
    "MaxPool": by(
        max_pool,
        gradient=gradient.each("G to the place of each maximum, which the forward pass kept", "pooling:places", add=1),
        shape="windows:pool",
        dtype=(0, "int64"),
    ),
    "AveragePool": by(average_pool, gradient=gradient.by("pooling:average_pool", gradient.x), shape="windows:pool"),
    "LpPool": by(lp_pool, gradient=gradient.by("pooling:lp_pool", gradient.both), shape="windows:pool"),
    "GlobalMaxPool": each_input(
        Counts(cmp=1),
        gradient=gradient.nothing("G goes to the place of each maximum, which the forward pass kept", "pooling:places"),
        shape="windows:global_pool",
    ),
    "GlobalAveragePool": each_input(
        Counts(add=1),
        Counts(div=1),
        gradient=gradient.each("the same G / n for all cells", gradient.none, div=1),
        shape="windows:global_pool",
    ),
    "GlobalLpPool": by(
        global_lp_pool, gradient=gradient.by("pooling:global_lp_pool", gradient.both), shape="windows:global_pool"
    ),
}


# Resampling: each element of the result is a weighted average of its neighbourhood in X, 1 mul + 1 add per
# neighbour.
#
# A neighbour beyond the edge is processed like any other, and finding a neighbour is addressing, not arithmetic.

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


RESIZE: dict[str, Operator] = {
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


# Pooling over regions of interest. Where the regions lie is data, so the work is bounded by the whole map.


def roi_align(node: Node) -> Counts:
    """at most P × C × (4 mul + 4 add) + numel(Y) div (mode max: P × C × (4 mul + 4 cmp)), P = rois × outH × outW × g
    the points at which a map is sampled, g = sampling_ratio², or ⌈H/outH⌉ × ⌈W/outW⌉ for regions up to the whole map
    when it is 0. Each point takes 8 mul + 8 add + 2 div + 10 cmp (place and weights), each region 4 mul + 6 add + 2 div
    + 4 cmp.

    A point is the bilinear average of 4 elements; places and weights are computed once for all channels.

    https://onnx.ai/onnx/operators/onnx__RoiAlign.html
    """
    x, y = node.input(0), node.output()
    regions, channels, height, width = (extent(node, y, axis) for axis in range(4))
    ratio: int = node.attrs.get("sampling_ratio", 0)
    grid = (
        ratio * ratio if ratio > 0 else _divided_up(extent(node, x, 2), height) * _divided_up(extent(node, x, 3), width)
    )
    points = regions * height * width * grid
    counts = Counts(mul=4, add=6, div=2, cmp=4) * regions + Counts(mul=8, add=8, div=2, cmp=10) * points
    if node.attrs.get("mode", "avg") == "max":
        return counts + Counts(mul=4, cmp=4) * (points * channels)
    return counts + Counts(mul=4, add=4) * (points * channels) + Counts(div=y.numel)


def max_roi_pool(node: Node) -> Counts:
    """at most numel(Y) × (⌈H/outH⌉ + 1) × (⌈W/outW⌉ + 1) cmp, for regions up to the whole map; each of the rois × outH
    × outW cells takes 4 mul + 4 add + 12 cmp (its borders), each region 4 mul + 4 add + 2 div + 6 cmp.

    https://onnx.ai/onnx/operators/onnx__MaxRoiPool.html
    """
    x, y = node.input(0), node.output()
    shape: list[int] = required(node, "pooled_shape")
    rows, columns = shape
    window = (_divided_up(extent(node, x, 2), rows) + 1) * (_divided_up(extent(node, x, 3), columns) + 1)
    regions = extent(node, node.input(1), 0)
    borders = Counts(mul=4, add=4, cmp=12) * (regions * rows * columns)
    return Counts(cmp=y.numel * window) + borders + Counts(mul=4, add=4, div=2, cmp=6) * regions


def _divided_up(count: Dim, parts: Dim) -> int:
    """count / parts, rounded up."""
    return int(-(-count // parts)) if isinstance(count, int) and isinstance(parts, int) else -(-count // parts)


DETECTION: dict[str, Operator] = {
    "RoiAlign": by(roi_align, "bound", shape="windows:regions"),
    "MaxRoiPool": by(max_roi_pool, "bound", shape="windows:regions"),
}
