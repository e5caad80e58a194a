"""Pooling over regions of interest. Where the regions lie is data, so the work is bounded by the whole map."""

from __future__ import annotations

from flopwise.graph import Dim, Node
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, required
from flopwise.operators.operator import Operator, by


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


OPERATORS: dict[str, Operator] = {
    "RoiAlign": by(roi_align, "bound", shape="windows:regions"),
    "MaxRoiPool": by(max_roi_pool, "bound", shape="windows:regions"),
}
