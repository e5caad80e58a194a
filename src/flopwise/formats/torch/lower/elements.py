"""Reductions, scans, searches and sorting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flopwise.formats.torch.lower.node import Lowered, Lowering, Opt, all_tensors, named, tensor, tensors
from flopwise.graph import Tensor


def _over(op: str) -> Lowering:
    return lambda input, *settings, **options: Lowered(op, (input,))


def _along(op: str) -> Lowering:
    return lambda input, dim=None, *settings, **options: Lowered(op, (input,))


def _extreme(op: str, both: str) -> Lowering:
    """A maximum or minimum: over all elements or an axis, or of two tensors."""

    def lowered(input: Tensor, dim: object = None, keepdim: bool = False, **options: object) -> Lowered:
        other = dim if isinstance(dim, Tensor) else options.get("other")
        return Lowered(both, (input, other)) if isinstance(other, Tensor) else Lowered(op, (input,))

    return lowered


def norm(
    input: Tensor,
    ord: object = 2,
    dim: object = None,
    keepdim: bool = False,
    *,
    dtype: object = None,
    **options: object,
) -> Lowered:
    ord = options.get("p", ord)
    if ord in (2, None, "fro"):
        return Lowered("ReduceL2", (input,))
    if ord == 1:
        return Lowered("ReduceL1", (input,))
    if ord in (float("inf"), float("-inf")):
        return Lowered("aten::norm_inf", (input,))
    if ord == 0:
        return Lowered("aten::count_nonzero", (input,))
    return Lowered("aten::norm_p", (input,))


def matrix_norm(
    input: Tensor, ord: object = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: object = None
) -> Lowered:
    """The greatest or least sum of a column or a row; for 2 and nuc from singular values, which have no count."""
    if ord in (1, -1, float("inf"), float("-inf")):
        return Lowered("aten::linalg_matrix_norm", (input,), {"summed": dim[0] if abs(ord) == 1 else dim[1]})
    return norm(input) if ord in ("fro", None) else Lowered("aten::linalg_svdvals", (input,))


def any_norm(
    input: Tensor, ord: object = None, dim: Any = None, keepdim: bool = False, *, dtype: object = None
) -> Lowered:
    """The norm of a matrix where two axes are named, or one was given and is a matrix norm; else of vectors."""
    if ord is not None and len(input.dims if dim is None else [dim] if isinstance(dim, int) else dim) == 2:
        return matrix_norm(input, ord, dim or (-2, -1))
    return norm(input, ord, dim)


def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: object = None, append: object = None) -> Lowered:
    """The differences of an order; there are none beyond the length of a line."""
    if n == 1:
        return Lowered("Sub", (input,))
    lengths = [t.dims[dim] for t in tensors(input, prepend, append)]
    order = min(n, sum(lengths)) if all(isinstance(d, int) for d in lengths) else n
    return Lowered("aten::diff", (input,), {"n": order, "dim": dim})


def embedding_bag(
    weight: Tensor,
    input: Tensor,
    offsets: Opt = None,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Opt = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Lowered:
    attrs = {"mode": ("sum", "mean", "max")[mode]}
    return Lowered("aten::embedding_bag", (weight, input, per_sample_weights), attrs)


def _sort(input: Tensor, dim: object = -1, *settings: object, **options: object) -> Lowered:
    return Lowered("TopK", (input,), {"axis": dim if isinstance(dim, int) else -1})


def _unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: object = None
) -> Lowered:
    return Lowered("aten::unique", (input,), {"counts": int(return_counts)})


#: ATen -> ONNX, for what takes one tensor and whose settings change no count.
_REDUCED = """
    aten: nansum nanmean aminmax all any var var_mean std std_mean logsumexp special_logsumexp count_nonzero trace
        median
    ReduceSum: sum sum_to_size   ReduceMean: mean   ReduceProd: prod   ReduceMax: amax   ReduceMin: amin
    ArgMax: argmax   ArgMin: argmin   aten::all: _is_all_true   aten::median: nanmedian kthvalue
    NonZero: nonzero argwhere nonzero_static   ReduceL2: norm_except_dim
