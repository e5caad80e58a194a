"""Shapes of TensorFlow Lite's operators that take their settings in a way of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from flopwise.operators.shape import Call, Types
from flopwise.operators.shapes.picking import sliced
from flopwise.operators.size import (
    OPEN,
    Dims,
    MisfitError,
    Most,
    axis_of,
    is_certain,
    larger,
    product,
    require,
    written,
)
from flopwise.operators.slices import axis_slices


def fully_connected(call: Call) -> Types:
    """The outputs in place of the last axis, which is kept, or rows of as many inputs as the weights take."""
    x, w = call.shape(0), call.shape(1)
    if len(w) != 2:
        raise MisfitError(f"weights of shape {written(w)} are no matrix")
    if call.attr("keep_num_dims"):
        return [(*x[:-1], w[0])]
    return [(product(x) // w[1], w[0])]


def slice_(call: Call) -> Types:
    """Parts of given sizes; -1 reaches to the end."""
    x = call.shape(0)
    starts, sizes = call.settings_or_open("", 1) or (), call.settings_or_open("", 2) or ()
    if not len(x) == len(starts) == len(sizes):
        raise MisfitError(f"{len(starts)} starts and {len(sizes)} sizes for {len(x)} axes")
    extents: list[Any] = []
    for extent, start, size in zip(x, starts, sizes, strict=True):
        if size is None:
            extents.append(Most(extent))
        elif type(size) is int and size < 0:
            extents.append(Most(extent) if start is None else extent - start)
        else:
            extents.append(size)
    return [tuple(extents)]


def strided_slice(call: Call) -> Types:
    """Parts by start, end and step; masks leave bounds out, add axes and drop axes."""
    extents: list[Any] = []
    for kind, extent, start, end, step in axis_slices(call):
        if kind == "new":
            extents.append(1)
        elif kind == "part":
            if start is None or end is None or step is None:
                extents.append(Most(extent))
            else:
                extents.append(sliced(extent, start, end, step))
    return [tuple(extents)]


def pack(call: Call) -> Types:
    """One after the other along a new axis."""
    x = call.shape(0)
    axis = axis_of(call.attr("axis", 0), len(x) + 1)
    return [(*x[:axis], call.inputs, *x[axis:])]


def unpack(call: Call) -> Types:
    """The members along an axis."""
    x = call.shape(0)
    axis = axis_of(call.attr("axis", 0), len(x))
    return [(*x[:axis], *x[axis + 1 :])] * call.outputs


def pad(call: Call) -> Types:
    """With what is added before and behind each axis."""
    x, pads = call.shape(0), call.settings_or_open("", 1) or ()
    if len(pads) != 2 * len(x):
        raise MisfitError(f"{len(pads)} paddings for {len(x)} axes")
    sides = zip(x, pads[::2], pads[1::2], strict=True)
    return [tuple([OPEN if before is None or after is None else n + before + after for n, before, after in sides])]


def space_to_batch(call: Call) -> Types:
    """Blocks of the padded image go to the batch."""
    x, block, pads = call.shape(0), call.wholes(1), call.wholes(2)
    inner = x[1 : 1 + len(block)]
    if len(pads) != 2 * len(block) or len(inner) != len(block) or min(block, default=1) < 1:
        raise MisfitError(f"blocks of {written(block)} for {written(x)}")
    extents = [(n + a + b) // size for n, size, a, b in zip(inner, block, pads[::2], pads[1::2], strict=True)]
    return [(x[0] * product(block), *extents, *x[1 + len(block) :])]


def batch_to_space(call: Call) -> Types:
    """Members of the batch become blocks of the image, which is cropped."""
    x, block, crops = call.shape(0), call.wholes(1), call.wholes(2)
    inner = x[1 : 1 + len(block)]
    if len(crops) != 2 * len(block) or len(inner) != len(block) or min(block, default=1) < 1:
        raise MisfitError(f"blocks of {written(block)} for {written(x)}")
    extents = [n * size - a - b for n, size, a, b in zip(inner, block, crops[::2], crops[1::2], strict=True)]
    return [(x[0] // product(block), *extents, *x[1 + len(block) :])]


def named(place: int) -> Any:
    """The rule of a result whose shape is the elements of an input."""

    def rule(call: Call) -> Types:
        return [_open(call.settings_or_open("", place) or ())]

    return rule


filled, scattered, from_sparse = named(0), named(2), named(1)


def transposed(call: Call) -> Types:
    """The shape that the first input says, of as many images as the third has."""
    (result,), x = filled(call), call.shape(2)
    if result and x and is_certain(result[0]) and is_certain(x[0]):
        require(result[0] - x[0], "==")
        if int(result[0]) != int(x[0]):
            raise MisfitError(f"a result of {result[0]} images from {x[0]}")
    return [result]


def _open(extents: Iterable[int | None]) -> Dims:
    return tuple([OPEN if n is None else n for n in extents])


def scalar(call: Call) -> Types:
    """One number."""
    return [()]


def one_hot(call: Call) -> Types:
    """A new axis of the depth that the second input says."""
    x, axis = call.shape(0), call.attr("axis", -1)
    (depth,) = call.settings_or_open("", 1) or (None,)
    place = axis_of(axis, len(x) + 1)
    return [(*x[:place], OPEN if depth is None else depth, *x[place:])]


def where(call: Call) -> Types:
    """The coordinates of what is true: at most all of them."""
    x = call.shape(0)
    return [(Most(product(x)), len(x))]


def resized(call: Call) -> Types:
    """Height and width as the second input says, between the batch and the channels."""
    x, sizes = call.ranked(0, 4), call.settings_or_open("", 1) or ()
    if len(sizes) != 2:
        raise MisfitError(f"{len(sizes)} sizes for a height and a width")
    return [(x[0], *_open(sizes), x[3])]


def looked_up(call: Call) -> Types:
    """A row of the table for each index."""
    return [(*call.shape(0), *call.shape(1)[1:])]


def segments(call: Call) -> Types:
    """A row for each segment; how many there are, the data decide."""
    x = call.shape(0)
    return [(Most(x[0]), *x[1:])]


def numbered_segments(call: Call) -> Types:
    """A row for each of so many segments as the third input says."""
    x, ids = call.shape(0), call.shape(1)
    return [(*_open(call.settings_or_open("", 2) or ()), *x[len(ids) :])]


def spectrum(call: Call) -> Types:
    """One half of the last axis and one more, of the lengths that the second input says."""
    x, lengths = call.shape(0), call.settings_or_open("", 1) or ()
    if len(lengths) != 2 or len(x) < 2:
        raise MisfitError(f"{len(lengths)} lengths for {len(x)} axes")
    rows, columns = _open(lengths)
    return [(*x[:-2], rows, columns // 2 + 1)]


def matrix_diagonal(call: Call) -> Types:
    """A matrix for each row."""
    x = call.shape(0)
    return [(*x, x[-1])]


def broadcast_shape(call: Call) -> Types:
    """As many extents as the longer of two shapes has."""
    return [(larger(call.shape(0)[0], call.shape(1)[0]),)]


def dilated(call: Call) -> Types:
    """With gaps between the elements."""
    x, steps = call.shape(0), call.wholes(1)
    return [tuple([(n - 1) * step + 1 for n, step in zip(x, steps, strict=True)])]


def sampled(call: Call) -> Types:
    """So many draws for each row."""
    (count,) = call.settings_or_open("", 1) or (None,)
    return [(call.shape(0)[0], OPEN if count is None else count)]


def suppressed(call: Call) -> Types:
    """As many places as the third input says, scores too where they are soft, and how many places hold boxes."""
    (count,) = call.settings_or_open("", 2) or (None,)
    rows: Sequence[int] = (OPEN if count is None else count,)
    return [tuple(rows), *([tuple(rows)] if call.outputs == 3 else []), ()]
