"""The parts of a tensor that TensorFlow's slices with masks name, for rules of shapes and of elements."""

from __future__ import annotations

from typing import Literal, NamedTuple

from flopwise.operators.shape import Call
from flopwise.operators.size import MisfitError, UnresolvedError, written

#: The masks of a slice: one bit for each start.
_MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


class AxisSlice(NamedTuple):
    """The slice of one axis: a part of it, the one place that is left of an axis that is dropped, or a new axis."""

    kind: Literal["part", "dropped", "new"]
    extent: int
    #: None where it is not known, like the two that follow; of a dropped axis there is no end.
    start: int | None
    end: int | None
    step: int | None


def axis_slices(call: Call) -> list[AxisSlice]:
    """The slices of a STRIDED_SLICE, axis by axis.

    Starts, ends and steps are the second, third and fourth input; of a Slice, as in ONNX, the steps are the fifth.

    https://www.tensorflow.org/api_docs/python/tf/strided_slice
    """
    x = call.shape(0)
    starts, ends = ([*(call.settings_or_open("", place) or ())] for place in (1, 2))
    place = 4 if call.op == "Slice" else 3
    steps = [*(call.settings_or_open("", place) or ())] if call.has(place) else [1] * len(starts)
    if not len(starts) == len(ends) == len(steps):
        raise MisfitError("starts, ends and steps are not equally many")
    flags = [_flags(call.attribute(f"{name}_mask", 0), len(starts)) for name in _MASKS]
    masks = [dict(zip(_MASKS, each, strict=True)) for each in zip(*flags, strict=True)]
    left_out = len(x) - sum(not (mask["new_axis"] or mask["ellipsis"]) for mask in masks)
    slices: list[AxisSlice] = []
    axis, spread = 0, False
    for start, end, step, mask in zip(starts, ends, steps, masks, strict=True):
        if mask["ellipsis"] and not spread:
            spread = True
            slices += [_full_axis(extent) for extent in x[axis : axis + max(left_out, 0)]]
            axis += max(left_out, 0)
        elif mask["new_axis"]:
            slices.append(AxisSlice("new", 1, 0, 1, 1))
        elif axis >= len(x):
            raise MisfitError(f"it names more axes than the {len(x)} of {written(x)}")
        else:
            slices.append(_of_axis(call, x[axis], start, end, step, mask))
            axis += 1
    return [*slices, *map(_full_axis, x[axis:])]


def _of_axis(
    call: Call, extent: int, start: int | None, end: int | None, step: int | None, mask: dict[str, bool]
) -> AxisSlice:
    """The slice of an axis that a start, an end and a step are named for."""
    if step == 0:
        raise UnresolvedError("its step is 0")
    if call.attr("offset") and start is not None and end is not None:
        end = start + end
    if mask["shrink_axis"]:
        return AxisSlice("dropped", extent, start, None, 1)
    down = step is not None and step < 0
    first = (extent - 1 if down else 0) if mask["begin"] else start
    last = (-extent - 1 if down else extent) if mask["end"] else end
    return AxisSlice("part", extent, first, last, step)


def _full_axis(extent: int) -> AxisSlice:
    """The slice of an axis of which nothing is left out."""
    return AxisSlice("part", extent, 0, extent, 1)


def _flags(mask: int, count: int) -> list[bool]:
    """The bits of a mask, the lowest first."""
    return [bool(mask >> place & 1) for place in range(count)]
