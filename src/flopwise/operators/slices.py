"""The parts of a tensor that TensorFlow's slices with masks name, for rules of shapes and of elements."""

from __future__ import annotations

from typing import Any

from flopwise.operators.shape import Call
from flopwise.operators.size import MisfitError, UnresolvedError, written


def parts(call: Call) -> list[tuple[str, Any, Any, Any, Any]]:
    """The axes of a STRIDED_SLICE: "part", "dropped" or "new" for each, with extent, start, end and step.

    https://www.tensorflow.org/api_docs/python/tf/strided_slice
    """
    x = call.shape(0)
    starts, ends, steps = ([*(call.settings_or_open("", place) or ())] for place in (1, 2, 3))
    if not len(starts) == len(ends) == len(steps):
        raise MisfitError("starts, ends and steps are not equally many")
    names = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    masks = {name: _flags(call.attribute(f"{name}_mask", 0), len(starts)) for name in names}
    used = sum(not new and not rest for new, rest in zip(masks["new_axis"], masks["ellipsis"], strict=True))
    result: list[tuple[str, Any, Any, Any, Any]] = []
    axis, spread = 0, False
    for i, (start, end, step) in enumerate(zip(starts, ends, steps, strict=True)):
        if masks["ellipsis"][i] and not spread:
            spread = True
            for _ in range(len(x) - used):
                result.append(("part", x[axis], 0, x[axis], 1))
                axis += 1
            continue
        if masks["new_axis"][i]:
            result.append(("new", 1, 0, 1, 1))
            continue
        if axis >= len(x):
            raise MisfitError(f"it names more axes than the {len(x)} of {written(x)}")
        extent = x[axis]
        if step == 0:
            raise UnresolvedError("its step is 0")
        down = step is not None and step < 0
        if call.attr("offset") and start is not None and end is not None:
            end = start + end
        if masks["shrink_axis"][i]:
            result.append(("dropped", extent, start, None, 1))
        else:
            first = (extent - 1 if down else 0) if masks["begin"][i] else start
            last = (-extent - 1 if down else extent) if masks["end"][i] else end
            result.append(("part", extent, first, last, step))
        axis += 1
    result += [("part", extent, 0, extent, 1) for extent in x[axis:]]
    return result


def _flags(mask: int, count: int) -> list[bool]:
    """The bits of a mask, the lowest first."""
    return [bool(mask >> place & 1) for place in range(count)]
