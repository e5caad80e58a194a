"""Pooling, sampling, Fourier transforms, distances and inverses of ``com.microsoft``.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from flopwise.errors import ShapeError
from flopwise.graph import Node, Shape
from flopwise.operators import shape
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent, integer, product
from flopwise.operators.fourier import fourier
from flopwise.operators.onnx import pooling, resize
from flopwise.operators.operator import Operator, by, counted_as, each_input


def crop_and_resize(node: Node) -> Counts:
    """numel(Y) × (4 mul + 4 add) (bilinear: 4 neighbours) and rois × h × w × 4 mul (their weights); each of the rois ×
    (h + w) rows and columns takes 1 mul + 1 add (its place), 2 cmp (the edges) and 2 cmp + 2 add (its neighbours and
    their weights), each of the rois 4 mul + 2 add + 2 div. nearest: no averages and weights, and 1 cmp in place of 2
    cmp + 2 add.

    Y is (rois, C, h, w). Places beyond the edge are processed like any other.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CropAndResize
    """
    y = node.output()
    regions, _, height, width = (extent(node, y, axis) for axis in range(4))
    lines = regions * (height + width)
    work = Counts(mul=4, add=2, div=2) * regions + Counts(mul=1, add=1, cmp=2) * lines
    if node.attrs.get("mode", "bilinear") == "nearest":
        return work + Counts(cmp=lines)
    return (
        work + Counts(cmp=2, add=2) * lines + Counts(mul=4, add=4) * y.numel + Counts(mul=4 * regions * height * width)
    )


def distances(node: Node) -> Counts:
    """numel(C) × N × (2 add + 1 mul): a difference, its square and their sum, for N features; metric euclidean:
    numel(C) sqrt.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CDist

    Raises:
        ShapeError: the metric is another one.
    """
    metric = node.attrs.get("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise ShapeError(f"{node.op} {node.name!r}: there is no count for the metric {metric!r}")
    pairs = node.output().numel
    terms = pairs * extent(node, node.input(0), -1)
    return Counts(add=2 * terms, mul=terms, sqrt=pairs if metric == "euclidean" else 0)


def spectrum(node: Node) -> Counts:
    """at most 2.5 N log₂ N operations (N log₂ N mul + 1.5 N log₂ N add) for each real line of N elements, N a power of
    two, other lengths as for DFT; signal_ndim > 1: the transform of the bins along each further axis, twice that.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Rfft
    """
    signal, axes = node.input(0), integer(node, "signal_ndim", 1)
    return _transforms(node, signal.dims, node.output().dims[:-1], axes)


def signal_of_spectrum(node: Node) -> Counts:
    """at most as Rfft, the other way round, and numel(Y) div.

    X is (..., n / 2 + 1, 2): the other half of the spectrum mirrors the one that is given.

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Irfft
    """
    y = node.output()
    return _transforms(node, y.dims, node.input(0).dims[:-1], integer(node, "signal_ndim", 1)) + Counts(div=y.numel)


def _transforms(node: Node, signal: Shape, bins: Shape, axes: int) -> Counts:
    """A transform between real numbers and bins along the last axis, and of the bins along those before it."""
    if not 1 <= axes <= len(signal) == len(bins):
        raise ShapeError(f"{node.op} {node.name!r}: {signal} and {bins} do not fit each other")
    counts = fourier(node, signal[-1], real=True) * product(signal[:-1])
    for axis in range(-axes, -1):
        counts += fourier(node, bins[axis], real=False) * (product(bins[:axis]) * product(bins[axis:][1:]))
    return counts


def inverse(node: Node) -> Counts:
    """at most, for each M × M matrix, M³ mac + M² div (elimination beside the identity) and M (M + 1) / 2 × (1 bit + 1
    cmp) (the largest pivot of each column).

    https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Inverse
    """
    x = node.input(0)
    size = extent(node, x, -1)
    pivots = size * (size + 1) // 2
    return Counts(mac=size * size * size, div=size * size, bit=pivots, cmp=pivots) * product(x.dims[:-2])


OPERATORS: dict[str, Operator] = {
    "com.microsoft::MaxpoolWithMask": counted_as(pooling.OPERATORS["MaxPool"], shape=shape.twin("MaxPool")),
    "com.microsoft::NhwcMaxPool": counted_as(pooling.OPERATORS["MaxPool"], types="layouts:max_pool"),
    "com.microsoft::GridSample": counted_as(
        resize.OPERATORS["GridSample"], shape=shape.twin("GridSample", (0, 1), ("mode",))
    ),
    "com.microsoft::CropAndResize": by(crop_and_resize, types="movement:cropped"),
    "com.microsoft::CDist": by(distances, types="products:pairs"),
    "com.microsoft::Inverse": by(inverse, "bound", shape=shape.alike),
    "com.microsoft::Rfft": by(spectrum, "bound", types="products:spectrum"),
    "com.microsoft::Irfft": by(signal_of_spectrum, "bound", types="products:signal"),
    "com.microsoft::DynamicTimeWarping": each_input(
        Counts(cmp=3, add=1), note="the cheapest of three ways to each cell", types="products:warping_path"
    ),
}
