"""Shapes of operators that give the same elements another shape, join or part tensors, or repeat and pad them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flopwise.operators.shape import Call, Types
from flopwise.operators.size import (
    OPEN,
    Dims,
    MisfitError,
    Most,
    UnresolvedError,
    axis_of,
    broadcast,
    differ,
    is_certain,
    larger,
    product,
    require,
    same,
    smaller,
    written,
)


def reshape(call: Call) -> Types:
    """The shape that input 1 names: 0 stands for the extent of X there, -1 for what is left.

    https://onnx.ai/onnx/operators/onnx__Reshape.html
    """
    target = call.settings_or_open("shape", 1)
    if target is None:
        raise UnresolvedError
    try:
        x = call.shape(0)
    except UnresolvedError:
        return [tuple([OPEN if n is None or n < 1 else n for n in target])]
    return [reshaped(x, target, bool(call.attr("allowzero", 0)))]


def reshaped(x: Dims, target: Sequence[int | None], zeros: bool = False) -> Dims:
    """A shape of as many elements as X has.

    Args:
        x: the shape of X.
        target: the sizes asked for; None for one that is not known, which follows where it is the only one.
        zeros: whether 0 is a size.

    Raises:
        MisfitError: no such shape has as many elements.

    >>> reshaped((2, 3, 4), (0, -1)), reshaped((6, 4), (None, 8))
    ((2, 12), (3, 8))
    """
    total = product(x)
    shape = _target_sizes(x, target, zeros, total)
    loose = [i for i, n in enumerate(shape) if not is_certain(n)]
    left = [i for i, n in enumerate(shape) if is_certain(n) and int(n) == -1]
    if len(left) > 1:
        raise MisfitError(f"{written(x)} as {_asked(target)}: more than one extent is left to follow")
    for place in left:
        shape[place] = OPEN
    vague = left and loose and (type(total) is not Most or any(shape[place] is OPEN for place in loose))
    if len(left or loose) == 1 and not vague:
        (place,) = left or loose
        rest = _rest(x, target, total, product(shape[:place] + shape[place + 1 :]))
        shape[place] = rest if shape[place] is OPEN or is_certain(rest) else smaller(shape[place], rest)
    elif not loose and is_certain(total):
        _require_count(x, total, product(shape), shape)
    return tuple(shape)


def _target_sizes(x: Dims, target: Sequence[int | None], zeros: bool, total: int) -> list[Any]:
    """The extents that a target asks for, -1 for one that is left to follow."""
    copies: list[int | None] = [*(() if zeros else x), *[None] * len(target)]
    pairs: list[tuple[Any, int | None]] = [
        (OPEN if size is None else size, extent) for size, extent in zip(target, copies, strict=False)
    ]
    sizes = [_meant(size, extent, total) for size, extent in pairs]
    for size, extent in pairs:
        if type(size) is not int and is_certain(size) and int(size) != -1:
            size.require_size(extent)  # 0 would stand for the extent of X there
    return sizes


def _meant(size: int, extent: int | None, total: int) -> int:
    """The extent that a size asks for.

    Args:
        size: the size; 0 stands for the extent of X there, -1, which stays if it is certain, for what is left.
        extent: the extent of X there; None where 0 is a size.
        total: all elements.
    """
    if type(size) is int and size == 0:
        return size if extent is None else extent
    if type(size) is not Most or size.low > 0:
        return size
    high = size.high if extent is None else larger(size.high, extent)
    made: int = Most(high if size.low == 0 else larger(high, total))
    return made


def _rest(x: Dims, target: Sequence[int | None], total: int, others: int) -> int:
    """The extent that follows from the rest."""
    if others is OPEN or total is OPEN:
        return OPEN
    if type(others) is int and others == 0:
        if type(total) is int and total:
            raise MisfitError(f"{written(x)} has elements, {_asked(target)} has none")
        raise UnresolvedError
    if type(others) is Most and others.low <= 0:
        return OPEN if type(total) is not Most else Most(total.high)  # type: ignore[no-any-return] # as above
    rest = total // others
    if is_certain(total) and is_certain(others):
        _require_count(x, total, rest * others, target)
    return rest


def _require_count(x: Dims, total: int, count: int, target: Sequence[int | None]) -> None:
    """Raise MisfitError if a target has another number of elements than X."""
    if differ(total, count):
        raise MisfitError(f"{written(x)} has another number of elements than {_asked(target)}")
    require(total - count, "==")


def _asked(target: Sequence[object]) -> str:
    return written([OPEN if n is None else n for n in target])


def flatten(call: Call) -> Types:
    """Two axes."""
    x, axis = call.shape(0), call.attr("axis", 1)
    if not -len(x) <= axis <= len(x):
        raise MisfitError(f"there is no axis {axis} in {len(x)} dimensions")
    axis = axis + len(x) if axis < 0 else axis
    return [(product(x[:axis]), product(x[axis:]))]


def transpose(call: Call) -> Types:
    """The axes in another order."""
    x = call.shape(0)
    order = call.attr("perm") or range(len(x))[::-1]
    if sorted(order) != list(range(len(x))):
        raise MisfitError(f"{list(order)} is no order of {len(x)} axes")
    return [tuple([x[axis] for axis in order])]


def squeeze(call: Call) -> Types:
    """Without the axes of extent 1 that are named, or that there are."""
    x, named = call.shape(0), call.settings("axes", 1)
    if named is None:
        if not all(map(is_certain, x)):
            raise UnresolvedError
        axes = {axis for axis, n in enumerate(x) if n == 1}
    else:
        axes = {axis_of(axis, len(x)) for axis in named}
    for axis in axes:
        if type(x[axis]) is int and x[axis] != 1:
            raise MisfitError(f"axis {axis} of {written(x)} is not 1")
        require(x[axis] - 1, "==")
    return [tuple([n for axis, n in enumerate(x) if axis not in axes])]


def unsqueeze(call: Call) -> Types:
    """With new axes of extent 1."""
    x, named = call.shape(0), call.settings("axes", 1)
    if named is None:
        raise UnresolvedError
    rank = len(x) + len(named)
    axes, extents = {axis_of(axis, rank) for axis in named}, iter(x)
    if len(axes) < len(named):
        raise MisfitError(f"an axis is named twice: {list(named)}")
    return [tuple([1 if axis in axes else next(extents) for axis in range(rank)])]


def concat(call: Call) -> Types:
    """One after the other along an axis; the other extents must be the same."""
    shapes = [call.shape(place) for place in range(call.inputs)]
    axis = axis_of(call.attr("axis", 1), len(shapes[0]))
    extents = list(shapes[0])
    for shape in shapes[1:]:
        if len(shape) != len(extents):
            raise MisfitError(f"{written(shapes[0])} and {written(shape)} differ in rank")
        for i, extent in enumerate(shape):
            try:
                extents[i] = extents[i] + extent if i == axis else same(extents[i], extent)
            except MisfitError:
                raise MisfitError(f"{written(shapes[0])} and {written(shape)} are joined along axis {axis}") from None
    return [tuple(extents)]


def split(call: Call) -> Types:
    """Parts along an axis, of the sizes that are named or of the same size, the last one smaller.

    https://onnx.ai/onnx/operators/onnx__Split.html
    """
    x, count = call.shape(0), call.outputs
    axis = axis_of(call.attr("axis", 0), len(x))
    extent = x[axis]
    sizes: list[Any] | None
    try:
        sizes = call.settings_or_open("split", 1)
    except UnresolvedError:
        sizes = [None] * count
    if sizes is not None and None not in sizes:  # -1 takes what is left (TensorFlow Lite, OpenVINO)
        rest: Any = extent - sum([size or 0 for size in sizes if size != -1])
        sizes = [rest if type(size) is int and size == -1 else size for size in sizes]
    if sizes is None:
        sizes = _equal_parts(call, extent, count)
    elif len(sizes) != count:
        raise MisfitError(f"{len(sizes)} parts for {count} outputs")
    elif None in sizes:
        sizes = [Most(extent) if size is None else size for size in sizes]
    elif is_certain(extent):
        try:
            same(extent, sum(size for size in sizes if size is not None))
        except MisfitError:
            raise MisfitError(f"axis {axis} of {written(x)} is split into {written(sizes)}") from None
    return [(*x[:axis], size, *x[axis + 1 :]) for size in sizes]


def _equal_parts(call: Call, extent: int, count: int) -> list[int]:
    if call.version < 18:
        part = extent // count
        if is_certain(extent):
            same(extent, part * count)
        return [part] * count
    parts = call.attr("num_outputs", count)
    if parts != count:
        raise MisfitError(f"{parts} parts for {count} outputs")
    part = -(-extent // count)
    last = extent - part * (count - 1)
    if type(last) is Most:
        last = Most(part)
    require(last, ">=")
    return [*[part] * (count - 1), last]


def expand(call: Call) -> Types:
    """X broadcast to the shape that input 1 names."""
    x, target = call.shape(0), call.settings_or_open("shape", 1)
    return [broadcast(x, tuple([OPEN if n is None else n for n in target or ()]))]


def tile(call: Call) -> Types:
    """Each extent so many times; the first version takes how often and along which axis."""
    x = call.shape(0)
    if call.inputs == 3:
        (times,), (place,) = call.wholes(1), call.wholes(2)
        axis = axis_of(place, len(x))
        return [(*x[:axis], x[axis] * times, *x[axis + 1 :])]
    repeats = call.settings_or_open("repeats", 1) or ()
    if len(repeats) != len(x):
        raise MisfitError(f"{written(x)} is repeated {len(repeats)} times over {len(x)} axes")
    return [tuple([OPEN if times is None else n * times for n, times in zip(x, repeats, strict=True)])]


def pad(call: Call) -> Types:
    """Each extent with what is before and after it; negative numbers cut."""
    x, pads = call.shape(0), call.attr("paddings") or call.settings_or_open("pads", 1)
    axes = call.wholes(3) if call.has(3) else range(len(x))
    if pads is None or len(pads) != 2 * len(axes):
        raise MisfitError(f"{0 if pads is None else len(pads)} paddings for {len(axes)} axes")
    extents = list(x)
    for i, axis in enumerate(axes):
        before, after, place = pads[i], pads[i + len(axes)], axis_of(axis, len(x))
        if before is None or after is None:
            extents[place] = OPEN
        else:
            extents[place] = extents[place] + (before + after)
            require(extents[place], ">=")
    return [tuple(extents)]


def crop_pad(call: Call) -> Types:
    """The named axes have the extents that input 1 names."""
    x = list(call.shape(0))
    axes, sizes = call.attr("axes") or range(len(x)), call.settings_or_open("shape", 1) or ()
    for axis, size in zip(axes, sizes, strict=True):
        x[axis_of(axis, len(x))] = OPEN if size is None else size
    return [tuple(x)]


def depth_to_space(call: Call) -> Types:
    """Blocks of channels become blocks of places."""
    (n, c, h, w), block = call.ranked(0, 4), call.positive("blocksize")
    return [(n, c // block**2, h * block, w * block)]


def space_to_depth(call: Call) -> Types:
    """Blocks of places become blocks of channels."""
    (n, c, h, w), block = call.ranked(0, 4), call.positive("blocksize")
    for extent in (h, w):
        require(extent - extent // block * block, "==")
    return [(n, c * block**2, h // block, w // block)]
