"""Elements of TensorFlow Lite's operators that take their settings in a way of their own."""

from __future__ import annotations

from collections.abc import Sequence

from flopwise.operators.elements.places import number, picked, spread
from flopwise.operators.shape import Call, Elements
from flopwise.operators.size import Dims, UnresolvedError, axis_of, broadcast, product, settled
from flopwise.operators.slices import axis_slices


def strided_slice(call: Call, shapes: Sequence[Dims]) -> Elements:
    """The elements of the parts."""
    x, data = call.shape(0), call.elements(0)
    ranges: list[Sequence[int]] = []
    for kind, extent, start, end, step in axis_slices(call):
        if start is None or step is None:
            raise UnresolvedError
        if kind == "dropped":
            place = axis_of(settled(start), extent)
            ranges.append([place])
        elif kind == "part":
            last = None if end is None or (step < 0 and end < -extent) else end
            ranges.append(range(*slice(settled(start), last, step).indices(extent)))
    return [tuple([data[place] for place in picked(x, ranges)])]


def slice_(call: Call, shapes: Sequence[Dims]) -> Elements:
    """The elements of the part."""
    x, data, starts = call.shape(0), call.elements(0), call.wholes(1)
    ranges = [range(start, start + size) for start, size in zip(starts, shapes[0], strict=True)]
    if any(part.stop > extent or part.start < 0 for part, extent in zip(ranges, x, strict=True)):
        raise UnresolvedError
    return [tuple([data[place] for place in picked(x, ranges)])]


def packed(call: Call, shapes: Sequence[Dims]) -> Elements:
    """One after the other along the new axis; those of an input that is not known are not."""
    x = call.shape(0)
    inner = product(x[axis_of(call.attr("axis", 0), len(x) + 1) :])
    members = []
    for place in range(call.inputs):
        try:
            members.append(call.elements(place))
        except UnresolvedError:
            members.append((None,) * product(x))
    outer = range(product(x) // inner) if inner else ()
    return [tuple([e for i in outer for member in members for e in member[i * inner : (i + 1) * inner]])]


def unpacked(call: Call, shapes: Sequence[Dims]) -> Elements:
    """The elements of each member."""
    x, data = call.shape(0), call.elements(0)
    axis = axis_of(call.attr("axis", 0), len(x))
    all_of = [range(n) for n in x]
    return [
        tuple([data[place] for place in picked(x, [*all_of[:axis], [member], *all_of[axis + 1 :]])])
        for member in range(len(shapes))
    ]


def filled(call: Call, shapes: Sequence[Dims]) -> Elements:
    """One value everywhere."""
    return [call.elements(1) * product(shapes[0])]


def rank(call: Call, shapes: Sequence[Dims]) -> Elements:
    """The number of axes."""
    return [(len(call.shape(0)),)]


def whole_quotients(call: Call, shapes: Sequence[Dims]) -> Elements:
    """Quotients rounded down."""
    one, other = (spread(call.elements(place), call.shape(place), shapes[0]) for place in (0, 1))
    return [tuple([None if None in (a, b) else a // b for a, b in zip(one, other, strict=True)])]


def reversed_(call: Call, shapes: Sequence[Dims]) -> Elements:
    """In the other order along the axes that the second input says."""
    x, data = call.shape(0), call.elements(0)
    axes = {axis_of(number(axis), len(x)) for axis in call.elements(1)}
    ranges = [range(n)[::-1] if axis in axes else range(n) for axis, n in enumerate(x)]
    return [tuple([data[place] for place in picked(x, ranges)])]


def common_shape(call: Call, shapes: Sequence[Dims]) -> Elements:
    """The extents that two shapes are broadcast to."""
    return [broadcast(tuple(call.wholes(0)), tuple(call.wholes(1)))]
