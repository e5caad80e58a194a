"""Shapes of operators that move, pick or repeat elements."""

from __future__ import annotations

import math

from flopwise.analyses.formula.dim import Dim, Ratio, larger, require, smaller, term
from flopwise.analyses.formula.guards import decided
from flopwise.analyses.formula.propagation.broadcasting import broadcast, same
from flopwise.analyses.formula.propagation.site import Shape, Site, UnknownError, axis_of, settled
from flopwise.analyses.formula.terms.polynomial import Term, floor
from flopwise.operators.extents import product


def reshape(site: Site) -> list[Shape | None]:
    """The shape that input 1 names: 0 stands for the extent of X there, -1 for what is left.

    https://onnx.ai/onnx/operators/onnx__Reshape.html
    """
    x = site.shape(0)
    target = site.settings("shape", 1)
    if target is None:
        raise UnknownError
    return [reshaped(x, target, bool(site.attr("allowzero", 0)))]


def reshaped(x: Shape, target: list[int], zeros: bool = False) -> Shape:
    """A shape of as many elements as X has."""
    made = [x[i] if type(n) is int and n == 0 and not zeros and i < len(x) else n for i, n in enumerate(target)]
    for i, n in enumerate(target):
        if type(n) is Dim and int(n) != -1:
            require(term(n) if zeros or i >= len(x) else _named(x[i], n), ">=")
    free = [i for i, n in enumerate(made) if int(n) == -1]
    elements = product(x)
    if not free:
        same(elements, product(made))
        return tuple(made)
    if type(made[free[0]]) is Dim:
        require(term(made[free[0]]) + 1, "==")
    others = product(n for i, n in enumerate(made) if i != free[0])
    left = elements // others
    if not (type(elements) is int and type(others) is int):
        require(term(elements) - term(left * others), "==")
    made[free[0]] = left
    return tuple(made)


def _named(extent: int, size: int) -> Term:
    """What must not be negative for a size in a target to be one: 0 would stand for that extent, -1 for the rest."""
    if _times(extent, size) is not None:  # the extent is 0 where the size is
        return 0
    more = _times(size, extent)
    return (term(size) if more is None else more) - 1


def _times(product: int, factor: int) -> Term | None:
    """By what a size is multiplied to be another one; None where that is no whole number."""
    other = floor(term(product), term(factor)) if type(factor) is Dim else 0
    return other if type(factor) is Dim and term(product) - other * term(factor) == 0 else None


def flatten(site: Site) -> list[Shape | None]:
    """Two axes."""
    x = site.shape(0)
    axis = site.attr("axis", 1)
    axis = axis + len(x) if axis < 0 else axis
    return [(product(x[:axis]), product(x[axis:]))]


def transpose(site: Site) -> list[Shape | None]:
    """The axes in another order."""
    x = site.shape(0)
    return [tuple(x[i] for i in site.attr("perm") or reversed(range(len(x))))]


def squeeze(site: Site) -> list[Shape | None]:
    """Without the axes of extent 1 that are named, or that there are."""
    x = site.shape(0)
    named = site.settings("axes", 1)
    axes = {axis_of(a, len(x)) for a in named} if named is not None else {i for i, n in enumerate(x) if n == 1}
    for axis in axes:
        if type(x[axis]) is Dim:
            require(term(x[axis]) - 1, "==")
    return [tuple(n for i, n in enumerate(x) if i not in axes)]


def unsqueeze(site: Site) -> list[Shape | None]:
    """With new axes of extent 1."""
    x, named = site.shape(0), site.settings("axes", 1)
    if named is None:
        raise UnknownError
    axes = {axis_of(a, len(x) + len(named)) for a in named}
    extents = iter(x)
    return [tuple(1 if i in axes else next(extents) for i in range(len(x) + len(axes)))]


def concat(site: Site) -> list[Shape | None]:
    """One after the other along an axis; the other extents must be the same."""
    shapes = [site.shape(i) for i in range(len(site.node.inputs))]
    axis = axis_of(site.attr("axis", 1), len(shapes[0]))
    extents = list(shapes[0])
    for shape in shapes[1:]:
        for i, extent in enumerate(shape):
            extents[i] = extents[i] + extent if i == axis else same(extents[i], extent)
    return [tuple(extents)]


