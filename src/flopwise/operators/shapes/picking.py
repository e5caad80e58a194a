"""Shapes of operators that pick elements: by bounds, by index or by the data.

Each rule gives the shape of every output. Where the data decide an extent, it is ``Most`` (an upper bound).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flopwise.operators.elements.selection import distinct, kept_boxes
from flopwise.operators.shape import Call, Types
from flopwise.operators.size import (
    OPEN,
    MisfitError,
    Most,
    UnresolvedError,
    axis_of,
    is_certain,
    larger,
    product,
    require,
    same,
    settled,
    smaller,
    written,
)

#: Exporters write places this large for the end of an axis.
_FAR = (1 << 31) - 1


def sliced(extent: int, start: int, end: int, step: int) -> int:
    """Number of places in a slice: start and end count from the end where they are negative, and stop at the edges.

    >>> sliced(10, 2, -1, 3), sliced(10, -1, -11, -1), sliced(Most(10), 2, 100, 1)
    (3, 10, at most 8)
    """
    if extent is OPEN or start is OPEN or end is OPEN:
        return OPEN
    kinds = {type(extent), type(start), type(end)}
    if kinds == {int}:
        return len(range(*slice(start, None if step < 0 and end < -extent else end, step).indices(extent)))
    if Most in kinds:
        return _sliced_by_data(extent, start, end, step)
    if type(start) is int and start >= _FAR:
        start = extent
    if type(end) is int and end >= _FAR:
        end = extent
    # Whether a place counts from the end becomes a condition where it is a size.
    start, end = (place + extent if place < 0 else place for place in (start, end))
    if step > 0:
        start, end = _clamped(start, 0, extent), _clamped(end, 0, extent)
        return larger(-(-(end - start) // step), 0)
    start, end = smaller(larger(start, 0), extent - 1), _clamped(end, -1, extent - 1)
    return larger(-(-(start - end) // -step), 0)


def _sliced_by_data(extent: int, start: int, end: int, step: int) -> int:
    """Upper bound of a slice's length where the data decide the extent or the bounds."""
    most = extent.high if type(extent) is Most else extent
    least = 0
    if type(extent) is Most and type(start) is int and type(end) is int:
        counts = sliced(extent.high, start, end, step), sliced(extent.low, start, end, step)
        most, least = larger(*counts), smaller(*counts) if start >= 0 or end < 0 else 0
    elif step == 1 and type(start) is int and start >= 0 and type(end) is Most and end.low >= 0:
        most = larger(smaller(end.high, most) - start, 0)
    made: int = Most(most, least)
    return made


def _clamped(place: int, low: int, high: int) -> int:
    return larger(smaller(place, high), low)


def slice_(call: Call) -> Types:
    """Parts of some axes; an open start, end or step leaves the extent as the bound.

    https://onnx.ai/onnx/operators/onnx__Slice.html
    """
    extents = list(call.shape(0))
    for axis, start, end, step in _bounds(call, len(extents)):
        if axis is None:
            return [tuple([Most(n) for n in extents])]
        if start is None or end is None or step is None:
            extents[axis] = Most(extents[axis])
        else:
            if step == 0:
                raise UnresolvedError("its step is 0")
            extents[axis] = sliced(extents[axis], start, end, step)
    return [tuple(extents)]


def _bounds(call: Call, rank: int) -> Iterator[tuple[int | None, Any, Any, Any]]:
    """Axis, start, end and step of each part, None for what is not known; an axis of None may be any."""
    starts, ends, axes, steps = (
        _settings(call, name, place) for place, name in enumerate(("starts", "ends", "axes", "steps"), 1)
    )
    if axes is None:
        if call.has(3):
            yield None, None, None, None
            return
        count = next((len(some) for some in (starts, ends) if some is not None), None)
        axes = list(range(rank if count is None else count))
    for i, axis in enumerate(axes):
        if axis is None:
            yield None, None, None, None
            return
        step: int | None = 1
        if steps is not None:
            step = steps[i]
            step = step if step is None else settled(step)
        elif call.has(4):
            step = None
        place = axis_of(settled(axis), rank)
        yield place, None if starts is None else starts[i], None if ends is None else ends[i], step


def _settings(call: Call, name: str, place: int) -> list[int | None] | None:
    """The values of an attribute or input, None for an unknown one; None if it is absent or its length is unknown."""
    try:
        return call.settings_or_open(name, place)
    except UnresolvedError:
        return None


def gather(call: Call) -> Types:
    """Gather: x with ``axis`` replaced by the whole shape of the indices, without the axes of a batch that both have.

    https://onnx.ai/onnx/operators/onnx__Gather.html; ``batch_dims`` is TensorFlow's and OpenVINO's.
    """
    x, indices, batch = call.shape(0), call.shape(1), call.attr("batch_dims", 0)
    axis = axis_of(call.attr("axis", 0), len(x))
    return [(*x[:axis], *indices[batch + len(indices) if batch < 0 else batch :], *x[axis + 1 :])]


