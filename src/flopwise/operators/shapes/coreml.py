"""Shapes of MIL's operations that take their settings in a way of their own."""

from __future__ import annotations

from typing import Any

from flopwise.operators.shape import Call, Types
from flopwise.operators.shapes.reshaping import reshaped as reshape
from flopwise.operators.shapes.windows import scaled
from flopwise.operators.size import OPEN, MisfitError, axis_of, product, written


def reshaped(call: Call) -> Types:
    """The shape in the second input: 0 stands for the extent of X there, counted from the last, -1 for what is left."""
    x, target = call.shape(0), call.settings_or_open("", 1) or ()
    ahead = len(target) - len(x)
    sizes = [(x[i - ahead] if i >= ahead else 1) if type(n) is int and n == 0 else n for i, n in enumerate(target)]
    return [reshape(x, sizes, zeros=True)]


def padded(call: Call) -> Types:
    """The last axes with what is added before and behind each of them."""
    x, pads = call.shape(0), call.settings_or_open("", 1) or ()
    number = len(pads) // 2
    if len(pads) % 2 or number > len(x):
        raise MisfitError(f"{len(pads)} paddings for {len(x)} axes")
    sides = zip(x[len(x) - number :], pads[::2], pads[1::2], strict=True)
    last = [OPEN if before is None or after is None else n + before + after for n, before, after in sides]
    return [(*x[: len(x) - number], *last)]


def resized(call: Call) -> Types:
    """The last axes of given sizes (0: as they are), or times given scales, rounded down."""
    x = list(call.shape(0))
    if scales := call.attr("scales"):
        for axis, factor in enumerate(scales, len(x) - len(scales)):
            x[axis] = scaled(x[axis], factor)
        return [tuple(x)]
    sizes = call.attr("sizes") or call.settings_or_open("", 1) or ()
    last = sizes[len(sizes) - call.attr("resized", len(sizes)) :]
    if len(last) > len(x):
        raise MisfitError(f"{len(last)} sizes for {len(x)} axes")
    for axis, size in enumerate(last, len(x) - len(last)):
        x[axis] = OPEN if size is None else size if size != 0 else x[axis]
    return [tuple(x)]


def recurrent(call: Call) -> Types:
    """T × B × directions H, or of the last step alone, and for each state B × directions H."""
    x, r = call.shape(0), call.shape(2)
    width = r[-1] * (2 if call.attr("direction") == "bidirectional" else 1)
    state: Any = (x[1], width)
    return [(x[0] if call.attr("sequence") else 1, *state), state, state]


def suppressed(call: Call) -> Types:
    """Boxes, their scores and places, as many as are asked for, and how many hold boxes; since iOS 17 the boxes lie
    along the last axis, and their number is left out.
    """
    scores, most = call.ranked(1, 3), call.attr("most")
    if call.attr("last"):
        return [(scores[0], 4, most), (scores[0], scores[1], most), (scores[0], most)]
    return [(scores[0], most, 4), (scores[0], most, scores[2]), (scores[0], most), (scores[0],)]


def cropped_and_resized(call: Call) -> Types:
    """The channels of each box at a size; where the boxes say their images, for each image too."""
    x, boxes = call.shape(0), call.shape(1)
    size = call.attr("sizes")
    return [(boxes[0], x[1], *size)] if len(boxes) == 2 else [(boxes[0], x[0], x[1], *size)]


def transformed(call: Call) -> Types:
    """The channels at a size."""
    return [(*call.shape(0)[:2], *call.attr("sizes"))]


def cropped(call: Call) -> Types:
    """Without rows and columns at the borders."""
    x, (top, bottom), (left, right) = call.shape(0), call.attr("rows"), call.attr("columns")
    return [(*x[:-2], x[-2] - top - bottom, x[-1] - left - right)]


def slid(call: Call) -> Types:
    """The windows along an axis, and behind it a new axis of their length."""
    x = call.shape(0)
    axis, size = axis_of(call.attr("axis"), len(x)), call.attr("size")
    return [(*x[:axis], (x[axis] - size) // call.attr("stride") + 1, size, *x[axis + 1 :])]


def space_to_batch(call: Call) -> Types:
    """Blocks of the padded image go to the batch."""
    x, block, pads = call.shape(0), call.attr("block"), call.attr("pads")
    extents = [(n + a + b) // size for n, size, a, b in zip(x[2:], block, pads[::2], pads[1::2], strict=True)]
    return [(x[0] * product(block), x[1], *extents)]


def batch_to_space(call: Call) -> Types:
    """Members of the batch become blocks of the image, which is cropped."""
    x, block, crops = call.shape(0), call.attr("block"), call.attr("pads")
    extents = [n * size - a - b for n, size, a, b in zip(x[2:], block, crops[::2], crops[1::2], strict=True)]
    return [(x[0] // product(block), x[1], *extents)]


def unpacked(call: Call) -> Types:
    """The shape that an attribute says."""
    dims = call.attr("shape")
    if dims is None:
        raise MisfitError(f"{written(call.shape(0))} has no other shape")
    return [tuple(dims)]