def split(site: Site) -> list[Shape | None]:
    """Parts along an axis, of the sizes that are named or of the same size, the last one smaller."""
    x, count = site.shape(0), len(site.node.outputs)
    axis = axis_of(site.attr("axis", 0), len(x))
    sizes = site.settings("split", 1)
    if sizes is None:
        if site.attr("num_outputs") is not None:
            size = -(-x[axis] // count)
            sizes = [*[size] * (count - 1), x[axis] - size * (count - 1)]
            require(term(sizes[-1]), ">=")
        else:
            sizes = [x[axis] // count] * count
            same(x[axis], sizes[0] * count)
    else:
        same(x[axis], sum(sizes))
    return [(*x[:axis], size, *x[axis + 1 :]) for size in sizes]


def clamp(place: int, low: int, high: int) -> int:
    """A place between bounds, as an expression."""
    return larger(smaller(place, high), low)


#: Exporters write places this large for the end of an axis.
_FAR = (1 << 31) - 1


def sliced(extent: int, start: int, end: int, step: int) -> int:
    """How many places a slice has: start and end count from the end where they are negative, and stop at the edges."""
    if type(extent) is int and type(start) is int and type(end) is int:
        return len(range(*slice(start, None if step < 0 and end < -extent else end, step).indices(extent)))
    if type(start) is int and start >= _FAR:
        start = extent
    if type(end) is int and end >= _FAR:
        end = extent
    start, end = (_counted(place, extent) for place in (start, end))
    if step > 0:
        start, end = clamp(start, 0, extent), clamp(end, 0, extent)
        return larger(-(-(end - start) // step), 0)
    start, end = smaller(larger(start, 0), extent - 1), clamp(end, -1, extent - 1)
    return larger(-(-(start - end) // -step), 0)


def _counted(place: int, extent: int) -> int:
    """A place counted from the front; whether it counts from the end becomes a condition where it is a size."""
    if place < 0:
        return place + extent
    return place


def slice_(site: Site) -> list[Shape | None]:
    """Parts of some axes."""
    x = site.shape(0)
    starts, ends = site.settings("starts", 1), site.settings("ends", 2)
    axes, steps = site.settings("axes", 3), site.settings("steps", 4)
    if starts is None or ends is None:
        raise UnknownError
    extents = list(x)
    axes = list(range(len(starts))) if axes is None else axes
    for start, end, axis, step in zip(starts, ends, axes, steps or [1] * len(starts), strict=True):
        place = axis_of(axis, len(x))
        extents[place] = sliced(x[place], start, end, step)
    return [tuple(extents)]


def gather(site: Site) -> list[Shape | None]:
    """The shape of the indices in place of an axis."""
    x, indices = site.shape(0), site.shape(1)
    axis = axis_of(site.attr("axis", 0), len(x))
    return [(*x[:axis], *indices, *x[axis + 1 :])]


def gather_elements(site: Site) -> list[Shape | None]:
    """As the indices."""
    return [site.shape(1)]


def gather_nd(site: Site) -> list[Shape | None]:
    """The indices without their last axis, then what one of them picks."""
    x, indices, batch = site.shape(0), site.shape(1), site.attr("batch_dims", 0)
    return [(*indices[:-1], *x[batch + settled(indices[-1]) :])]


def expand(site: Site) -> list[Shape | None]:
    """X broadcast to the shape that input 1 names."""
    return [broadcast(site.shape(0), tuple(site.whole(1)))]


def tile(site: Site) -> list[Shape | None]:
    """Each extent so many times."""
    return [tuple(n * times for n, times in zip(site.shape(0), site.whole(1), strict=True))]


def pad(site: Site) -> list[Shape | None]:
    """Each extent with what is before and after it; negative numbers cut."""
    x, pads = site.shape(0), site.settings("pads", 1)
    pads = pads if pads is not None else site.attr("paddings")
    if pads is None:
        raise UnknownError
    axes = site.whole(3) if site.has(3) else list(range(len(x)))
    extents = list(x)
    for i, axis in enumerate(axes):
        place = axis_of(axis, len(x))
        extents[place] = extents[place] + (pads[i] + pads[i + len(axes)])
    for before, extent in zip(x, extents, strict=True):
        if type(extent) is Dim and before is not extent and decided(extent.expression, ">=") is None:
            require(extent.expression, ">=")
    return [tuple(extents)]


def crop_pad(site: Site) -> list[Shape | None]:
    """The named axes have the extents that input 1 names."""
    x, sizes = list(site.shape(0)), site.whole(1)
    for axis, size in zip(site.attr("axes") or range(len(x)), sizes, strict=True):
        x[axis_of(axis, len(x))] = size
    return [tuple(x)]


def depth_to_space(site: Site) -> list[Shape | None]:
    """Blocks of channels become blocks of places."""
    n, c, h, w = site.shape(0)
    block = site.attr("blocksize")
    return [(n, c // block**2, h * block, w * block)]


def space_to_depth(site: Site) -> list[Shape | None]:
    """Blocks of places become blocks of channels."""
    n, c, h, w = site.shape(0)
    block = site.attr("blocksize")
    for extent in (h, w):
        same(extent, extent // block * block)
    return [(n, c * block**2, h // block, w // block)]


#: Up to here all whole numbers have 32 bits as a float, which extents become before they are scaled.
_WHOLE = 1 << 24


def resize(site: Site) -> list[Shape | None]:
    """The extents that sizes names, or those of X times scales, rounded down.

    https://onnx.ai/onnx/operators/onnx__Resize.html
    """
    x = site.shape(0)
    axes = [axis_of(a, len(x)) for a in site.attr("axes") or range(len(x))]
    extents = list(x)
    if site.has(3):
        sizes = site.whole(3)
        if site.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
            raise UnknownError
        for axis, size in zip(axes, sizes, strict=True):
            extents[axis] = size
        return [tuple(extents)]
    first_version = site.node.op == "Upsample" or (len(site.node.inputs) == 2)
    scales = site.attr("scales") or site.value(1 if first_version else 2).ravel().tolist()
    for axis, scale in zip(axes, scales, strict=True):
        require(_WHOLE - term(x[axis]), ">=")
        extents[axis] = math.floor(Ratio.of(x[axis]) * Ratio.of(scale, double=True))
    return [tuple(extents)]


def one_hot(site: Site) -> list[Shape | None]:
    """The indices with an axis of the depth."""
    indices = list(site.shape(0))
    axis = site.attr("axis", -1)
    (depth,) = site.whole(1)
    indices.insert(axis if axis >= 0 else len(indices) + 1 + axis, depth)
    return [tuple(indices)]


def top_k(site: Site) -> list[Shape | None]:
    """K along an axis, twice."""
    x = site.shape(0)
    axis = axis_of(site.attr("axis", -1), len(x))
    k = site.settings("k", 1)
    if k is None:
        raise UnknownError
    if not (type(k[0]) is int and type(x[axis]) is int):
        require(term(x[axis]) - term(k[0]), ">=")
    return [(*x[:axis], k[0], *x[axis + 1 :])] * 2


def non_zero(site: Site) -> list[Shape | None]:
    """At most every element."""
    x = site.shape(0)
    return [(len(x), product(x))]


def suppression(site: Site) -> list[Shape | None]:
    """At most so many boxes for each class and image."""
    boxes, scores = site.shape(0), site.shape(1)
    same(boxes[1], scores[2])
    most = site.whole(2)[0] if site.has(2) else 0
    kept = smaller(most, boxes[1])
    return [(scores[0] * scores[1] * kept, 3)]


def unique(site: Site) -> list[Shape | None]:
    """At most every element or slice."""
    x, axis = site.shape(0), site.attr("axis")
    count = product(x) if axis is None else x[axis_of(axis, len(x))]
    return [(count,) if axis is None else x, (count,), (count,), (count,)]


def compress(site: Site) -> list[Shape | None]:
    """At most as many slices as there are flags."""
    x, flags, axis = site.shape(0), site.shape(1), site.attr("axis")
    if axis is None:
        return [(smaller(product(x), flags[0]),)]
    place = axis_of(axis, len(x))
    return [(*x[:place], smaller(x[place], flags[0]), *x[place + 1 :])]


RULES = {
    "Reshape": reshape,
    "Flatten": flatten,
    "Transpose": transpose,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Concat": concat,
    "Split": split,
    "Slice": slice_,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Expand": expand,
    "Tile": tile,
    "Pad": pad,
    "CenterCropPad": crop_pad,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    **dict.fromkeys(("Resize", "Upsample"), resize),
    "OneHot": one_hot,
    "TopK": top_k,
    "NonZero": non_zero,
    "NonMaxSuppression": suppression,
    "Unique": unique,
    "Compress": compress,
}
