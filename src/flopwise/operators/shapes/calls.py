"""Shapes of PyTorch's operators whose arguments say what ONNX has in attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flopwise.operators.shapes.algebra import times
from flopwise.operators.shapes.picking import sliced
from flopwise.operators.shapes.reshaping import reshaped
from flopwise.operators.shapes.windows import scaled, windows
from flopwise.operators.size import Dims, UnresolvedError, axis_of, broadcast, common, product, require, same, settled

# The arguments of PyTorch's operators as the rules of their shapes take them.

Shapes = list[Dims]


class Of:
    """A tensor among the arguments: its shape, and whether its elements are flags."""

    __slots__ = ("flags", "shape")

    def __init__(self, shape: Dims | None, flags: bool = False) -> None:
        if shape is None:
            raise UnresolvedError
        self.shape = shape
        self.flags = flags


def sizes_of(sizes: Sequence[object]) -> list[int]:
    """Sizes that were passed one by one, or as one sequence."""
    sequence = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    return list(sequence)


def axes_of(dims: Any, rank: int) -> list[int]:
    named = dims if isinstance(dims, (tuple, list)) else [dims]
    return [axis_of(d, rank) for d in named]


# Shapes of PyTorch's operators that pick, move, join or repeat elements.


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


# Shapes of PyTorch's operators that compute: element by element, over axes or windows, and as products.


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


# Shapes of tensors that PyTorch's operators make from sizes.


def filled(*size: object, **options: object) -> Shapes:
    return [tuple(sizes_of(size or (options["size"],)))]


def full(size: Any, *settings: object, **options: object) -> Shapes:
    return [tuple(size)]


def new_filled(x: Of, *size: object, **options: Any) -> Shapes:
    sizes = size or (options["size"],)
    return [tuple(sizes[0]) if isinstance(sizes[0], (tuple, list)) else tuple(sizes)]


def new_full(x: Of, size: Any, *settings: object, **options: object) -> Shapes:
    return [tuple(size)]


def arange(*ends: Any, **options: object) -> Shapes:
    ends = ends or tuple(options[k] for k in ("start", "end", "step") if k in options)
    start, end, step = (0, ends[0], 1) if len(ends) == 1 else (*ends, 1)[:3]
    step = options.get("step", step)
    if not all(isinstance(e, int) for e in (start, end)) or type(step) is not int or step <= 0:
        raise UnresolvedError
    if type(start) is int and type(end) is int:
        return [(len(range(start, end, step)),)]
    require(end - start, ">=")
    return [(-(-(end - start) // step),)]


def linspace(start: object, end: object, steps: int, **options: object) -> Shapes:
    return [(steps,)]


def eye(n: int, m: int | None = None, **options: object) -> Shapes:
    return [(n, n if m is None else m)]


def alike(x: Of, *settings: object, **options: object) -> Shapes:
    return [x.shape]


def meshgrid(*tensors: Any, indexing: str = "ij") -> Shapes:
    vectors = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    extents = [t.shape[0] if t.shape else 1 for t in vectors]
    if indexing == "xy" and len(extents) > 1:
        extents[:2] = extents[1::-1]
    return [tuple(extents)] * len(vectors)


def one_hot(x: Of, num_classes: int = -1) -> Shapes:
    if type(num_classes) is int and num_classes < 0:
        raise UnresolvedError
    return [(*x.shape, num_classes)]


def affine_grid(theta: Of, size: Any, *settings: object, **options: object) -> Shapes:
    return [(size[0], *size[2:], len(size) - 2)]


# The rules of PyTorch's operators. Parameters of rules are those of the function.
#
# Tensors come as their shapes (``flopwise.operators.shapes.calls.Of``), sizes as integers that may carry
# expressions.

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
    roll: "roll flip tril triu index_put masked_fill scatter scatter_add index_add index_copy index_fill"
    " cumsum cumprod"
    " softmax log_softmax layer_norm rms_norm group_norm batch_norm instance_norm dropout normalize clone contiguous to"
    " type float half double bfloat16 int long bool detach type_as gelu silu setitem_ zero_ fill_ copy_ glu_like"
    " unseen",
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
    reduced: "mean sum amax amin max min argmax argmin any all _is_all_true var std prod logsumexp",
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
    tensor_split: "tensor_split",
    pixel_shuffle: "pixel_shuffle",
    pixel_unshuffle: "pixel_unshuffle",
    unfold: "unfold",
    meshgrid: "meshgrid",
    one_hot: "one_hot",
    outer: "outer ger",
    matmul: "matmul bmm mm mv __matmul__",
    addmm: "addmm baddbmm",
    linear: "linear",
    solved: "linalg_solve_triangular",
    as_complex: "view_as_complex",
    as_real: "view_as_real",
    affine_grid: "affine_grid_generator affine_grid",
    grid_sampled: "grid_sampler grid_sampler_2d grid_sampler_3d grid_sample",
    moments: "var_mean std_mean",
    columns: "im2col",
    recurrent: "rnn_tanh rnn_relu lstm gru",
    cell: "rnn_tanh_cell rnn_relu_cell lstm_cell gru_cell",
    broadcasting: "ne not_equal eq lt le gt ge greater greater_equal less less_equal where maximum minimum"
    " floor_divide"
    " remainder fmod atan2 clamp clamp_min clamp_max clip neg abs sqrt rsqrt exp log sin cos sigmoid tanh"
    " relu erf square reciprocal sign isnan isinf logical_and logical_or logical_not logical_xor"
    " bitwise_and bitwise_or bitwise_not pow add sub mul div rsub lerp addcmul addcdiv floor ceil round"
    " polar complex real imag conj"
    " trunc __and__ __or__ __invert__ expm1 log1p log2 exp2 nan_to_num",
}

#: Name of an operator without its namespace -> its rule.
RULES: dict[str, Callable[..., Shapes]] = {name: rule for rule, names in _NAMES.items() for name in names.split()}
for _kind in ("avg", "max"):
    RULES.update({f"adaptive_{_kind}_pool{_rank}d": adaptive_of(_rank) for _rank in (1, 2, 3)})
    RULES.update({f"{_kind}_pool{_rank}d": pool_of(_rank, _kind) for _rank in (1, 2, 3)})
RULES.update({f"max_pool{_rank}d_with_indices": pool_of(_rank, "max") for _rank in (1, 2, 3)})