"""

#: Likewise along one axis.
_SCANS = """
    aten: logcumsumexp cummax
    CumSum: cumsum   CumProd: cumprod   aten::cummax: cummin
"""

REDUCTION: dict[str, Lowering] = {
    **named(_REDUCED, _over),
    **named(_SCANS, _along),
    "max": _extreme("ReduceMax", "Max"),
    "min": _extreme("ReduceMin", "Min"),
    "norm": norm,
    "linalg_norm": any_norm,
    "linalg_matrix_norm": matrix_norm,
    "dist": lambda input, other, p=2: Lowered("aten::dist", (input, other), {"p": float(p)}),
    "mode": lambda input, *settings, **options: Lowered("aten::median", (input,), {"runs": 1}),
    "quantile": lambda input, q, *settings, **options: Lowered("aten::quantile", tensors(input, q)),
    "topk": lambda input, k, dim=-1, largest=True, sorted=True: Lowered("TopK", (input,), {"axis": dim}),
    "sort": _sort,
    "msort": lambda input: _sort(input, 0),
    "unique": _unique,
    "unique_dim": lambda input, dim, *settings, **options: _unique(input, *settings, **options),
    "unique_consecutive": lambda input, return_inverse=False, return_counts=False, dim=None: Lowered(
        "aten::unique_consecutive", (input,), {"inverse": int(return_inverse), "counts": int(return_counts)}
    ),
    "searchsorted": lambda sorted_sequence, values, *settings, **options: Lowered(
        "aten::searchsorted", tensors(values, sorted_sequence)
    ),
    "bucketize": lambda input, boundaries, *settings, **options: Lowered(
        "aten::searchsorted", tensors(input, boundaries)
    ),
    "bincount": lambda input, weights=None, minlength=0: Lowered("aten::bincount", tensors(input, weights)),
    "histc": lambda input, bins=100, min=0, max=0: Lowered("aten::histc", (input,), {"bounded": int(min != max)}),
    "diff": diff,
    "embedding_bag": embedding_bag,
    "multinomial": lambda input, num_samples, replacement=False, **options: Lowered(
        "aten::multinomial", (input,), {"replacement": int(replacement)}
    ),
}
REDUCTION |= named(
    """
    norm: linalg_vector_norm frobenius_norm native_norm   quantile: nanquantile   sort: argsort   unique: _unique2
    embedding_bag: _embedding_bag
    """,
    REDUCTION.__getitem__,
)

# Pointwise operators: one tensor of results, each element from the elements at its place.


def _plain(op: str) -> Lowering:
    """An operator of one or more tensors whose other arguments change no count."""

    def lowered(input: object = None, other: object = None, *settings: object, **options: object) -> Lowered:
        if isinstance(input, Tensor) and other is None and not settings and not options:
            return Lowered(op, (input,))
        return Lowered(op, tensors(input, other, *settings, *options.values()))

    return lowered


def _sum(op: str) -> Lowering:
    def lowered(input: object, other: object, *, alpha: object = 1) -> Lowered:
        if alpha != 1:
            return Lowered("aten::add_scaled", tensors(input, other))
        return Lowered(op, tensors(input, other))

    return lowered


def clamp(input: Tensor, min: object = None, max: object = None) -> Lowered:
    bounds = {name: 1 for name, value in (("min", min), ("max", max)) if value is not None and tensor(value) is None}
    return Lowered("Clip", (input, tensor(min), tensor(max)), bounds)


#: A constant exponent -> the operator of its power.
_POWERS = {2: "aten::square", 3: "aten::cube", 0.5: "Sqrt", -0.5: "aten::rsqrt", -1: "Reciprocal", 1: "Identity"}


def pow(input: object, exponent: object) -> Lowered:
    """A constant exponent of 2 or 3 is products, of 1/2 a root, of -1 a reciprocal; else a power."""
    if not isinstance(exponent, Tensor) and exponent in _POWERS:
        return Lowered(_POWERS[exponent], tensors(input))
    return Lowered("Pow", tensors(input, exponent))


def _scaled(op: str) -> Lowering:
    """A product or quotient of two tensors that is added to a third, scaled or not."""
    return lambda input, tensor1, tensor2, *, value=1: Lowered(
        op, (input, tensor1, tensor2), {"scaled": int(value != 1)}
    )


def _dropout(op: str, channels: int = 0) -> Lowering:
    """A dropout of elements, or of whole channels."""

    def lowered(input: Tensor, p: float = 0.5, train: bool | None = True, **options: object) -> Lowered:
        if not options.get("training", train) or p <= 0:
            return Lowered("Dropout", (input,))
        return Lowered(op, (input,), {"channels": 1} if channels else {})

    return lowered


#: ATen -> ONNX, where an element costs the same in both.
_SAME = """
    Own: mul neg abs sign floor ceil sqrt reciprocal exp log erf special_erf sin cos tan asin acos atan sinh cosh asinh
        acosh atanh tanh sigmoid relu selu celu mish softsign greater less bernoulli
    aten: remainder trunc frac rsqrt square exp2 expm1 log2 log10 log1p erfc erfinv special_expm1 special_log1p
        special_exp2 atan2 sinc hypot log_sigmoid silu hardtanh hardshrink ne isclose isin signbit copysign heaviside
        nextafter gcd lcm xlogy special_xlogy special_xlog1py logaddexp lgamma digamma polygamma mvlgamma i0 special_i0
        special_i0e special_i1 special_i1e special_ndtr special_ndtri special_entr special_erfcx igamma igammac
        special_digamma special_erfc special_erfinv special_sinc ldexp frexp nan_to_num angle polar glu resolve_conj
        dequantize
    BitShift: bitwise_left_shift bitwise_right_shift __lshift__ __rshift__ __rlshift__ __rrshift__ __ilshift__
        __irshift__
    aten::fake_quantize: fake_quantize_per_tensor_affine fake_quantize_per_channel_affine
    aten::quantize: quantize_per_tensor quantize_per_channel
    aten::quantize_dynamic: quantize_per_tensor_dynamic
    Mul: multiply   Div: true_divide   Mod: fmod   aten::div_rounded: floor_divide   Max: maximum fmax
    Min: minimum fmin   Neg: negative conj_physical   Abs: absolute   Sign: sgn   aten::trunc: fix   Asin: arcsin
    Acos: arccos   Atan: arctan   Asinh: arcsinh   Acosh: arccosh   Atanh: arctanh   aten::atan2: arctan2
    aten::scaled: deg2rad rad2deg   Sigmoid: special_expit   ThresholdedRelu: threshold   LeakyRelu: leaky_relu rrelu
    PRelu: prelu _prelu_kernel   HardSigmoid: hardsigmoid   HardSwish: hardswish   aten::hardtanh: relu6
    Shrink: softshrink   Equal: eq   aten::ne: not_equal   Greater: gt   Less: lt   GreaterOrEqual: ge greater_equal
    LessOrEqual: le less_equal   IsNaN: isnan   IsInf: isinf isfinite isposinf isneginf isreal   Not: logical_not
    And: logical_and logical_and_   Or: logical_or   Xor: logical_xor   BitwiseNot: bitwise_not
    BitwiseAnd: bitwise_and __and__   BitwiseOr: bitwise_or __or__   BitwiseXor: bitwise_xor __xor__ __ixor__
    aten::logaddexp: logaddexp2   aten::lgamma: special_gammaln   aten::digamma: special_psi
    aten::igamma: special_gammainc   aten::igammac: special_gammaincc   Pow: float_power   Sub: subtract
