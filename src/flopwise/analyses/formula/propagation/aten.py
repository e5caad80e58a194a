"""Shapes of PyTorch's operators whose arguments say what ONNX has in attributes: parameters are those of the function.

Tensors come as their shapes (:class:`Of`), sizes as integers that may carry expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flopwise.analyses.formula.dim import Ratio, dim, require, term
from flopwise.analyses.formula.propagation.broadcasting import broadcast, same
from flopwise.analyses.formula.propagation.movement import reshaped, sliced
from flopwise.analyses.formula.propagation.site import Shape, UnknownError, axis_of
from flopwise.analyses.formula.propagation.windows import windows
from flopwise.operators.extents import product

Shapes = list[Shape]


class Of:
    """A tensor among the arguments: its shape, and whether its elements are flags."""

    __slots__ = ("flags", "shape")

    def __init__(self, shape: Shape | None, flags: bool = False) -> None:
        if shape is None:
            raise UnknownError
        self.shape = shape
        self.flags = flags


def _sizes(sizes: Sequence[Any]) -> list[int]:
    """Sizes that were passed one by one, or as one sequence."""
    found = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    return list(found)


def _axes(dims: Any, rank: int) -> list[int]:
    named = dims if isinstance(dims, (tuple, list)) else [dims]
    return [axis_of(d, rank) for d in named]


def view(x: Of, *shape: Any, **more: Any) -> Shapes:
    sizes = _sizes(shape or (more["shape"] if "shape" in more else more["size"],))
    if any(not isinstance(n, int) for n in sizes):
        raise UnknownError
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


def squeeze(x: Of, dim: Any = None) -> Shapes:
    axes = range(len(x.shape)) if dim is None else _axes(dim, len(x.shape))
    return [tuple(n for i, n in enumerate(x.shape) if not (i in axes and n == 1))]


def unsqueeze(x: Of, dim: int) -> Shapes:
    made = list(x.shape)
    made.insert(axis_of(dim, len(made) + 1), 1)
    return [tuple(made)]


def transpose(x: Of, dim0: int, dim1: int) -> Shapes:
    made = list(x.shape)
    a, b = axis_of(dim0, len(made)), axis_of(dim1, len(made))
    made[a], made[b] = made[b], made[a]
    return [tuple(made)]


def turned(x: Of) -> Shapes:
    return [(*x.shape[:-2], *x.shape[:-3:-1])]


def permute(x: Of, *dims: Any, **more: Any) -> Shapes:
    return [tuple(x.shape[d] for d in _sizes(dims or (more["dims"],)))]


def movedim(x: Of, source: Any, destination: Any) -> Shapes:
    pairs = dict(zip(_axes(destination, len(x.shape)), _axes(source, len(x.shape)), strict=True))
    rest = iter(i for i in range(len(x.shape)) if i not in pairs.values())
    return [tuple(x.shape[pairs[i] if i in pairs else next(rest)] for i in range(len(x.shape)))]


def cat(tensors: Sequence[Of], dim: int = 0, **more: Any) -> Shapes:
    shapes = [t.shape for t in tensors if t.shape != (0,)]
    axis = axis_of(more.get("axis", dim), len(shapes[0]))
    made = list(shapes[0])
    for shape in shapes[1:]:
        made = [a + b if i == axis else same(a, b) for i, (a, b) in enumerate(zip(made, shape, strict=True))]
    return [tuple(made)]


def stack(tensors: Sequence[Of], dim: int = 0) -> Shapes:
    made = list(broadcast(*(t.shape for t in tensors)))
    made.insert(axis_of(dim, len(made) + 1), len(tensors))
    return [tuple(made)]


def split(x: Of, split_size_or_sections: Any = None, dim: int = 0, **more: Any) -> Shapes:
    sizes = more.get("split_size", more.get("split_sizes", split_size_or_sections))
    axis = axis_of(dim, len(x.shape))
    whole = x.shape[axis]
    if isinstance(sizes, (tuple, list)):
        parts = list(sizes)
        same(whole, sum(parts))
    else:
        count = -(-int(whole) // int(sizes))
        require(term(-(-whole // sizes)) - count, "==")
        parts = [*[sizes] * (count - 1), whole - sizes * (count - 1)]
    return [(*x.shape[:axis], part, *x.shape[axis + 1 :]) for part in parts]


def chunk(x: Of, chunks: int, dim: int = 0) -> Shapes:
    return split(x, -(-x.shape[axis_of(dim, len(x.shape))] // chunks), dim)


def unbind(x: Of, dim: int = 0) -> Shapes:
    axis = axis_of(dim, len(x.shape))
    if type(x.shape[axis]) is not int:
        require(term(x.shape[axis]) - int(x.shape[axis]), "==")
    return [(*x.shape[:axis], *x.shape[axis + 1 :])] * int(x.shape[axis])


def expand(x: Of, *size: Any, **more: Any) -> Shapes:
    sizes = _sizes(size or (more["size"],))
    old = (*[1] * (len(sizes) - len(x.shape)), *x.shape)
    return [
        tuple(o if type(s) is int and s == -1 else broadcast((o,), (s,))[0] for o, s in zip(old, sizes, strict=True))
    ]


def expand_as(x: Of, other: Of) -> Shapes:
    return [broadcast(x.shape, other.shape)]


def repeat(x: Of, *repeats: Any, **more: Any) -> Shapes:
    times = _sizes(repeats or (more["repeats"],))
    old = (*[1] * (len(times) - len(x.shape)), *x.shape)
    return [tuple(n * t for n, t in zip(old, times, strict=True))]


def repeat_interleave(x: Of, repeats: Any, dim: int | None = None, **more: Any) -> Shapes:
    if not isinstance(repeats, int) or dim is None:
        raise UnknownError
    axis = axis_of(dim, len(x.shape))
    return [(*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :])]


def pad(x: Of, pad: Sequence[int], *rest: Any, **more: Any) -> Shapes:
    made = list(x.shape)
    for i in range(len(pad) // 2):
        made[-1 - i] = made[-1 - i] + (pad[2 * i] + pad[2 * i + 1])
    return [tuple(made)]


def roll(x: Of, *rest: Any, **more: Any) -> Shapes:
    return [x.shape]


def narrow(x: Of, dim: int, start: Any, length: int) -> Shapes:
    axis = axis_of(dim, len(x.shape))
    return [(*x.shape[:axis], length, *x.shape[axis + 1 :])]


def select(x: Of, dim: int, index: Any) -> Shapes:
    axis = axis_of(dim, len(x.shape))
    return [(*x.shape[:axis], *x.shape[axis + 1 :])]


def getitem(x: Of, index: Any) -> Shapes:
    """Parts by whole numbers, slices, new axes, and tensors of places side by side."""
    parts = list(index) if isinstance(index, (tuple, list)) else [index]
    if isinstance(index, list) and index and not all(type(p) is int for p in index):
        raise UnknownError
    parts = [index] if isinstance(index, list) else parts
    parts = [Of((len(p),)) if isinstance(p, list) and all(type(n) is int for n in p) else p for p in parts]
    if any(isinstance(p, Of) and p.flags for p in parts):
        raise UnknownError
    used = sum(p is not None and p is not Ellipsis for p in parts)
    if Ellipsis not in [p for p in parts if not isinstance(p, Of)]:
        parts.append(Ellipsis)
    rest = iter(x.shape)
    made: list[Any] = []
    places: list[Shape] = []
    for part in parts:
        if part is None:
            made.append(1)
        elif part is Ellipsis:
            made.extend(next(rest) for _ in range(len(x.shape) - used))
        elif isinstance(part, slice):
            extent = next(rest)
            made.append(_part(extent, part))
        elif isinstance(part, Of):
            next(rest)
            if places and made[-1] is not Of:
                raise UnknownError  # tensors apart from each other move their axes to the front
            if not places:
                made.append(Of)
            places.append(part.shape)
        elif isinstance(part, int) and not isinstance(part, bool):
            next(rest)
        else:
            raise UnknownError
    if not places:
        return [tuple(made)]
    at = made.index(Of)
    return [(*made[:at], *broadcast(*places), *made[at + 1 :])]


def _part(extent: int, part: slice) -> int:
    if part.start is None and part.stop is None and part.step is None:
        return extent
    start = 0 if part.start is None else part.start
    made = sliced(extent, start, extent if part.stop is None else part.stop, part.step or 1)
    whole = int(made) == int(extent)  # what is whole stays contiguous
    if type(start) is int and start < 0 and part.stop is None and part.step in (None, 1):
        require(term(-start - extent) if whole else term(extent + start - 1), ">=")
    else:
        require(term(made) - term(extent), "==" if whole else "!=")
    return made


def slice_(x: Of, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Shapes:
    axis = axis_of(dim, len(x.shape))
    return [(*x.shape[:axis], _part(x.shape[axis], slice(start, end, step)), *x.shape[axis + 1 :])]


def filled(*size: Any, **more: Any) -> Shapes:
    return [tuple(_sizes(size or (more["size"],)))]


def full(size: Any, *rest: Any, **more: Any) -> Shapes:
    return [tuple(size)]


def new_filled(x: Of, *size: Any, **more: Any) -> Shapes:
    sizes = size or (more["size"],)
    return [tuple(sizes[0]) if isinstance(sizes[0], (tuple, list)) else tuple(sizes)]


def new_full(x: Of, size: Any, *rest: Any, **more: Any) -> Shapes:
    return [tuple(size)]


def arange(*ends: Any, **more: Any) -> Shapes:
    ends = ends or tuple(more[k] for k in ("start", "end", "step") if k in more)
    start, end, step = (0, ends[0], 1) if len(ends) == 1 else (*ends, 1)[:3]
    step = more.get("step", step)
    if not all(isinstance(e, int) for e in (start, end)) or type(step) is not int or step <= 0:
        raise UnknownError
    if type(start) is int and type(end) is int:
        return [(len(range(start, end, step)),)]
    require(term(end - start), ">=")
    return [(-(-(end - start) // step),)]


def linspace(start: Any, end: Any, steps: int, **more: Any) -> Shapes:
    return [(steps,)]


def eye(n: int, m: int | None = None, **more: Any) -> Shapes:
    return [(n, n if m is None else m)]


def alike(x: Of, *rest: Any, **more: Any) -> Shapes:
    return [x.shape]


def reduced(x: Of, dim: Any = None, keepdim: bool = False, **more: Any) -> Shapes:
    dim = more.get("axis", dim)
    if isinstance(dim, Of):
        return [broadcast(x.shape, dim.shape)]
    axes = list(range(len(x.shape))) if dim is None or dim in ((), []) else _axes(dim, len(x.shape))
    keep = more.get("keepdims", keepdim) is True
    made = tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keep or i not in axes)
    return [made, made]


def vector_norm(x: Of, ord: Any = 2, dim: Any = None, keepdim: bool = False, **more: Any) -> Shapes:
    return reduced(x, dim, keepdim, **more)


def top_k(x: Of, k: int, dim: int = -1, *rest: Any, **more: Any) -> Shapes:
    axis = axis_of(dim, len(x.shape))
    require(term(x.shape[axis]) - term(k), ">=")
    return [(*x.shape[:axis], k, *x.shape[axis + 1 :])] * 2


def sort(x: Of, *rest: Any, **more: Any) -> Shapes:
    return [x.shape, x.shape]


def histc(x: Of, bins: int = 100, *rest: Any, **more: Any) -> Shapes:
    return [(bins,)]


def search(table: Of, values: Of, *rest: Any, **more: Any) -> Shapes:
    return [values.shape]


def grouped(a: Of, b: Of, *rest: Any, **more: Any) -> Shapes:
    return [(*a.shape[:-1], b.shape[-1])]


def embedding(weight: Of, indices: Of, *rest: Any, **more: Any) -> Shapes:
    table, places = weight.shape, indices.shape
    return [(*places, table[-1])]


def gathered(x: Of, dim: int, index: Of, **more: Any) -> Shapes:
    return [index.shape]


def index_select(x: Of, dim: int, index: Of) -> Shapes:
    axis = axis_of(dim, len(x.shape))
    return [(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])]


class _Window:
    """The attributes of a pooling as the rule for windows asks for them."""

    def __init__(self, rank: int, stride: Any, padding: Any, dilation: Any, ceil: Any) -> None:
        several = {"strides": stride, "dilations": dilation, "pads": padding}
        self.held: dict[str, Any] = {k: _each(v, rank) for k, v in several.items()}
        self.held["pads"] = self.held["pads"] * 2
        self.held["ceil_mode"] = ceil

    def attr(self, name: str, default: Any = None) -> Any:
        return self.held.get(name, default)


def _each(value: Any, rank: int) -> list[Any]:
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    return values * rank if len(values) == 1 else values


def pool_of(rank: int, kind: str) -> Callable[..., Shapes]:
    """The rule of a pooling, whose arguments after the padding differ between the kinds."""

    def rule(x: Of, kernel_size: Any, stride: Any = None, padding: Any = 0, *rest: Any, **more: Any) -> Shapes:
        dilation = more.get("dilation", rest[0] if kind == "max" and rest else 1)
        place = 1 if kind == "max" else 0
        ceil = more.get("ceil_mode", rest[place] if len(rest) > place else False)
        kernel = _each(kernel_size, rank)
        window = _Window(rank, kernel if stride in (None, (), []) else stride, padding, dilation, ceil)
        shape = (*x.shape[:-rank], *windows(window, x.shape[-rank:], kernel))
        return [shape, shape]

    return rule


def adaptive(x: Of, output_size: Any, **more: Any) -> Shapes:
    rank = len(output_size) if isinstance(output_size, (tuple, list)) else 0
    sizes = list(output_size) if rank else [output_size]
    return [_adapted(x.shape, sizes)] * 2


def _adapted(shape: Shape, sizes: Sequence[Any]) -> Shape:
    kept = shape[: len(shape) - len(sizes)]
    return (*kept, *(n if s is None else s for s, n in zip(sizes, shape[len(kept) :], strict=True)))


def adaptive_of(rank: int) -> Callable[..., Shapes]:
    def rule(x: Of, output_size: Any, **more: Any) -> Shapes:
        sizes = list(output_size) if isinstance(output_size, (tuple, list)) else [output_size] * rank
        return [_adapted(x.shape, sizes * rank if len(sizes) == 1 else sizes)] * 2

    return rule


def upsample(x: Of, output_size: Any = None, *rest: Any, **more: Any) -> Shapes:
    sizes = more.get("output_size", output_size)
    if sizes is not None:
        return [(*x.shape[:2], *sizes)]
    scales = next((r for r in (*rest, more.get("scale_factors")) if isinstance(r, (tuple, list))), None)
    if scales is None:
        raise UnknownError
    return [(*x.shape[:2], *((Ratio.of(n) * Ratio.of(s)).floor() for n, s in zip(x.shape[2:], scales, strict=True)))]


def attention(query: Of, key: Of, value: Of, *rest: Any, **more: Any) -> Shapes:
    same(key.shape[-2], value.shape[-2])
    return [(*query.shape[:-1], value.shape[-1])]


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
    require(term(x.shape[axis]) - term(size), ">=")
    return [(*x.shape[:axis], (x.shape[axis] - size) // step + 1, *x.shape[axis + 1 :], size)]


def meshgrid(*tensors: Any, indexing: str = "ij") -> Shapes:
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    extents = [t.shape[0] if t.shape else 1 for t in given]
    if indexing == "xy" and len(extents) > 1:
        extents[:2] = extents[1::-1]
    return [tuple(extents)] * len(given)


def one_hot(x: Of, num_classes: int = -1) -> Shapes:
    if type(num_classes) is int and num_classes < 0:
        raise UnknownError
    return [(*x.shape, num_classes)]


def outer(x: Of, other: Of) -> Shapes:
    return [(x.shape[0], other.shape[0])]


def matmul(a: Of, b: Of, *rest: Any, **more: Any) -> Shapes:
    left, right = a.shape, b.shape
    same(left[-1], right[0] if len(right) == 1 else right[-2])
    batch = broadcast(left[:-2], right[:-2])
    return [(*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))]


def addmm(input: Of, mat1: Of, mat2: Of, **more: Any) -> Shapes:
    return [broadcast(input.shape, matmul(mat1, mat2)[0])]


def baddbmm(input: Of, batch1: Of, batch2: Of, **more: Any) -> Shapes:
    return addmm(input, batch1, batch2)


def linear(x: Of, weight: Of, bias: Any = None) -> Shapes:
    same(x.shape[-1], weight.shape[-1])
    return [(*x.shape[:-1], *weight.shape[:-1])]


def broadcasting(*args: Any, **more: Any) -> Shapes:
    """The common shape of all tensors."""
    return [broadcast(*(a.shape for a in (*args, *more.values()) if isinstance(a, Of)))]


_NAMES: dict[Callable[..., Shapes], str] = {
    view: "view reshape _unsafe_view",
    view_as: "view_as reshape_as",
    unflatten: "unflatten",
    flatten: "flatten ravel",
    squeeze: "squeeze",
    unsqueeze: "unsqueeze",
    transpose: "transpose swapaxes swapdims",
    turned: "t mT numpy_T",
    permute: "permute",
    movedim: "movedim moveaxis",
    cat: "cat concat concatenate",
    stack: "stack",
    split: "split split_with_sizes",
    chunk: "chunk",
    unbind: "unbind",
    expand: "expand broadcast_to",
    expand_as: "expand_as",
    repeat: "repeat tile",
    repeat_interleave: "repeat_interleave",
    pad: "pad constant_pad_nd",
    roll: "roll flip tril triu index_put masked_fill scatter scatter_add index_add index_copy index_fill cumsum cumprod"
    " softmax log_softmax layer_norm rms_norm group_norm batch_norm instance_norm dropout normalize clone contiguous to"
    " type float half double bfloat16 int long bool detach type_as gelu silu setitem_ zero_ fill_ copy_ glu_like",
    narrow: "narrow",
    select: "select",
    getitem: "getitem",
    slice_: "slice",
    filled: "zeros ones empty rand randn",
    full: "full",
    new_filled: "new_zeros new_ones new_empty",
    new_full: "new_full",
    arange: "arange",
    linspace: "linspace",
    eye: "eye",
    alike: "zeros_like ones_like empty_like full_like rand_like randn_like",
    reduced: "mean sum amax amin max min argmax argmin any all var std prod logsumexp",
    vector_norm: "linalg_vector_norm norm",
    top_k: "topk",
    sort: "sort argsort msort",
    histc: "histc",
    search: "searchsorted bucketize",
    grouped: "_grouped_mm grouped_mm",
    embedding: "embedding",
    gathered: "gather take_along_dim",
    index_select: "index_select",
    upsample: "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d"
    " upsample_bicubic2d upsample_trilinear3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa",
    attention: "scaled_dot_product_attention",
    pixel_shuffle: "pixel_shuffle",
    pixel_unshuffle: "pixel_unshuffle",
    unfold: "unfold",
    meshgrid: "meshgrid",
    one_hot: "one_hot",
    outer: "outer ger",
    matmul: "matmul bmm mm mv __matmul__",
    addmm: "addmm",
    baddbmm: "baddbmm",
    linear: "linear",
    broadcasting: "ne not_equal eq lt le gt ge greater greater_equal less less_equal where maximum minimum floor_divide"
    " remainder fmod atan2 clamp clamp_min clamp_max clip neg abs sqrt rsqrt exp log sin cos sigmoid tanh"
    " relu erf square reciprocal sign isnan isinf logical_and logical_or logical_not logical_xor"
    " bitwise_and bitwise_or bitwise_not pow add sub mul div rsub lerp addcmul addcdiv floor ceil round"
    " trunc __and__ __or__ __invert__ expm1 log1p log2 exp2 nan_to_num",
}

#: Name of an operator without its namespace -> its rule.
RULES: dict[str, Callable[..., Shapes]] = {name: rule for rule, names in _NAMES.items() for name in names.split()}
for _kind in ("avg", "max"):
    RULES.update({f"adaptive_{_kind}_pool{_rank}d": adaptive_of(_rank) for _rank in (1, 2, 3)})
    RULES.update({f"{_kind}_pool{_rank}d": pool_of(_rank, _kind) for _rank in (1, 2, 3)})
RULES.update({f"max_pool{_rank}d_with_indices": pool_of(_rank, "max") for _rank in (1, 2, 3)})

__all__ = ["RULES", "Of", "dim"]
