"""Elements of what moves, picks, joins or makes elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flopwise.operators.elements.places import number, picked, strides
from flopwise.operators.shape import Call, Element, Elements
from flopwise.operators.size import OPEN, Dims, Most, UnresolvedError, axis_of, product, settled


def same(call: Call, shapes: Sequence[Dims]) -> Elements:
    """The same elements, perhaps under another shape."""
    return [call.elements(0)]


def shape_of(call: Call, shapes: Sequence[Dims]) -> Elements:
    """The extents."""
    return [tuple([None if n is OPEN else n for n in call.shape(0)[call.attr("start", 0) : call.attr("end")]])]


def size_of(call: Call, shapes: Sequence[Dims]) -> Elements:
    """The number of elements."""
    size = product(call.shape(0))
    return [(None if size is OPEN else size,)]


def length(call: Call, shapes: Sequence[Dims]) -> Elements:
    """Number of members of a sequence."""
    members, held = call.members(0), call.type(0)
    if held is not None and held.parts is not None:
        return [(held.parts.count,)]
    if members is None:
        raise UnresolvedError
    return [(Most(len(members)) if held is not None and held.bound else len(members),)]


def has_element(call: Call, shapes: Sequence[Dims]) -> Elements:
    """The one element: True if an optional holds a value."""
    if not call.has(0):
        return [(False,)]
    held = call.type(0)
    if held is None:
        raise UnresolvedError
    if held.kind in ("tensor", "sequence"):
        return [(True,)]
    if held.members is None:
        raise UnresolvedError
    return [(bool(held.members),)]


def gathered(call: Call, shapes: Sequence[Dims]) -> Elements:
    """The elements that the indices name along an axis; where one is not known, all that it may name are not."""
    if call.attr("batch_dims", 0):
        raise UnresolvedError
    x, data = call.shape(0), call.elements(0)
    axis = axis_of(call.attr("axis", 0), len(x))
    inner, extent = product(x[axis + 1 :]), x[axis]
    indices = [None if i is None else number(i) for i in call.elements(1)]
    elements: list[Element] = []
    for outer in range(product(x[:axis])):
        for index in indices:
            if index is None:
                elements += [None] * inner
            else:
                if not -extent <= index < extent:
                    raise UnresolvedError("an index is outside")
                start = (outer * extent + index % extent) * inner
                elements += data[start : start + inner]
    return [tuple(elements)]


def joined(call: Call, shapes: Sequence[Dims]) -> Elements:
    """One after the other along an axis; those of an input that is not known are not."""
    parts = []
    axis = axis_of(call.attr("axis", 1), len(shapes[0]))
    for place in range(call.inputs):
        shape = call.shape(place)
        if not all(type(n) is int for n in shape):
            raise UnresolvedError
        try:
            data = call.elements(place)
        except UnresolvedError:
            data = (None,) * product(shape)
        parts.append((data, product(shape[axis:])))
    outer = range(product(shapes[0][:axis]))
    return [tuple([element for i in outer for data, step in parts for element in data[i * step : (i + 1) * step]])]


def joined_members(call: Call, shapes: Sequence[Dims]) -> Elements:
    """ConcatFromSequence of vectors, one after the other."""
    members = call.members(0) or ()
    if len(shapes[0]) != 1 or any(one.elements is None or len(one.shape) != 1 for one in members):
        raise UnresolvedError
    return [tuple([element for one in members for element in one.elements])]


def sliced(call: Call, shapes: Sequence[Dims]) -> Elements:
    """The elements between bounds, by steps."""
    x, data = call.shape(0), call.elements(0)
    starts, ends, axes, steps = (
        call.settings(name, place) for place, name in enumerate(("starts", "ends", "axes", "steps"), 1)
    )
    if starts is None or ends is None:
        raise UnresolvedError
    ranges: list[Sequence[int]] = [range(n) for n in x]
    for i, named in enumerate(range(len(starts)) if axes is None else axes):
        axis, step = axis_of(named, len(x)), steps[i] if steps else 1
        start, end = settled(starts[i]), settled(ends[i])
        ranges[axis] = range(*slice(start, None if step < 0 and end < -x[axis] else end, step).indices(x[axis]))
    return [tuple([data[place] for place in picked(x, ranges)])]


def transposed(call: Call, shapes: Sequence[Dims]) -> Elements:
    """In another order."""
    x, data, step = call.shape(0), call.elements(0), strides(call.shape(0))
    places = [0]
    for axis in call.attr("perm") or range(len(x))[::-1]:
        places = [place + index * step[axis] for place in places for index in range(x[axis])]
    return [tuple([data[place] for place in places])]


def expanded(call: Call, shapes: Sequence[Dims]) -> Elements:
    """Broadcast."""
    from flopwise.operators.elements.places import spread

    return [spread(call.elements(0), call.shape(0), shapes[0])]


def tiled(call: Call, shapes: Sequence[Dims]) -> Elements:
    """Repeated along each axis."""
    x, data = call.shape(0), call.elements(0)
    indices = [[index % n for index in range(extent)] for n, extent in zip(x, shapes[0], strict=True)]
    return [tuple([data[place] for place in picked(x, indices)])]


def filled(call: Call, shapes: Sequence[Dims]) -> Elements:
    """One value everywhere."""
    value = call.constant("value")
    element = 0.0
    if value is not None:
        if not value.elements:
            raise UnresolvedError
        element = value.elements[0]
    return [(element,) * product(shapes[0])]


def counted(call: Call, shapes: Sequence[Dims]) -> Elements:
    """start, start + step ..."""
    start, step = call.elements(0)[0], call.elements(2)[0] if call.has(2) else 1
    if start is None or step is None:
        raise UnresolvedError
    return [tuple([start + i * step for i in range(shapes[0][0])])]


def split(call: Call, shapes: Sequence[Dims]) -> Elements:
    """The elements of each part."""
    x, data = call.shape(0), call.elements(0)
    axis = axis_of(call.attr("axis", 0), len(x))
    start, parts = 0, []
    for shape in shapes:
        ranges: list[Sequence[int]] = [range(n) for n in x]
        ranges[axis] = range(start, start + shape[axis])
        start += shape[axis]
        parts.append(tuple([data[place] for place in picked(x, ranges)]))
    return parts


def non_zero(call: Call, shapes: Sequence[Dims]) -> Elements:
    """The indices of what is not 0, axis by axis: as many as there are, not as many as there may be."""
    x, data = call.shape(0), call.elements(0)
    if any(type(element) not in (int, float, bool) for element in data):
        raise UnresolvedError
    places = [place for place, element in enumerate(data) if element]
    return [tuple([place // step % n for n, step in zip(x, strides(x), strict=True) for place in places])]


def _extreme(best: Callable[..., Element]) -> Callable[[Call, Sequence[Dims]], Elements]:
    def rule(call: Call, shapes: Sequence[Dims]) -> Elements:
        x, data = call.shape(0), call.elements(0)
        axis = axis_of(call.attr("axis", 0), len(x))
        if len(data) != x[axis] or not data or any(type(element) not in (int, float, bool) for element in data):
            raise UnresolvedError
        found = [place for place, element in enumerate(data) if element == best(data)]
        return [(found[-1 if call.attr("select_last_index", 0) else 0],)]

    return rule


place_of_largest = _extreme(max)
place_of_smallest = _extreme(min)


def scattered_slices(call: Call, shapes: Sequence[Dims]) -> Elements:
    """ScatterND: slices that indices name are overwritten."""
    x, data, updates = call.shape(0), list(call.elements(0)), call.elements(2)
    width, step = call.shape(1)[-1], strides(x)
    if call.attr("reduction", "none") != "none":
        raise UnresolvedError
    indices, inner = [number(i) for i in call.elements(1)], product(x[width:])
    for row in range(len(indices) // width if width else 0):
        start = _start(indices[row * width : row * width + width], x, step)
        data[start : start + inner] = updates[row * inner : (row + 1) * inner]
    return [tuple(data)]


def gathered_slices(call: Call, shapes: Sequence[Dims]) -> Elements:
    """GatherND: slices that indices name."""
    x, data = call.shape(0), call.elements(0)
    width, step = call.shape(1)[-1], strides(x)
    if call.attr("batch_dims", 0) or not width:
        raise UnresolvedError
    indices, inner = [number(i) for i in call.elements(1)], product(x[width:])
    elements: list[Element] = []
    for row in range(len(indices) // width):
        start = _start(indices[row * width : row * width + width], x, step)
        elements += data[start : start + inner]
    return [tuple(elements)]


def _start(indices: Sequence[int], shape: Dims, step: Sequence[int]) -> int:
    """The place of the first element of a slice.

    Raises:
        UnresolvedError: there is no such slice.
    """
    for index, extent in zip(indices, shape, strict=False):
        if not -extent <= index < extent:
            raise UnresolvedError("an index is outside")
    return sum(index % extent * apart for index, extent, apart in zip(indices, shape, step, strict=False))


def scattered(call: Call, shapes: Sequence[Dims]) -> Elements:
    """ScatterElements of a vector."""
    data, count = list(call.elements(0)), len(call.elements(0))
    if len(call.shape(0)) != 1 or call.attr("reduction", "none") != "none":
        raise UnresolvedError
    for index, update in zip(call.elements(1), call.elements(2), strict=True):
        place = number(index)
        if not -count <= place < count:
            raise UnresolvedError("an index is outside")
        data[place % count] = update
    return [tuple(data)]


def gathered_elements(call: Call, shapes: Sequence[Dims]) -> Elements:
    """GatherElements of a vector."""
    data, count = call.elements(0), len(call.elements(0))
    if len(call.shape(0)) != 1:
        raise UnresolvedError
    places = [number(index) for index in call.elements(1)]
    if any(not -count <= place < count for place in places):
        raise UnresolvedError("an index is outside")
    return [tuple([data[place] for place in places])]


def one_hot(call: Call, shapes: Sequence[Dims]) -> Elements:
    """The second value at the place of each index, the first elsewhere."""
    off, on = call.elements(2)
    if len(call.shape(0)) != 1 or call.attr("axis", -1) not in (-1, 1):
        raise UnresolvedError
    depth = shapes[0][-1]
    indices = [number(i) for i in call.elements(0)]
    places = [i % depth if -depth <= i < depth else None for i in indices]
    return [tuple([on if named == place else off for named in places for place in range(depth)])]


def triangle(call: Call, shapes: Sequence[Dims]) -> Elements:
    """One triangle of matrices, zeros in the other."""
    (rows, columns), data = call.shape(0)[-2:], call.elements(0)
    shift = call.wholes(1)[0] if call.has(1) else 0
    upper, elements = call.attr("upper", 1), []
    for place, element in enumerate(data):
        distance = place % columns - place // columns % rows
        stays = distance >= shift if upper else distance <= shift
        elements.append(element if stays else element * 0 if type(element) in (int, float) else False)
    return [tuple(elements)]


def sorted_first(call: Call, shapes: Sequence[Dims]) -> Elements:
    """The largest or smallest of a vector, and where they were."""
    data, largest = call.elements(0), call.attr("largest", 1)
    if len(call.shape(0)) != 1 or any(type(element) not in (int, float) for element in data):
        raise UnresolvedError
    order = sorted(range(len(data)), key=lambda place: (-data[place] if largest else data[place], place))
    order = order[: shapes[0][0]]
    return [tuple([data[place] for place in order]), tuple(order)]


def padded(call: Call, shapes: Sequence[Dims]) -> Elements:
    """A vector between constants."""
    if len(call.shape(0)) != 1 or call.attr("mode", "constant") != "constant" or call.has(3):
        raise UnresolvedError
    before, after = call.settings("pads", 1) or (0, 0)
    fill = call.elements(2)[0] if call.has(2) else call.attr("value", 0)
    if min(before, after) < 0:
        raise UnresolvedError
    if call.dtype(0).startswith(("int", "uint")):
        fill = number(fill)
    return [((fill,) * before + call.elements(0) + (fill,) * after)]


def kept(call: Call, shapes: Sequence[Dims]) -> Elements:
    """Compress: those whose flag is set."""
    if call.attr("axis") is not None and len(call.shape(0)) != 1:
        raise UnresolvedError
    flags = call.elements(1)
    if None in flags:
        raise UnresolvedError
    return [tuple([element for element, flag in zip(call.elements(0), flags, strict=False) if flag])]