"""

POINTWISE: dict[str, Lowering] = {
    **named(_SAME, _plain),
    "add": _sum("Add"),
    "sub": _sum("Sub"),
    "rsub": lambda input, other, alpha=1: _sum("Sub")(input, other, alpha=alpha),
    "logspace": lambda *args, **options: Lowered("aten::linspace", tensors(*args, *options.values()), {"power": 1}),
    "div": lambda input, other, *, rounding_mode=None: Lowered(
        "aten::div_rounded" if rounding_mode else "Div", tensors(input, other)
    ),
    "round": lambda input, *, decimals=0: Lowered("aten::round_scaled" if decimals else "Round", (input,)),
    "clamp": clamp,
    "clamp_min": lambda input, min: clamp(input, min),
    "clamp_max": lambda input, max: clamp(input, None, max),
    "pow": pow,
    "gelu": lambda input, *, approximate="none": Lowered("Gelu", (input,), {"approximate": approximate}),
    "softplus": lambda input, beta=1, threshold=20: Lowered(
        "Softplus" if beta == 1 else "aten::softplus_scaled", (input,)
    ),
    "elu": lambda input, alpha=1, scale=1, input_scale=1: Lowered(
        "Elu" if scale == 1 and input_scale == 1 else "aten::elu_scaled", (input,)
    ),
    "logit": lambda input, eps=None: Lowered("aten::logit", (input,), {"bounded": int(eps is not None)}),
    "dropout": _dropout("aten::dropout"),
    "feature_dropout": _dropout("aten::dropout", channels=1),
    "alpha_dropout": _dropout("aten::alpha_dropout"),
    "feature_alpha_dropout": _dropout("aten::alpha_dropout", channels=1),
    "where": lambda condition, input=None, other=None: Lowered(
        "Where" if input is not None else "NonZero", tensors(condition, input, other)
    ),
    "masked_fill": lambda input, mask, value: Lowered("Where", tensors(mask, input, value)),
    "addcmul": _scaled("aten::addcmul"),
    "addcdiv": _scaled("aten::addcdiv"),
    "lerp": lambda input, end, weight: Lowered("aten::lerp", tensors(input, end, weight)),
}
POINTWISE |= named(
    """
    sub: subtract   div: divide   round: special_round   clamp: clip   logit: special_logit
    dropout: native_dropout _fused_dropout
    """,
    POINTWISE.__getitem__,
)

# Operators that move, select, convert or make data, and those that add while they move.


def _first(op: str) -> Lowering:
    """Only the first tensor flows through, which a program may name as it likes; the others say where."""

    def lowered(input: object = None, *args: object, **kwargs: object) -> Lowered:
        return Lowered(op, tensors(input, *args, *kwargs.values()))

    return lowered


def index_put(input: Tensor, indices: object, values: object, accumulate: bool = False, **options: object) -> Lowered:
    places = next(iter(tensors(indices)), None)
    moved = next(iter(tensors(values)), None)
    return Lowered("ScatterND", (input, places, moved), {"reduction": "add"} if accumulate else {})


#: How ``reduce`` of a scatter is called in PyTorch -> in ONNX.
_REDUCTIONS = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min"}


def _scatter(reduction: str, mean: str = "") -> Lowering:
    """The lowering of a scatter with a reduction; a mean, which ONNX does not have, keeps its own name."""

    def lowered(
        input: Tensor, dim: int, index: Tensor, source: object = None, *settings: object, **options: Any
    ) -> Lowered:
        source = options.get("src", options.get("value", source))
        named = options.get("reduce", next((r for r in settings if isinstance(r, str)), reduction))
        moved = next(iter(tensors(source)), None)
        if mean and named == "mean":
            return Lowered(mean, (input, index, moved), {"include_self": int(options.get("include_self", True))})
        # A plain number is as many updates as there are places.
        return Lowered("ScatterElements", (input, index, moved or index), {"reduction": _REDUCTIONS.get(named, "none")})

    return lowered


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: object = 1) -> Lowered:
    if alpha != 1:
        return Lowered("aten::index_add", (input, index, source))
    return Lowered("ScatterElements", (input, index, source), {"reduction": "add"})


#: ATen -> ONNX; neither computes anything.
_NAMES = """
    Own: reshape flatten squeeze unsqueeze transpose concat split expand tile pad slice range
    aten: im2col linspace random
    Reshape: view _unsafe_view view_as reshape_as unflatten view_copy resize resize_as atleast_1d atleast_2d atleast_3d
        _nested_view_from_buffer _nested_view_from_jagged _nested_get_values
    Transpose: permute t numpy_T mT mH matrix_H adjoint swapaxes swapdims movedim moveaxis channel_shuffle
        native_channel_shuffle rot90
    Concat: cat concatenate stack hstack vstack dstack column_stack row_stack block_diag roll diag_embed pad_sequence
        complex nested_tensor diagflat fft_fftshift fft_ifftshift
    Split: chunk unbind tensor_split split_with_sizes hsplit vsplit dsplit unsafe_chunk unsafe_split
        unsafe_split_with_sizes unsafe_chunk_
    Expand: expand_as broadcast_to meshgrid broadcast_tensors cartesian_prod
    Pad: constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d
        replication_pad3d _pad_circular _pad_enum
    Slice: select narrow getitem diagonal diag unfold as_strided narrow_copy linalg_diagonal slice_inverse
    Gather: index_select embedding combinations _pack_padded_sequence _pad_packed_sequence _nested_tensor_from_mask
    Cast: to type type_as float half double bfloat16 int long short char byte bool _to_copy cfloat cdouble chalf
        _autocast_to_reduced_precision _autocast_to_full_precision
    Identity: view_as_real view_as_complex real imag conj resolve_neg positive alias detach clone contiguous lift_fresh
        lift as_tensor asarray from_numpy copy setitem set data slice_scatter select_scatter diagonal_scatter
        as_strided_scatter to_dense to_mkldnn coalesce values indices _values _indices crow_indices col_indices
        to_padded_tensor int_repr tensor scalar_tensor sparse_coo_tensor sparse_csr_tensor sparse_compressed_tensor
        _nested_get_offsets _nested_get_lengths _nested_get_min_seqlen _nested_get_max_seqlen row_indices ccol_indices
        _to_dense _coalesced
    ConstantOfShape: fill zero fill_diagonal empty_like zeros_like ones_like full_like new_zeros new_ones new_full
        new_empty new_empty_strided new_tensor new zeros ones full empty empty_strided empty_permuted tril_indices
        triu_indices _efficientzerotensor
    Where: masked_scatter sparse_mask _sparse_mask_projection
    aten::random: rand randn randint randperm rand_like randn_like randint_like normal uniform exponential geometric
        cauchy log_normal poisson binomial
    Flatten: ravel   Tile: repeat repeat_interleave   GatherElements: take_along_dim gather
    GatherND: index take _unsafe_index   Compress: masked_select   Trilu: tril triu   DepthToSpace: pixel_shuffle
    SpaceToDepth: pixel_unshuffle   ReverseSequence: flip fliplr flipud   MaxUnpool: max_unpool2d max_unpool3d
    OneHot: one_hot   Shape: _shape_as_tensor   ScatterND: index_copy index_fill put   NonZero: to_sparse
    Squeeze: squeeze_copy   EyeLike: eye   Range: arange   If: higher.cond
