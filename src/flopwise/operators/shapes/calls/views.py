"""Shapes of PyTorch's operators that pick, move, join or repeat elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flopwise.operators.shapes.calls.of import Of, Shapes, axes_of, sizes_of
from flopwise.operators.shapes.picking import sliced
from flopwise.operators.shapes.reshaping import reshaped
from flopwise.operators.size import Dims, UnresolvedError, axis_of, broadcast, common, product, require, same, settled


def view(x: Of, *shape: object, **more: object) -> Shapes:
    sizes = sizes_of(shape or (more["shape"] if "shape" in more else more["size"],))
    if any(not isinstance(n, int) for n in sizes):
        raise UnresolvedError
    return [reshaped(x.shape, sizes, zeros=True)]


def view_as(x: Of, other: Of) -> Shapes:
    return [other.shape]


def unflatten(x: Of, dim: int, sizes: Any) -> Shapes:
    axis = axis_of(dim, len(x.shape))
    return [(*x.shape[:axis], *reshaped((x.shape[axis],), list(sizes), zeros=True), *x.shape[axis + 1 :])]


def flatten(x: Of, start_dim: int = 0, end_dim: int = -1) -> Shapes:
    if not x.shape:
        return [(1,)]
    first, last = axis_of(start_dim, len(x.shape)), axis_of(end_dim, len(x.shape))
    return [(*x.shape[:first], product(x.shape[first : last + 1]), *x.shape[last + 1 :])]


def squeeze(x: Of, dim: object = None) -> Shapes:
    axes = range(len(x.shape)) if dim is None else axes_of(dim, len(x.shape))
    return [tuple(n for i, n in enumerate(x.shape) if not (i in axes and n == 1))]


def unsqueeze(x: Of, dim: int) -> Shapes:
    shape = list(x.shape)
    shape.insert(axis_of(dim, len(shape) + 1), 1)
    return [tuple(shape)]


def transpose(x: Of, dim0: int, dim1: int) -> Shapes:
    shape = list(x.shape)
    a, b = axis_of(dim0, len(shape)), axis_of(dim1, len(shape))
    shape[a], shape[b] = shape[b], shape[a]
    return [tuple(shape)]


def turned(x: Of) -> Shapes:
    return [(*x.shape[:-2], *x.shape[:-3:-1])]


def permute(x: Of, *dims: object, **more: object) -> Shapes:
    return [tuple(x.shape[d] for d in sizes_of(dims or (more["dims"],)))]


def movedim(x: Of, source: object, destination: object) -> Shapes:
    pairs = dict(zip(axes_of(destination, len(x.shape)), axes_of(source, len(x.shape)), strict=True))
    others = iter(i for i in range(len(x.shape)) if i not in pairs.values())
    return [tuple(x.shape[pairs[i] if i in pairs else next(others)] for i in range(len(x.shape)))]


def cat(tensors: Sequence[Of], dim: int = 0, **more: Any) -> Shapes:
    shapes = [t.shape for t in tensors if t.shape != (0,)]
    axis = axis_of(more.get("axis", dim), len(shapes[0]))
    made = list(shapes[0])
    for shape in shapes[1:]:
        made = [a + b if i == axis else same(a, b) for i, (a, b) in enumerate(zip(made, shape, strict=True))]
    return [tuple(made)]


def stack(tensors: Sequence[Of], dim: int = 0) -> Shapes:
    shape = list(broadcast(*(t.shape for t in tensors)))
    shape.insert(axis_of(dim, len(shape) + 1), len(tensors))
    return [tuple(shape)]


def split(x: Of, split_size_or_sections: object = None, dim: int = 0, **more: Any) -> Shapes:
    sizes = more.get("split_size", more.get("split_sizes", split_size_or_sections))
    axis = axis_of(dim, len(x.shape))
    extent = x.shape[axis]
    if isinstance(sizes, (tuple, list)):
        parts = list(sizes)
        same(extent, sum(parts))
    else:
        count = -(-int(extent) // int(sizes))
        require(-(-extent // sizes) - count, "==")
        parts = [*[sizes] * (count - 1), extent - sizes * (count - 1)]
    return [(*x.shape[:axis], part, *x.shape[axis + 1 :]) for part in parts]


def chunk(x: Of, chunks: int, dim: int = 0) -> Shapes:
    return split(x, -(-x.shape[axis_of(dim, len(x.shape))] // chunks), dim)


def tensor_split(x: Of, indices_or_sections: object, dim: int = 0) -> Shapes:
    axis = axis_of(dim, len(x.shape))
    extent = x.shape[axis]
    if isinstance(indices_or_sections, (list, tuple)):
        ends = [0, *indices_or_sections]
        parts = [sliced(extent, begin, end, 1) for begin, end in zip(ends, (*ends[1:], extent), strict=True)]
    elif type(indices_or_sections) is int:
        parts = [(extent + place) // indices_or_sections for place in reversed(range(indices_or_sections))]
    else:
        raise UnresolvedError
    return [(*x.shape[:axis], part, *x.shape[axis + 1 :]) for part in parts]


def unbind(x: Of, dim: int = 0) -> Shapes:
    axis = axis_of(dim, len(x.shape))
    return [(*x.shape[:axis], *x.shape[axis + 1 :])] * settled(x.shape[axis])


def expand(x: Of, *size: object, **more: object) -> Shapes:
    sizes = sizes_of(size or (more["size"],))
    old = (*[1] * (len(sizes) - len(x.shape)), *x.shape)
    return [tuple(o if type(s) is int and s == -1 else common(o, s) for o, s in zip(old, sizes, strict=True))]


def expand_as(x: Of, other: Of) -> Shapes:
    return [broadcast(x.shape, other.shape)]


def repeat(x: Of, *repeats: object, **more: object) -> Shapes:
    times = sizes_of(repeats or (more["repeats"],))
    old = (*[1] * (len(times) - len(x.shape)), *x.shape)
    return [tuple(n * t for n, t in zip(old, times, strict=True))]


def repeat_interleave(x: Of, repeats: object, dim: int | None = None, **more: object) -> Shapes:
    if not isinstance(repeats, int) or dim is None:
        raise UnresolvedError
    axis = axis_of(dim, len(x.shape))
    return [(*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :])]


def pad(x: Of, pad: Sequence[int], *settings: object, **options: object) -> Shapes:
    shape = list(x.shape)
    for i in range(len(pad) // 2):
        shape[-1 - i] = shape[-1 - i] + (pad[2 * i] + pad[2 * i + 1])
    return [tuple(shape)]


def narrow(x: Of, dim: int, start: object, length: int) -> Shapes:
    axis = axis_of(dim, len(x.shape))
    return [(*x.shape[:axis], length, *x.shape[axis + 1 :])]


def select(x: Of, dim: int, index: object) -> Shapes:
    axis = axis_of(dim, len(x.shape))
    return [(*x.shape[:axis], *x.shape[axis + 1 :])]


def getitem(x: Of, index: object) -> Shapes:
    """Parts by whole numbers, slices, new axes, and tensors of places side by side."""
    parts = [_places(part) for part in (index if isinstance(index, tuple) else (index,))]
    used = sum(part is not None and part is not Ellipsis for part in parts)
    if not any(part is Ellipsis for part in parts):
        parts.append(Ellipsis)
    extents = iter(x.shape)
    shape: list[Any] = []
    places: list[Dims] = []
    front = 0  # how many extents stand before those of the tensors
    for part in parts:
        if part is None:
            shape.append(1)
        elif part is Ellipsis:
            shape.extend(next(extents) for _ in range(len(x.shape) - used))
        elif isinstance(part, slice):
            shape.append(_part(next(extents), part))
        elif isinstance(part, Of):
            next(extents)
            if places and len(shape) != front:
                raise UnresolvedError  # tensors apart from each other move their axes to the front
            front = len(shape)
            places.append(part.shape)
        elif isinstance(part, int) and not isinstance(part, bool):
            next(extents)
        else:
            raise UnresolvedError
    return [(*shape[:front], *(broadcast(*places) if places else ()), *shape[front:])]


def _places(part: object) -> Any:
    """A part of an index; a list of whole numbers as the tensor that it stands for."""
    if isinstance(part, list) and all(type(n) is int for n in part):
        return Of((len(part),))
    if isinstance(part, Of) and part.flags:
        raise UnresolvedError
    return part


def _part(extent: int, part: slice) -> int:
    if part.start is None and part.stop is None and part.step is None:
        return extent
    start = 0 if part.start is None else part.start
    length = sliced(extent, start, extent if part.stop is None else part.stop, part.step or 1)
    unchanged = int(length) == int(extent)  # what is whole stays contiguous
    if type(start) is int and start < 0 and part.stop is None and part.step in (None, 1):
        require(-start - extent if unchanged else extent + start - 1, ">=")
    else:
        require(length - extent, "==" if unchanged else "!=")
    return length


def slice_(x: Of, dim: int = 0, start: object = None, end: object = None, step: int = 1) -> Shapes:
    axis = axis_of(dim, len(x.shape))
    return [(*x.shape[:axis], _part(x.shape[axis], slice(start, end, step)), *x.shape[axis + 1 :])]


def gathered(x: Of, dim: int, index: Of, **more: object) -> Shapes:
    return [index.shape]


def index_select(x: Of, dim: int, index: Of) -> Shapes:
    axis = axis_of(dim, len(x.shape))
    return [(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])]


def pixel_shuffle(x: Of, upscale_factor: int) -> Shapes:
    r = upscale_factor
    return [(*x.shape[:-3], x.shape[-3] // (r * r), x.shape[-2] * r, x.shape[-1] * r)]


def pixel_unshuffle(x: Of, downscale_factor: int) -> Shapes:
    r = downscale_factor
    for extent in x.shape[-2:]:
        same(extent, extent // r * r)
    return [(*x.shape[:-3], x.shape[-3] * (r * r), x.shape[-2] // r, x.shape[-1] // r)]


def unfold(x: Of, dimension: int, size: int, step: int) -> Shapes:
    axis = axis_of(dimension, len(x.shape))
    require(x.shape[axis] - size, ">=")
    return [(*x.shape[:axis], (x.shape[axis] - size) // step + 1, *x.shape[axis + 1 :], size)]


def as_complex(x: Of) -> Shapes:
    return [x.shape[:-1]]


def as_real(x: Of) -> Shapes:
    return [(*x.shape, 2)]
