"""Pointwise operators: one tensor of results, each element from the elements at its place."""

from __future__ import annotations

from collections.abc import Callable

from flopwise.graph import Tensor
from flopwise.readers.torch.lower.node import Lowered, tensor, tensors


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

LOWERINGS: dict[str, Callable[..., Lowered]] = {
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