def like_second(call: Call) -> Types:
    """The shape of the second input, such as the indices of GatherElements."""
    return [call.shape(1)]


def gather_nd(call: Call) -> Types:
    """GatherND: (*indices without the last axis, *x without the axes that one index fixes).

    https://onnx.ai/onnx/operators/onnx__GatherND.html
    """
    x, indices = call.shape(0), call.shape(1)
    batch = call.attr("batch_dims", 0)
    first = batch + settled(indices[-1])
    if not 0 <= batch <= first <= len(x):
        raise MisfitError(f"indices of {written(indices)} pick from {written(x)} behind {batch} axes")
    return [(*indices[:-1], *x[first:])]


def one_hot(call: Call) -> Types:
    """OneHot: the indices with a new ``axis`` of extent ``depth``, open if that is unknown.

    https://onnx.ai/onnx/operators/onnx__OneHot.html
    """
    indices, axis = list(call.shape(0)), call.attr("axis", -1)
    (depth,) = call.settings_or_open("depth", 1) or (None,)
    place = axis_of(axis, len(indices) + 1)
    indices.insert(place, OPEN if depth is None else depth)
    return [tuple(indices)]


def top_k(call: Call) -> Types:
    """TopK: values and indices, both x with the extent of ``axis`` replaced by k; at most that extent if k is unknown.

    https://onnx.ai/onnx/operators/onnx__TopK.html

    Raises:
        MisfitError: k is larger than the extent.
    """
    x = call.shape(0)
    axis = axis_of(call.attr("axis", -1), len(x))
    (k,) = _settings(call, "k", 1) or (None,)
    if k is None:
        k = Most(x[axis])
    elif not is_certain(k) or not is_certain(x[axis]):
        k = smaller(k, x[axis])
    elif type(k) is int and type(x[axis]) is int:
        if not 0 <= k <= x[axis]:
            raise MisfitError(f"the largest {k} of {x[axis]} are asked for")
    else:
        require(x[axis] - k, ">=")
    return [(*x[:axis], k, *x[axis + 1 :])] * 2


def non_zero(call: Call) -> Types:
    """NonZero: (rank, count), the count of elements other than 0; at most all elements if these are unknown.

    https://onnx.ai/onnx/operators/onnx__NonZero.html
    """
    x, count = call.shape(0), _nonzero_count(call, 0)
    return [(len(x), Most(product(x)) if count is None else count)]


def _nonzero_count(call: Call, place: int) -> int | None:
    """Number of elements of an input that are not 0; None if they are unknown."""
    try:
        data = call.elements(place)
    except UnresolvedError:
        return None
    return sum(map(bool, data)) if all(type(element) in (int, float, bool) for element in data) else None


def suppression(call: Call) -> Types:
    """NonMaxSuppression: (boxes, 3), for each class and image at most ``max_output_boxes_per_class`` boxes.

    https://onnx.ai/onnx/operators/onnx__NonMaxSuppression.html
    """
    boxes, scores = call.ranked(0, 3), call.ranked(1, 3)
    spatial = same(boxes[1], scores[2])
    most = call.settings_or_open("", 2) if call.has(2) else [0]
    limit = (most or [None])[0]
    if limit is not None and (boxes_kept := kept_boxes(call)) is not None:
        return [(len(boxes_kept), 3)]
    kept = spatial if limit is None else smaller(limit, spatial)
    return [(Most(scores[0] * scores[1] * kept), 3)]


def unique(call: Call) -> Types:
    """Unique: values, then 1-D first indices, inverse indices and counts; at most all elements, or slices of ``axis``.

    https://onnx.ai/onnx/operators/onnx__Unique.html
    """
    x, named, found = call.shape(0), call.attr("axis"), distinct(call)
    count = None if found is None else len(found)
    if named is None:
        most = Most(product(x), 1 if type(product(x)) is int and product(x) else 0)
        most = most if count is None else count
        return [(most,), (most,), (product(x),), (most,)]
    axis = axis_of(named, len(x))
    most = Most(x[axis], 1 if type(x[axis]) is int and x[axis] else 0)
    most = most if count is None else count
    return [(*x[:axis], most, *x[axis + 1 :]), (most,), (x[axis],), (most,)]


def compress(call: Call) -> Types:
    """Compress: as many slices of x along ``axis`` (elements without one) as flags are set, at most as there are flags.

    https://onnx.ai/onnx/operators/onnx__Compress.html
    """
    x, flags, named = call.shape(0), call.ranked(1, 1), call.attr("axis")
    count = _nonzero_count(call, 1)
    if named is None:
        return [(Most(smaller(product(x), flags[0])) if count is None else count,)]
    axis = axis_of(named, len(x))
    return [(*x[:axis], Most(smaller(x[axis], flags[0])) if count is None else count, *x[axis + 1 :])]


def features(call: Call) -> Types:
    """ArrayFeatureExtractor: x with its last axis replaced by the columns that Y names; a 1-D x counts as one row."""
    x, picked = call.shape(0), call.shape(1)
    return [(*(x[:-1] or (1,)), picked[-1] if picked else 1)]