"""

MOVEMENT: dict[str, Lowering] = {
    **named(_NAMES, _first),
    **named("Expand: meshgrid broadcast_tensors", all_tensors),
    "index_put": index_put,
    "scatter": _scatter("none"),
    "scatter_add": _scatter("add"),
    "scatter_reduce": _scatter("add", "aten::scatter_reduce"),
    "index_add": index_add,
    "index_reduce": _scatter("add", "aten::index_reduce"),
    "col2im": lambda input, *settings, **options: Lowered("Col2Im", (input,)),
}
MOVEMENT |= named("index_put: _index_put_impl _unsafe_index_put", MOVEMENT.__getitem__)

# Spectra and linear algebra.


def _fourier(several: bool, inverse: bool) -> Lowering:
    """A transform of one axis (input, n, dim, norm) or of several (input, s, dim, norm)."""

    def lowered(input: Tensor, n: object = None, dim: Any = None, norm: str | None = None, s: object = None) -> Lowered:
        n = s if n is None else n
        if dim is None:
            dim = list(range(-len(n), 0)) if isinstance(n, (list, tuple)) else list(range(-len(input.dims), 0))
            dim = dim if several else -1
        return _transform(input, [dim] if isinstance(dim, int) else list(dim), _scales(norm, inverse))

    return lowered


def _plane(inverse: bool) -> Lowering:
    """A transform of two axes."""

    def lowered(input: Tensor, s: object = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Lowered:
        return _transform(input, list(dim), _scales(norm, inverse))

    return lowered


def _scales(norm: str | None, inverse: bool) -> bool:
    """True if a transform divides its result: an inverse does, unless its other half is to do so."""
    return norm == "ortho" or (norm != "forward" if inverse else norm == "forward")


def _transform(input: Tensor, axes: list[int], scaled: bool) -> Lowered:
    return Lowered("aten::fft", (input,), {"axes": axes, "scaled": int(scaled)})


def stft(
    input: Tensor,
    n_fft: int,
    hop_length: object = None,
    win_length: object = None,
    window: object = None,
    *settings: object,
    normalized: bool = False,
    **options: object,
) -> Lowered:
    """The signal comes padded; what follows the window is ``normalized``, by place or by name."""
    normalized = next((flag for flag in settings if isinstance(flag, bool)), normalized)
    attrs = {"n_fft": n_fft, "windowed": int(isinstance(window, Tensor)), "normalized": int(normalized)}
    return Lowered("aten::stft", tensors(input, window), attrs)


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: object = None,
    win_length: object = None,
    window: object = None,
    center: bool = True,
    normalized: bool = False,
    *settings: object,
    **options: object,
) -> Lowered:
    return Lowered("aten::istft", tensors(input, window), {"n_fft": n_fft, "normalized": int(normalized)})


def solve_triangular(
    input: Tensor,
    B: Tensor,  # noqa: N803 - as in PyTorch
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    **options: object,
) -> Lowered:
    return Lowered("aten::linalg_solve_triangular", (input, B), {"unit": int(unitriangular)})


def triangular_solve(
    input: Tensor,
    A: Tensor,  # noqa: N803 - as in PyTorch
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Lowered:
    return Lowered("aten::linalg_solve_triangular", (A, input), {"unit": int(unitriangular)})


#: Linear algebra of which only the sizes count.
_ALGEBRA = """
    Det: det linalg_det _linalg_det
    aten::slogdet: slogdet logdet linalg_slogdet _linalg_slogdet
    aten::linalg_cholesky: cholesky linalg_cholesky linalg_cholesky_ex
    aten::linalg_inv: inverse linalg_inv linalg_inv_ex
    aten::linalg_solve: linalg_solve linalg_solve_ex _linalg_solve_ex
    aten::linalg_lu: linalg_lu linalg_lu_factor linalg_lu_factor_ex
