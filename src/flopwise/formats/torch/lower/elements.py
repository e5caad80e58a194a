"""Reductions, scans, searches and sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flopwise.formats.torch.lower.node import Lowered, all_tensors, tensor, tensors
from flopwise.graph import Tensor


def _over(op: str) -> Callable[..., Lowered]:
    return lambda input, *settings, **options: Lowered(op, (input,))


def _along(op: str) -> Callable[..., Lowered]:
    return lambda input, dim=None, *settings, **options: Lowered(op, (input,))


def _extreme(op: str, both: str) -> Callable[..., Lowered]:
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
    offsets: Tensor | None = None,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
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
_REDUCED = {
    "sum": "ReduceSum", "nansum": "aten::nansum", "mean": "ReduceMean", "nanmean": "aten::nanmean",
    "prod": "ReduceProd", "amax": "ReduceMax", "amin": "ReduceMin", "aminmax": "aten::aminmax", "argmax": "ArgMax",
    "argmin": "ArgMin", "all": "aten::all", "_is_all_true": "aten::all", "any": "aten::any", "var": "aten::var",
    "var_mean": "aten::var_mean", "std": "aten::std", "std_mean": "aten::std_mean", "logsumexp": "aten::logsumexp",
    "special_logsumexp": "aten::logsumexp", "count_nonzero": "aten::count_nonzero", "trace": "aten::trace",
    "median": "aten::median", "nanmedian": "aten::median", "kthvalue": "aten::median", "nonzero": "NonZero",
    "argwhere": "NonZero", "sum_to_size": "ReduceSum", "norm_except_dim": "ReduceL2", "nonzero_static": "NonZero",
}  # fmt: skip

#: Likewise along one axis.
_SCANS = {
    "logcumsumexp": "aten::logcumsumexp", "cumsum": "CumSum", "cumprod": "CumProd", "cummax": "aten::cummax",
    "cummin": "aten::cummax",
}  # fmt: skip

REDUCTION: dict[str, Callable[..., Lowered]] = {
    **{name: _over(op) for name, op in _REDUCED.items()},
    **{name: _along(op) for name, op in _SCANS.items()},
    "max": _extreme("ReduceMax", "Max"),
    "min": _extreme("ReduceMin", "Min"),
    **dict.fromkeys(("norm", "linalg_vector_norm", "frobenius_norm", "native_norm"), norm),
    "linalg_norm": any_norm,
    "linalg_matrix_norm": matrix_norm,
    "dist": lambda input, other, p=2: Lowered("aten::dist", (input, other), {"p": float(p)}),
    "mode": lambda input, *settings, **options: Lowered("aten::median", (input,), {"runs": 1}),
    **{
        name: lambda input, q, *settings, **options: Lowered("aten::quantile", tensors(input, q))
        for name in ("quantile", "nanquantile")
    },
    "topk": lambda input, k, dim=-1, largest=True, sorted=True: Lowered("TopK", (input,), {"axis": dim}),
    "sort": _sort,
    "argsort": _sort,
    "msort": lambda input: _sort(input, 0),
    "unique": _unique,
    "_unique2": _unique,
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
    "_embedding_bag": embedding_bag,
    "multinomial": lambda input, num_samples, replacement=False, **options: Lowered(
        "aten::multinomial", (input,), {"replacement": int(replacement)}
    ),
}


# Pointwise operators: one tensor of results, each element from the elements at its place.


def _plain(op: str) -> Callable[..., Lowered]:
    """An operator of one or more tensors whose other arguments change no count."""

    def lowered(input: object = None, other: object = None, *settings: object, **options: object) -> Lowered:
        if isinstance(input, Tensor) and other is None and not settings and not options:
            return Lowered(op, (input,))
        return Lowered(op, tensors(input, other, *settings, *options.values()))

    return lowered


def _sum(op: str) -> Callable[..., Lowered]:
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


def _dropout(op: str, channels: int = 0) -> Callable[..., Lowered]:
    """A dropout of elements, or of whole channels."""

    def lowered(input: Tensor, p: float = 0.5, train: bool | None = True, **options: object) -> Lowered:
        if not options.get("training", train) or p <= 0:
            return Lowered("Dropout", (input,))
        return Lowered(op, (input,), {"channels": 1} if channels else {})

    return lowered


#: ATen -> ONNX, where an element costs the same in both.
_SAME = {
    "mul": "Mul", "multiply": "Mul", "true_divide": "Div", "remainder": "aten::remainder", "fmod": "Mod",
    "floor_divide": "aten::div_rounded", "maximum": "Max", "minimum": "Min", "fmax": "Max", "fmin": "Min",
    "neg": "Neg", "negative": "Neg", "abs": "Abs", "absolute": "Abs", "sign": "Sign", "sgn": "Sign", "floor": "Floor",
    "ceil": "Ceil", "trunc": "aten::trunc", "fix": "aten::trunc", "frac": "aten::frac",
    "sqrt": "Sqrt", "rsqrt": "aten::rsqrt", "square": "aten::square", "reciprocal": "Reciprocal", "exp": "Exp",
    "exp2": "aten::exp2", "expm1": "aten::expm1", "log": "Log", "log2": "aten::log2", "log10": "aten::log10",
    "log1p": "aten::log1p", "erf": "Erf", "erfc": "aten::erfc", "erfinv": "aten::erfinv", "special_erf": "Erf",
    "special_expm1": "aten::expm1", "special_log1p": "aten::log1p", "special_exp2": "aten::exp2", "sin": "Sin",
    "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "arcsin": "Asin", "arccos": "Acos",
    "arctan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh",
    "arcsinh": "Asinh", "arccosh": "Acosh", "arctanh": "Atanh", "atan2": "aten::atan2", "arctan2": "aten::atan2",
    "tanh": "Tanh", "sinc": "aten::sinc", "hypot": "aten::hypot", "deg2rad": "aten::scaled",
    "rad2deg": "aten::scaled", "sigmoid": "Sigmoid", "special_expit": "Sigmoid",
    "log_sigmoid": "aten::log_sigmoid", "relu": "Relu", "threshold": "ThresholdedRelu", "leaky_relu": "LeakyRelu",
    "prelu": "PRelu", "_prelu_kernel": "PRelu", "selu": "Selu", "celu": "Celu", "silu": "aten::silu", "mish": "Mish",
    "hardsigmoid": "HardSigmoid", "hardswish": "HardSwish", "relu6": "aten::hardtanh", "hardtanh": "aten::hardtanh",
    "softsign": "Softsign", "softshrink": "Shrink", "hardshrink": "aten::hardshrink",
    "rrelu": "LeakyRelu", "eq": "Equal", "ne": "aten::ne", "not_equal": "aten::ne",
    "gt": "Greater", "greater": "Greater", "lt": "Less", "less": "Less", "ge": "GreaterOrEqual",
    "greater_equal": "GreaterOrEqual", "le": "LessOrEqual", "less_equal": "LessOrEqual", "isnan": "IsNaN",
    "isinf": "IsInf", "isfinite": "IsInf", "isposinf": "IsInf", "isneginf": "IsInf", "isclose": "aten::isclose",
    "isin": "aten::isin", "signbit": "aten::signbit", "logical_not": "Not", "logical_and": "And", "logical_or": "Or",
    "logical_xor": "Xor", "bitwise_not": "BitwiseNot", "bitwise_and": "BitwiseAnd", "bitwise_or": "BitwiseOr",
    "bitwise_xor": "BitwiseXor", "bitwise_left_shift": "BitShift", "bitwise_right_shift": "BitShift",
    "__lshift__": "BitShift", "__rshift__": "BitShift", "__rlshift__": "BitShift", "__rrshift__": "BitShift",
    "__and__": "BitwiseAnd", "__or__": "BitwiseOr", "copysign": "aten::copysign", "heaviside": "aten::heaviside",
    "nextafter": "aten::nextafter", "gcd": "aten::gcd", "lcm": "aten::lcm", "xlogy": "aten::xlogy",
    "special_xlogy": "aten::xlogy", "special_xlog1py": "aten::xlog1py", "logaddexp": "aten::logaddexp",
    "logaddexp2": "aten::logaddexp", "lgamma": "aten::lgamma", "digamma": "aten::digamma",
    "polygamma": "aten::polygamma", "mvlgamma": "aten::mvlgamma", "i0": "aten::i0", "special_i0": "aten::i0",
    "special_i0e": "aten::i0e", "special_i1": "aten::i1", "special_i1e": "aten::i1e", "special_ndtr": "aten::ndtr",
    "special_ndtri": "aten::ndtri", "special_entr": "aten::entr", "special_erfcx": "aten::erfcx",
    "igamma": "aten::igamma", "igammac": "aten::igammac", "special_gammaln": "aten::lgamma",
    "special_psi": "aten::digamma", "special_digamma": "aten::digamma", "special_gammainc": "aten::igamma",
    "special_gammaincc": "aten::igammac", "special_erfc": "aten::erfc", "special_erfinv": "aten::erfinv",
    "special_sinc": "aten::sinc", "float_power": "Pow",
    "ldexp": "aten::ldexp", "frexp": "aten::frexp", "nan_to_num": "aten::nan_to_num",
    "subtract": "Sub", "angle": "aten::angle", "polar": "aten::polar", "glu": "aten::glu", "conj_physical": "Neg",
    "resolve_conj": "aten::resolve_conj",
    "bernoulli": "Bernoulli", "logical_and_": "And",
    "fake_quantize_per_tensor_affine": "aten::fake_quantize",
    "fake_quantize_per_channel_affine": "aten::fake_quantize", "quantize_per_tensor": "aten::quantize",
    "quantize_per_channel": "aten::quantize", "dequantize": "aten::dequantize",
    "quantize_per_tensor_dynamic": "aten::quantize_dynamic", "isreal": "IsInf", "__xor__": "BitwiseXor",
    "__ilshift__": "BitShift", "__irshift__": "BitShift", "__ixor__": "BitwiseXor",
}  # fmt: skip

POINTWISE: dict[str, Callable[..., Lowered]] = {
    **{name: _plain(op) for name, op in _SAME.items()},
    "add": _sum("Add"),
    "sub": _sum("Sub"),
    "subtract": _sum("Sub"),
    "rsub": lambda input, other, alpha=1: _sum("Sub")(input, other, alpha=alpha),
    "logspace": lambda *args, **options: Lowered("aten::linspace", tensors(*args, *options.values()), {"power": 1}),
    **{
        name: lambda input, other, *, rounding_mode=None: Lowered(
            "aten::div_rounded" if rounding_mode else "Div", tensors(input, other)
        )
        for name in ("div", "divide")
    },
    **{
        name: lambda input, *, decimals=0: Lowered("aten::round_scaled" if decimals else "Round", (input,))
        for name in ("round", "special_round")
    },
    "clamp": clamp,
    "clip": clamp,
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
    **{
        name: lambda input, eps=None: Lowered("aten::logit", (input,), {"bounded": int(eps is not None)})
        for name in ("logit", "special_logit")
    },
    **{name: _dropout("aten::dropout") for name in ("dropout", "native_dropout", "_fused_dropout")},
    "feature_dropout": _dropout("aten::dropout", channels=1),
    "alpha_dropout": _dropout("aten::alpha_dropout"),
    "feature_alpha_dropout": _dropout("aten::alpha_dropout", channels=1),
    "where": lambda condition, input=None, other=None: Lowered(
        "Where" if input is not None else "NonZero", tensors(condition, input, other)
    ),
    "masked_fill": lambda input, mask, value: Lowered("Where", tensors(mask, input, value)),
    "addcmul": lambda input, tensor1, tensor2, *, value=1: Lowered(
        "aten::addcmul", (input, tensor1, tensor2), {"scaled": int(value != 1)}
    ),
    "addcdiv": lambda input, tensor1, tensor2, *, value=1: Lowered(
        "aten::addcdiv", (input, tensor1, tensor2), {"scaled": int(value != 1)}
    ),
    "lerp": lambda input, end, weight: Lowered("aten::lerp", tensors(input, end, weight)),
}


# Operators that move, select, convert or make data, and those that add while they move.


def _first(op: str) -> Callable[..., Lowered]:
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


def _scatter(reduction: str, mean: str = "") -> Callable[..., Lowered]:
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
_NAMES = {
    "view": "Reshape", "reshape": "Reshape", "_unsafe_view": "Reshape", "view_as": "Reshape", "reshape_as": "Reshape",
    "unflatten": "Reshape", "flatten": "Flatten", "ravel": "Flatten", "squeeze": "Squeeze", "unsqueeze": "Unsqueeze",
    "transpose": "Transpose", "permute": "Transpose", "t": "Transpose", "numpy_T": "Transpose", "mT": "Transpose",
    "mH": "Transpose", "matrix_H": "Transpose", "adjoint": "Transpose", "swapaxes": "Transpose",
    "swapdims": "Transpose", "movedim": "Transpose", "moveaxis": "Transpose", "cat": "Concat", "concat": "Concat",
    "concatenate": "Concat", "stack": "Concat", "hstack": "Concat", "vstack": "Concat", "dstack": "Concat",
    "column_stack": "Concat", "row_stack": "Concat", "block_diag": "Concat", "split": "Split", "chunk": "Split",
    "unbind": "Split", "tensor_split": "Split", "split_with_sizes": "Split", "hsplit": "Split", "vsplit": "Split",
    "dsplit": "Split", "unsafe_chunk": "Split", "unsafe_split": "Split", "unsafe_split_with_sizes": "Split",
    "expand": "Expand", "expand_as": "Expand", "broadcast_to": "Expand", "repeat": "Tile", "tile": "Tile",
    "repeat_interleave": "Tile", "meshgrid": "Expand", "broadcast_tensors": "Expand", "pad": "Pad",
    "constant_pad_nd": "Pad", "reflection_pad1d": "Pad", "reflection_pad2d": "Pad", "reflection_pad3d": "Pad",
    "replication_pad1d": "Pad", "replication_pad2d": "Pad", "replication_pad3d": "Pad", "_pad_circular": "Pad",
    "_pad_enum": "Pad", "slice": "Slice", "select": "Slice", "narrow": "Slice", "getitem": "Slice",
    "diagonal": "Slice", "diag": "Slice", "unfold": "Slice", "as_strided": "Slice",
    "take_along_dim": "GatherElements", "gather": "GatherElements", "index": "GatherND", "take": "GatherND",
    "index_select": "Gather", "embedding": "Gather", "masked_select": "Compress", "_unsafe_index": "GatherND",
    "tril": "Trilu", "triu": "Trilu", "pixel_shuffle": "DepthToSpace", "pixel_unshuffle": "SpaceToDepth",
    "channel_shuffle": "Transpose", "native_channel_shuffle": "Transpose", "flip": "ReverseSequence",
    "fliplr": "ReverseSequence", "flipud": "ReverseSequence", "roll": "Concat", "rot90": "Transpose",
    "im2col": "aten::im2col", "max_unpool2d": "MaxUnpool", "max_unpool3d": "MaxUnpool", "one_hot": "OneHot",
    "combinations": "Gather", "cartesian_prod": "Expand", "diag_embed": "Concat", "to": "Cast", "type": "Cast",
    "type_as": "Cast", "float": "Cast", "half": "Cast", "double": "Cast", "bfloat16": "Cast", "int": "Cast",
    "long": "Cast", "short": "Cast", "char": "Cast", "byte": "Cast", "bool": "Cast", "_to_copy": "Cast",
    "cfloat": "Cast", "cdouble": "Cast", "chalf": "Cast", "_autocast_to_reduced_precision": "Cast",
    "_autocast_to_full_precision": "Cast", "view_as_real": "Identity", "view_as_complex": "Identity",
    "real": "Identity", "imag": "Identity", "conj": "Identity", "resolve_neg": "Identity", "positive": "Identity",
    "alias": "Identity", "detach": "Identity", "clone": "Identity", "contiguous": "Identity",
    "lift_fresh": "Identity", "lift": "Identity", "_shape_as_tensor": "Shape", "as_tensor": "Identity",
    "asarray": "Identity", "from_numpy": "Identity", "copy": "Identity", "fill": "ConstantOfShape",
    "zero": "ConstantOfShape", "setitem": "Identity", "set": "Identity", "data": "Identity", "unsafe_chunk_": "Split",
    "narrow_copy": "Slice", "view_copy": "Reshape", "slice_scatter": "Identity", "select_scatter": "Identity",
    "diagonal_scatter": "Identity", "as_strided_scatter": "Identity", "masked_scatter": "Where",
    "index_copy": "ScatterND", "index_fill": "ScatterND", "fill_diagonal": "ConstantOfShape", "put": "ScatterND",
    "to_sparse": "NonZero", "to_dense": "Identity", "to_mkldnn": "Identity", "coalesce": "Identity",
    "values": "Identity", "indices": "Identity", "_values": "Identity", "_indices": "Identity",
    "crow_indices": "Identity", "col_indices": "Identity", "to_padded_tensor": "Identity", "resize": "Reshape",
    "resize_as": "Reshape", "_pack_padded_sequence": "Gather", "_pad_packed_sequence": "Gather",
    "pad_sequence": "Concat",
    "atleast_1d": "Reshape", "atleast_2d": "Reshape", "atleast_3d": "Reshape", "squeeze_copy": "Squeeze",
    "int_repr": "Identity", "empty_like": "ConstantOfShape", "zeros_like": "ConstantOfShape",
    "ones_like": "ConstantOfShape", "full_like": "ConstantOfShape", "new_zeros": "ConstantOfShape",
    "new_ones": "ConstantOfShape", "new_full": "ConstantOfShape", "new_empty": "ConstantOfShape",
    "new_empty_strided": "ConstantOfShape", "new_tensor": "ConstantOfShape", "new": "ConstantOfShape",
    "zeros": "ConstantOfShape", "ones": "ConstantOfShape", "full": "ConstantOfShape", "empty": "ConstantOfShape",
    "empty_strided": "ConstantOfShape", "empty_permuted": "ConstantOfShape", "eye": "EyeLike", "tensor": "Identity",
    "scalar_tensor": "Identity", "tril_indices": "ConstantOfShape", "triu_indices": "ConstantOfShape",
    "arange": "Range", "range": "Range", "linspace": "aten::linspace",
    "rand": "aten::random", "randn": "aten::random", "randint": "aten::random", "randperm": "aten::random",
    "rand_like": "aten::random", "randn_like": "aten::random", "randint_like": "aten::random",
    "normal": "aten::random", "uniform": "aten::random", "random": "aten::random", "exponential": "aten::random",
    "geometric": "aten::random", "cauchy": "aten::random", "log_normal": "aten::random", "poisson": "aten::random",
    "binomial": "aten::random", "complex": "Concat", "sparse_coo_tensor": "Identity", "sparse_csr_tensor": "Identity",
    "sparse_compressed_tensor": "Identity",
    "nested_tensor": "Concat", "_nested_tensor_from_mask": "Gather", "_nested_view_from_buffer": "Reshape",
    "_nested_view_from_jagged": "Reshape", "_nested_get_values": "Reshape", "_nested_get_offsets": "Identity",
    "_nested_get_lengths": "Identity", "_nested_get_min_seqlen": "Identity", "_nested_get_max_seqlen": "Identity",
    "_efficientzerotensor": "ConstantOfShape",
    "diagflat": "Concat", "fft_fftshift": "Concat", "fft_ifftshift": "Concat", "linalg_diagonal": "Slice",
    "slice_inverse": "Slice", "row_indices": "Identity", "ccol_indices": "Identity", "_to_dense": "Identity",
    "_coalesced": "Identity", "sparse_mask": "Where", "_sparse_mask_projection": "Where",
    "higher.cond": "If",
}  # fmt: skip

MOVEMENT: dict[str, Callable[..., Lowered]] = {
    **{name: _first(op) for name, op in _NAMES.items()},
    **{name: all_tensors("Expand") for name in ("meshgrid", "broadcast_tensors")},
    **dict.fromkeys(("index_put", "_index_put_impl", "_unsafe_index_put"), index_put),
    "scatter": _scatter("none"),
    "scatter_add": _scatter("add"),
    "scatter_reduce": _scatter("add", "aten::scatter_reduce"),
    "index_add": index_add,
    "index_reduce": _scatter("add", "aten::index_reduce"),
    "col2im": lambda input, *settings, **options: Lowered("Col2Im", (input,)),
}


# Spectra and linear algebra.


def _fourier(several: bool, inverse: bool) -> Callable[..., Lowered]:
    """A transform of one axis (input, n, dim, norm) or of several (input, s, dim, norm)."""

    def lowered(input: Tensor, n: object = None, dim: Any = None, norm: str | None = None, s: object = None) -> Lowered:
        n = s if n is None else n
        if dim is None:
            dim = list(range(-len(n), 0)) if isinstance(n, (list, tuple)) else list(range(-len(input.dims), 0))
            dim = dim if several else -1
        return _transform(input, [dim] if isinstance(dim, int) else list(dim), _scales(norm, inverse))

    return lowered


def _plane(inverse: bool) -> Callable[..., Lowered]:
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


_TRANSFORMS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")

SIGNALS: dict[str, Callable[..., Lowered]] = {
    **{f"fft_{name}": _fourier(False, name.startswith("i")) for name in _TRANSFORMS},
    **{f"fft_{name}n": _fourier(True, name.startswith("i")) for name in _TRANSFORMS},
    **{f"fft_{name}2": _plane(name.startswith("i")) for name in _TRANSFORMS},
    **{
        f"_fft_{name}": lambda input, dim, normalization=0, *settings, **options: _transform(
            input, list(dim), normalization != 0
        )
        for name in ("r2c", "c2r", "c2c")
    },
    "stft": stft,
    "istft": istft,
    **{name: all_tensors("aten::linalg_cholesky") for name in ("cholesky", "linalg_cholesky", "linalg_cholesky_ex")},
    **{name: all_tensors("aten::linalg_inv") for name in ("inverse", "linalg_inv", "linalg_inv_ex")},
    **{name: all_tensors("aten::linalg_solve") for name in ("linalg_solve", "linalg_solve_ex", "_linalg_solve_ex")},
    **{name: all_tensors("Det") for name in ("det", "linalg_det", "_linalg_det")},
    **{name: all_tensors("aten::slogdet") for name in ("slogdet", "logdet", "linalg_slogdet", "_linalg_slogdet")},
    **{name: all_tensors("aten::linalg_lu") for name in ("linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex")},
    "linalg_solve_triangular": solve_triangular,
    "triangular_solve": triangular_solve,
    "cholesky_solve": lambda input, input2, upper=False: Lowered("aten::cholesky_solve", (input2, input)),
    **{
        name: lambda input, n: Lowered("aten::matrix_power", (input,), {"n": n})
        for name in ("matrix_power", "linalg_matrix_power")
    },
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
    **{
        name: lambda y, x=None, *, dx=None, dim=-1: Lowered("aten::trapezoid", (y, x), {"dim": dim})
        for name in ("trapezoid", "trapz", "cumulative_trapezoid")
    },
}
