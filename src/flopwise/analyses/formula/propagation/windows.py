"""Shapes of convolutions and poolings: how many windows fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from flopwise.analyses.formula.dim import Dim, require
from flopwise.analyses.formula.propagation.site import Shape, Site, UnknownError, settled
from flopwise.operators.extents import windows_rounded_up


class Window(Protocol):
    """What says how windows lie: strides, dilations, pads, auto_pad and ceil_mode by name."""

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute, or the default."""


def windows(site: Window, extents: Sequence[int], kernel: Sequence[int]) -> Shape:
    """How many windows fit along each axis; that one fits at all becomes a condition.

    https://onnx.ai/onnx/operators/onnx__MaxPool.html
    """
    rank = len(extents)
    strides = site.attr("strides") or [1] * rank
    dilations = site.attr("dilations") or [1] * rank
    pads = site.attr("pads") or [0] * (2 * rank)
    mode = site.attr("auto_pad", "NOTSET")
    if mode == "VALID":
        pads = [0] * (2 * rank)
    if not len(extents) == len(kernel) == len(strides) == len(dilations) == len(pads) // 2:
        raise UnknownError
    up = site.attr("ceil_mode", 0) == 1
    counts: list[int] = []
    for axis, extent in enumerate(extents):
        stride, reach = strides[axis], dilations[axis] * (kernel[axis] - 1) + 1
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            counts.append(-(-extent // stride))
            continue
        before, after = pads[axis], pads[axis + rank]
        room = extent + before + after - reach
        if int(room) < 0:
            room = settled(room)
        if type(room) is Dim:
            require(room.expression, ">=")
        if up:
            counts.append(windows_rounded_up(extent, reach, stride, before, after))
        elif type(room) is Dim:
            counts.append(room // stride + 1)
        else:  # onnx and onnxruntime divide towards zero
            counts.append(math.trunc(room / stride) + 1)
    return tuple(counts)


def conv(site: Site) -> list[Shape | None]:
    """N × M × windows, W being M × C/group × kernel."""
    x, w = site.shape(0), site.shape(3 if site.node.op == "QLinearConv" else 1)
    return [(x[0], w[0], *windows(site, x[2:], site.attr("kernel_shape") or w[2:]))]


def pool(site: Site) -> list[Shape | None]:
    """N × C × windows, twice where the places are asked for too."""
    x = site.shape(0)
    shape: Shape = (*x[:2], *windows(site, x[2:], site.attr("kernel_shape")))
    return [shape, shape]


def global_pool(site: Site) -> list[Shape | None]:
    """N × C × 1 × 1 ..."""
    x = site.shape(0)
    return [(*x[:2], *[1] * (len(x) - 2))]


def conv_transpose(site: Site) -> list[Shape | None]:
    """N × M × the extent that a convolution makes X from."""
    x, w = site.shape(0), site.shape(1)
    rank = len(x) - 2
    channels = w[1] * site.attr("group", 1)
    if site.attr("output_shape"):
        return [(x[0], channels, *site.attr("output_shape")[-rank:])]
    strides = site.attr("strides") or [1] * rank
    dilations = site.attr("dilations") or [1] * rank
    kernel = site.attr("kernel_shape") or w[2:]
    more = site.attr("output_padding") or [0] * rank
    pads = site.attr("pads") or [0] * (2 * rank)
    mode = site.attr("auto_pad", "NOTSET")
    extents: list[int] = []
    for axis in range(rank):
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            extents.append(x[axis + 2] * strides[axis])
            continue
        cut = 0 if mode == "VALID" else pads[axis] + pads[axis + rank]
        reach = dilations[axis] * (kernel[axis] - 1) + 1
        extents.append(strides[axis] * (x[axis + 2] - 1) + more[axis] + reach - cut)
    return [(x[0], channels, *extents)]


def col2im(site: Site) -> list[Shape | None]:
    """N × C × image."""
    x, image, block = site.shape(0), site.whole(1), site.whole(2)
    channels: int = x[1]
    for extent in block:
        channels = channels // extent
    return [(x[0], channels, *image)]


def max_unpool(site: Site) -> list[Shape | None]:
    """What the third input says, else the extent that the pooling took."""
    if site.has(2):
        return [tuple(site.whole(2))]
    x, kernel = site.shape(0), site.attr("kernel_shape")
    rank = len(kernel)
    strides, pads = site.attr("strides") or [1] * rank, site.attr("pads") or [0] * (2 * rank)
    sides = zip(x[2:], strides, kernel, pads[:rank], pads[rank:], strict=True)
    return [(*x[:2], *((n - 1) * s + k - before - after for n, s, k, before, after in sides))]


RULES = {
    **dict.fromkeys(("Conv", "ConvInteger", "DeformConv", "QLinearConv"), conv),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), pool),
    **dict.fromkeys(("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"), global_pool),
    "ConvTranspose": conv_transpose,
    "Col2Im": col2im,
    "MaxUnpool": max_unpool,
}