"""

SIGNALS: dict[str, Lowering] = {
    **named(_ALGEBRA, all_tensors),
    "stft": stft,
    "istft": istft,
    "_fft_r2c": lambda input, dim, normalization=0, *settings, **options: _transform(
        input, list(dim), normalization != 0
    ),
    "linalg_solve_triangular": solve_triangular,
    "triangular_solve": triangular_solve,
    "cholesky_solve": lambda input, input2, upper=False: Lowered("aten::cholesky_solve", (input2, input)),
    "matrix_power": lambda input, n: Lowered("aten::matrix_power", (input,), {"n": n}),
    "cov": lambda input, *, correction=1, fweights=None, aweights=None: Lowered(
        "aten::cov", tensors(input, fweights, aweights)
    ),
    "corrcoef": lambda input: Lowered("aten::corrcoef", (input,)),
    "cross": lambda input, other, dim=None: Lowered("aten::cross", (input, other)),
    "linalg_cross": lambda input, other, *, dim=-1: Lowered("aten::cross", (input, other)),
    "cosine_similarity": lambda x1, x2, dim=1, eps=1e-8: Lowered("aten::cosine_similarity", (x1, x2)),
    "pairwise_distance": lambda x1, x2, p=2.0, eps=1e-6, keepdim=False: Lowered(
        "aten::pairwise_distance", (x1, x2), {"p": float(p)}
    ),
    "trapezoid": lambda y, x=None, *, dx=None, dim=-1: Lowered("aten::trapezoid", (y, x), {"dim": dim}),
}
for _name in ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]:
    _inverse = _name.startswith("i")
    SIGNALS[f"fft_{_name}"], SIGNALS[f"fft_{_name}n"] = _fourier(False, _inverse), _fourier(True, _inverse)
    SIGNALS[f"fft_{_name}2"] = _plane(_inverse)
SIGNALS |= named(
    """
    _fft_r2c: _fft_c2r _fft_c2c   matrix_power: linalg_matrix_power   trapezoid: trapz cumulative_trapezoid
    """,
    SIGNALS.__getitem__,
)
