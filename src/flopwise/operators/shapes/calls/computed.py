"""Shapes of PyTorch's operators that compute: element by element, over axes or windows, and as products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flopwise.operators.shapes.algebra import times
from flopwise.operators.shapes.calls.of import Of, Shapes, axes_of
from flopwise.operators.shapes.windows import scaled, windows
from flopwise.operators.size import Dims, UnresolvedError, axis_of, broadcast, product, require, same


def roll(x: Of, *settings: object, **options: object) -> Shapes:
    return [x.shape]


def reduced(x: Of, dim: object = None, keepdim: bool = False, **options: object) -> Shapes:
    dim = options.get("axis", dim)
    if isinstance(dim, Of):
        return [broadcast(x.shape, dim.shape)]
    axes = list(range(len(x.shape))) if dim is None or dim in ((), []) else axes_of(dim, len(x.shape))
    keep = options.get("keepdims", keepdim) is True
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keep or i not in axes)
    return [shape, shape]


def vector_norm(x: Of, ord: object = 2, dim: object = None, keepdim: bool = False, **options: object) -> Shapes:
    return reduced(x, dim, keepdim, **options)


def top_k(x: Of, k: int, dim: int = -1, *settings: object, **options: object) -> Shapes:
    axis = axis_of(dim, len(x.shape))
    require(x.shape[axis] - k, ">=")
    return [(*x.shape[:axis], k, *x.shape[axis + 1 :])] * 2


def sort(x: Of, *settings: object, **options: object) -> Shapes:
    return [x.shape, x.shape]


def histc(x: Of, bins: int = 100, *settings: object, **options: object) -> Shapes:
    return [(bins,)]


def search(table: Of, values: Of, *settings: object, **options: object) -> Shapes:
    return [values.shape]


def grouped(a: Of, b: Of, *settings: object, **options: object) -> Shapes:
    return [(*a.shape[:-1], b.shape[-1])]


def embedding(weight: Of, indices: Of, *settings: object, **options: object) -> Shapes:
    table, places = weight.shape, indices.shape
    return [(*places, table[-1])]


class _Window:
    """The attributes of a pooling as the rule for windows asks for them."""

    def __init__(self, rank: int, stride: object, padding: object, dilation: object, ceil: object) -> None:
        several = {"strides": stride, "dilations": dilation, "pads": padding}
        self.held: dict[str, Any] = {k: _each(v, rank) for k, v in several.items()}
        self.held["pads"] = self.held["pads"] * 2
        self.held["ceil_mode"] = ceil

    def attr(self, name: str, default: object = None) -> Any:
        return self.held.get(name, default)


def _each(value: object, rank: int) -> list[Any]:
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    return values * rank if len(values) == 1 else values


def pool_of(rank: int, kind: str) -> Callable[..., Shapes]:
    """The rule of a pooling, whose arguments after the padding differ between the kinds."""

    def rule(
        x: Of, kernel_size: object, stride: Any = None, padding: object = 0, *settings: object, **options: Any
    ) -> Shapes:
        dilation = options.get("dilation", settings[0] if kind == "max" and settings else 1)
        place = 1 if kind == "max" else 0
        ceil = options.get("ceil_mode", settings[place] if len(settings) > place else False)
        kernel = _each(kernel_size, rank)
        window = _Window(rank, kernel if stride in (None, (), []) else stride, padding, dilation, ceil)
        shape = (*x.shape[:-rank], *windows(window, x.shape[-rank:], kernel))
        return [shape, shape]

    return rule


def adaptive(x: Of, output_size: Any, **options: object) -> Shapes:
    rank = len(output_size) if isinstance(output_size, (tuple, list)) else 0
    sizes = list(output_size) if rank else [output_size]
    return [_adapted(x.shape, sizes)] * 2


def _adapted(shape: Dims, sizes: Sequence[Any]) -> Dims:
    batch = shape[: len(shape) - len(sizes)]
    return (*batch, *(n if s is None else s for s, n in zip(sizes, shape[len(batch) :], strict=True)))


def adaptive_of(rank: int) -> Callable[..., Shapes]:
    def rule(x: Of, output_size: object, **options: Any) -> Shapes:
        sizes = list(output_size) if isinstance(output_size, (tuple, list)) else [output_size] * rank
        return [_adapted(x.shape, sizes * rank if len(sizes) == 1 else sizes)] * 2

    return rule


def upsample(x: Of, output_size: object = None, *settings: object, **options: Any) -> Shapes:
    sizes = options.get("output_size", output_size)
    if sizes is not None:
        return [(*x.shape[:2], *sizes)]
    scales = next((r for r in (*settings, options.get("scale_factors")) if isinstance(r, (tuple, list))), None)
    if scales is None:
        raise UnresolvedError
    extents = [scaled(n, s) for n, s in zip(x.shape[2:], scales, strict=True)]
    for extent in extents:  # PyTorch refuses to make nothing
        require(extent - 1, ">=")
    return [(*x.shape[:2], *extents)]


def attention(query: Of, key: Of, value: Of, *settings: object, **options: object) -> Shapes:
    same(key.shape[-2], value.shape[-2])
    return [(*query.shape[:-1], value.shape[-1])]


def outer(x: Of, other: Of) -> Shapes:
    return [(x.shape[0], other.shape[0])]


def matmul(a: Of, b: Of, *settings: object, **options: object) -> Shapes:
    return [times(a.shape, b.shape)]


def addmm(input: Of, *factors: object, **options: object) -> Shapes:
    """As the product of two tensors, which may be passed under two pairs of names, with the first added."""
    one, two = (f for f in (*factors, *options.values()) if isinstance(f, Of))
    return [broadcast(input.shape, times(one.shape, two.shape))]


def linear(x: Of, weight: Of, bias: object = None) -> Shapes:
    same(x.shape[-1], weight.shape[-1])
    return [(*x.shape[:-1], *weight.shape[:-1])]


def solved(a: Of, b: Of, *settings: object, **options: object) -> Shapes:
    return [(*broadcast(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])]


def broadcasting(*args: object, **options: object) -> Shapes:
    """The common shape of all tensors."""
    return [broadcast(*(a.shape for a in (*args, *options.values()) if isinstance(a, Of)))]


def grid_sampled(x: Of, grid: Of, *settings: object, **options: object) -> Shapes:
    return [(*x.shape[:2], *grid.shape[1:-1])]


def moments(x: Of, dim: object = None, *settings: object, **options: Any) -> Shapes:
    options.pop("correction", None)
    options.pop("unbiased", None)
    return reduced(x, dim, **options)


def columns(x: Of, kernel_size: object, dilation: object = 1, padding: object = 0, stride: object = 1) -> Shapes:
    """The windows of an image side by side: N × C·kernel × places."""
    kernel = _each(kernel_size, 2)
    window = _Window(2, stride, padding, dilation, False)
    return [(*x.shape[:-3], x.shape[-3] * product(kernel), product(windows(window, x.shape[-2:], kernel)))]


def recurrent(x: Of, *settings: object) -> Shapes:
    """Steps with the hidden sizes of all directions, and the states; a packed sequence comes with its batch sizes."""
    weights = next(
        i for i, thing in enumerate(settings) if isinstance(thing, list) and isinstance(settings[i + 1], bool)
    )
    states = _each(settings[weights - 1], 1)
    if weights == 1:  # no batch sizes: the batch is an axis of the input
        same(states[0].shape[1], x.shape[0 if settings[weights + 6] else 1])
    return [(*x.shape[:-1], states[0].shape[-1] * (2 if settings[weights + 5] else 1)), *(s.shape for s in states)]


def cell(x: Of, state: object, *settings: object) -> Shapes:
    """As the states."""
    return [s.shape for s in _each(state, 1)]
