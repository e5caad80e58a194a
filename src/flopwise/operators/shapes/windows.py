"""Shapes of convolutions and poolings: how many windows fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from flopwise.operators.shape import Call, Types
from flopwise.operators.size import (
    OPEN,
    Dims,
    MisfitError,
    Most,
    UnresolvedError,
    axis_of,
    differ,
    is_certain,
    require,
    settled,
    smaller,
    written,
)


class Windows(Protocol):
    """The attributes that say how windows lie: strides, dilations, pads, auto_pad and ceil_mode by name."""

    def attr(self, name: str, default: object = None) -> Any:
        """The attribute, or the default."""


def windows(call: Windows, extents: Sequence[int], kernel: Sequence[int], towards_zero: bool = False) -> Dims:
    """Number of windows that fit along each axis; that one fits at all becomes a condition.

    https://onnx.ai/onnx/operators/onnx__MaxPool.html

    Args:
        call: the attributes.
        extents: of the image.
        kernel: extents of a window.
        towards_zero: whether a window that reaches beyond the padding is an error only where less than none fits, as
            onnxruntime's pools divide.

    Raises:
        MisfitError: none fits.
    """
    rank = len(extents)
    strides = call.attr("strides") or [1] * rank
    dilations = call.attr("dilations") or [1] * rank
    pads = call.attr("pads") or [0] * (2 * rank)
    mode = call.attr("auto_pad", "NOTSET")
    if mode == "VALID":
        pads = [0] * (2 * rank)
    if not rank == len(kernel) == len(strides) == len(dilations) == len(pads) / 2:
        raise MisfitError(f"windows of {written(kernel)} are laid over {rank} axes")
    if min(strides, default=1) < 1 or min(dilations, default=1) < 1:
        raise UnresolvedError("its strides and dilations are not positive")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        return tuple([-(-extent // stride) for extent, stride in zip(extents, strides, strict=True)])
    up = call.attr("ceil_mode", 0) == 1
    reaches = [dilation * (size - 1) + 1 for dilation, size in zip(dilations, kernel, strict=True)]
    sides = zip(extents, reaches, strides, pads[:rank], pads[rank:], strict=True)
    return tuple([_count(*side, up, towards_zero) for side in sides])


def _count(extent: int, reach: int, stride: int, before: int, after: int, up: bool, towards_zero: bool) -> int:
    """Number of windows that fit along an axis, see `windows` and `windows_rounded_up` for its arguments."""
    room = extent + before + after - reach
    if is_certain(room) and int(room) < 0:
        room = settled(room)
        rounded = windows_rounded_up(extent, reach, stride, before, after) if up else 1 - -room // stride
        if not towards_zero or rounded < 0:
            padding = f" with a padding of {before} and {after}" if before or after else ""
            raise MisfitError(f"a window over {reach} elements is larger than the image, {extent}{padding}")
        return rounded
    if type(room) is not int:
        require(room, ">=")
    if up:
        return windows_rounded_up(extent, reach, stride, before, after)
    if type(room) is Most and room.low < 0:
        room = Most(room.high, 0)
        return Most(room // stride + 1)  # type: ignore[no-any-return] # it is an integer of some kind
    return room // stride + 1


def windows_rounded_up(extent: int, reach: int, stride: int, before: int, after: int) -> int:
    """Number of windows that a pool which rounds up lays along an axis: all that start in the image or the padding.

    A window behind these is dropped, so the padding after the image counts only as far as windows that start in it.

    Args:
        extent: of the image.
        reach: from the first element of a window to its last, those that it skips included.
        stride: from window to window.
        before: padding before the image.
        after: padding after it.

    >>> windows_rounded_up(7, 3, 2, 0, 0), windows_rounded_up(6, 3, 2, 0, 0), windows_rounded_up(6, 2, 3, 0, 0)
    (3, 3, 2)
    """
    return -(-(extent + before + smaller(after + stride - reach, 0)) // stride)


def _refuse_channels(call: Call, x: Dims, of_group: Dims, split: Dims) -> None:
    """Refuse channels that do not fit the weights.

    Args:
        call: the application.
        x: shape of the image.
        of_group: the channels that a group takes; those that are split where it is empty.
        split: the channels that are split into groups.

    Raises:
        MisfitError: they do not fit.
    """
    group = call.attribute("group", 1)
    if group < 1:
        raise MisfitError(f"group is {group}")
    for taken in [n * group for n in of_group] or split:
        if len(x) > 2 and differ(x[1], taken):
            raise MisfitError(f"it takes {taken} channels, but {written(x)} has {x[1]}")
    for channels in split:
        if type(channels) is int and channels % group:
            raise MisfitError(f"{channels} channels cannot be divided into {group} groups")


def conv(call: Call) -> Types:
    """N × M × windows, W being M × C/group × kernel."""
    x, w = call.shape(0), call.shape(3 if call.op == "QLinearConv" else 1)
    _refuse_channels(call, x, w[1:2], w[:1])
    return [(x[0], w[0], *windows(call, x[2:], call.attr("kernel_shape") or w[2:]))]


def pool(call: Call) -> Types:
    """N × C × windows, twice where the places are asked for too."""
    x = call.shape(0)
    explicit = call.attr("auto_pad", "NOTSET") == "NOTSET"  # the padding that ONNX's files state
    return [(*x[:2], *windows(call, x[2:], call.attr("kernel_shape") or (), explicit))] * 2


def global_pool(call: Call) -> Types:
    """N × C × 1 × 1 ..."""
    x = call.shape(0)
    return [(*x[:2], *[1] * (len(x) - 2))]


def conv_transpose(call: Call) -> Types:
    """N × M × the extent that a convolution makes X from.

    https://onnx.ai/onnx/operators/onnx__ConvTranspose.html
    """
    x, w = call.shape(0), call.shape(1)
    rank = len(x) - 2
    _refuse_channels(call, x, (), w[:1])
    channels = w[1] * call.attr("group", 1)
    if call.attr("output_shape"):
        return [(x[0], channels, *call.attr("output_shape")[-rank:])]
    strides = call.attr("strides") or [1] * rank
    dilations = call.attr("dilations") or [1] * rank
    kernel = call.attr("kernel_shape") or w[2:]
    more = call.attr("output_padding") or [0] * rank
    pads = call.attr("pads") or [0] * (2 * rank)
    mode = call.attr("auto_pad", "NOTSET")
    if not rank == len(kernel) == len(strides) == len(dilations) == len(more) == len(pads) / 2:
        raise MisfitError(f"windows of {written(kernel)} are laid over {rank} axes")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        return [(x[0], channels, *[n * stride for n, stride in zip(x[2:], strides, strict=True)])]
    extents = []
    for axis, extent in enumerate(x[2:]):
        cut = 0 if mode == "VALID" else pads[axis] + pads[axis + rank]
        reach = dilations[axis] * (kernel[axis] - 1) + 1
        extents.append(strides[axis] * (extent - 1) + more[axis] + reach - cut)
    return [(x[0], channels, *extents)]


def col2im(call: Call) -> Types:
    """N × C × image; X has the elements of a block for each channel."""
    x, image, block = call.shape(0), call.wholes(1), call.wholes(2)
    channels: int = x[1]
    for extent in block:
        channels = channels // extent
    return [(x[0], channels, *image)]


def max_unpool(call: Call) -> Types:
    """The shape in the third input, else the extents that the pooling took."""
    if call.has(2):
        return [tuple(call.wholes(2))]
    x, kernel = call.shape(0), call.attr("kernel_shape")
    rank = len(kernel)
    strides, pads = call.attr("strides") or [1] * rank, call.attr("pads") or [0] * (2 * rank)
    sides = zip(x[2:], strides, kernel, pads[:rank], pads[rank:], strict=True)
    return [(*x[:2], *[(n - 1) * stride + k - before - after for n, stride, k, before, after in sides])]


def regions(call: Call) -> Types:
    """A box of features for each region (RoiAlign, MaxRoiPool)."""
    box = call.attr("pooled_shape") or (call.attr("output_height", 1), call.attr("output_width", 1))
    return [(call.shape(1)[0], call.shape(0)[1], *box)]


def grid_sampled(call: Call) -> Types:
    """A value of each channel for each place of the grid."""
    return [(*call.shape(0)[:2], *call.shape(1)[1:-1])]


def affine_grid(call: Call) -> Types:
    """The coordinates of each place of an image of this size."""
    size = call.wholes(1)
    return [(size[0], *size[2:], len(size) - 2)]


def resized(call: Call) -> Types:
    """The extents that sizes names, or those of X times scales, rounded down.

    https://onnx.ai/onnx/operators/onnx__Resize.html
    """
    x = call.shape(0)
    axes = [axis_of(axis, len(x)) for axis in call.attr("axes") or range(len(x))]
    extents = list(x)
    if call.has(3):
        for axis, size in zip(axes, _sizes(call, [x[axis] for axis in axes]), strict=True):
            extents[axis] = size
        return [tuple(extents)]
    scales = call.attr("scales") or _scales(call)
    for axis, scale in zip(axes, scales, strict=True):
        extents[axis] = scaled(x[axis], scale)
    return [tuple(extents)]


def _scales(call: Call) -> Sequence[float]:
    if call.attr("height_scale"):  # the first version of Upsample
        return (1.0, 1.0, call.attr("height_scale"), call.attr("width_scale"))
    return call.elements(1 if call.op == "Upsample" or call.inputs == 2 else 2)


def _sizes(call: Call, extents: Sequence[int]) -> Sequence[int]:
    sizes, policy = call.wholes(3), call.attr("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return sizes
    if not all(type(n) is int for n in (*sizes, *extents)):
        raise UnresolvedError
    choice = min if policy == "not_larger" else max
    factor = choice([size / extent for size, extent in zip(sizes, extents, strict=True)])
    return [math.floor(factor * extent + 0.5) for extent in extents]


def scaled(extent: int, scale: float) -> int:
    """An extent times a scale, rounded down."""
    if scale is None or extent is OPEN:
        raise UnresolvedError
    if type(extent) is int:
        return math.floor(extent * scale)
    if type(extent) is Most:
        bound: int = Most(scaled(extent.high, scale), scaled(extent.low, scale))
        return bound
    return extent.scaled(scale)  # type: ignore[attr-defined,no-any-return] # a size with an expression
