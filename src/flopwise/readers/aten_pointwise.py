"""Pointwise operators: one tensor of results, each element from the elements at its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flopwise.graph import Tensor
from flopwise.readers.aten_node import Lowered, tensor, tensors


def _plain(op: str) -> Callable[..., Lowered]:
    """An operator of one or more tensors whose other arguments change no count."""

    def lowered(input: Any, other: Any = None, *rest: Any, **more: Any) -> Lowered:
        if isinstance(input, Tensor) and other is None and not rest and not more:
            return Lowered(op, (input,))
        return Lowered(op, tensors(input, other, *rest, *more.values()))

    return lowered


def _sum(op: str) -> Callable[..., Lowered]:
    def lowered(input: Any, other: Any, *, alpha: Any = 1) -> Lowered:
        if alpha != 1:
            return Lowered("aten::add_scaled", tensors(input, other))
        return Lowered(op, tensors(input, other))

    return lowered


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Lowered:
    return Lowered("aten::div_rounded" if rounding_mode else "Div", tensors(input, other))


def clamp(input: Tensor, min: Any = None, max: Any = None) -> Lowered:
    bounds = {name: 1 for name, value in (("min", min), ("max", max)) if value is not None and tensor(value) is None}
    return Lowered("Clip", (input, tensor(min), tensor(max)), bounds)


def pow(input: Any, exponent: Any) -> Lowered:
    """A constant exponent of 2 or 3 is products, of 1/2 a root, of -1 a reciprocal; else a power."""
    if not isinstance(exponent, Tensor):
        known = {2: "aten::square", 3: "aten::cube", 0.5: "Sqrt", -0.5: "aten::rsqrt", -1: "Reciprocal", 1: "Identity"}
        if exponent in known:
            return Lowered(known[exponent], tensors(input))
    return Lowered("Pow", tensors(input, exponent))


def gelu(input: Tensor, *, approximate: str = "none") -> Lowered:
    return Lowered("Gelu", (input,), {"approximate": approximate})


def dropout(input: Tensor, p: float = 0.5, train: bool | None = True, **more: Any) -> Lowered:
    train = more.get("training", train)
    return Lowered("aten::dropout" if train and p > 0 else "Dropout", (input,))


def where(condition: Tensor, input: Any = None, other: Any = None) -> Lowered:
    return Lowered("Where" if input is not None else "NonZero", tensors(condition, input, other))


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Lowered:
    return Lowered("Where", tensors(mask, input, value))


def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Lowered:
    return Lowered("aten::addcmul", (input, tensor1, tensor2), {"scaled": int(value != 1)})


def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Lowered:
    return Lowered("aten::addcdiv", (input, tensor1, tensor2), {"scaled": int(value != 1)})


def lerp(input: Tensor, end: Tensor, weight: Any) -> Lowered:
    return Lowered("aten::lerp", tensors(input, end, weight))


def softplus(input: Tensor, beta: Any = 1, threshold: Any = 20) -> Lowered:
    return Lowered("Softplus" if beta == 1 else "aten::softplus_scaled", (input,))


def elu(input: Tensor, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Lowered:
    return Lowered("Elu" if scale == 1 and input_scale == 1 else "aten::elu_scaled", (input,))


def loss(op: str) -> Callable[..., Lowered]:
    """A loss: input, target and maybe a weight; `reduction` may be a number (0 none, 1 mean, 2 sum)."""

    def lowered(input: Tensor, target: Tensor, *rest: Any, **more: Any) -> Lowered:
        reduction: Any = more.get("reduction", next((r for r in rest if type(r) is int), 1))
        name = {0: "none", 1: "mean", 2: "sum"}.get(reduction, reduction)
        given = [tensor(v) for v in (*rest, *(v for k, v in more.items() if k != "reduction"))]
        return Lowered(op, (input, target, *[g for g in given if g is not None]), {"reduction": name})

    return lowered


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Lowered:
    name = {0: "none", 1: "mean", 2: "sum"}[reduction]
    if target.dtype in ("int64", "int32", "uint8") and not label_smoothing:
        # The loss skips labels that say so, which an attribute of ONNX's operator tells.
        return Lowered("SoftmaxCrossEntropyLoss", (input, target, weight), {"reduction": name})
    return Lowered(
        "aten::cross_entropy_dense",
        (input, target, weight),
        {"reduction": name, "smoothed": int(bool(label_smoothing))},
    )


def nll(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1, ignore_index: int = -100
) -> Lowered:
    name = {0: "none", 1: "mean", 2: "sum"}[reduction]
    return Lowered("NegativeLogLikelihoodLoss", (input, target, weight), {"reduction": name})


#: ATen -> ONNX, where an element costs the same in both.
_SAME = {
    "mul": "Mul", "multiply": "Mul", "true_divide": "Div", "remainder": "aten::remainder", "fmod": "Mod",
    "floor_divide": "aten::div_rounded", "maximum": "Max", "minimum": "Min", "fmax": "Max", "fmin": "Min",
    "neg": "Neg", "negative": "Neg", "abs": "Abs", "absolute": "Abs", "sign": "Sign", "sgn": "Sign", "floor": "Floor",
    "ceil": "Ceil", "round": "Round", "trunc": "aten::trunc", "fix": "aten::trunc", "frac": "aten::frac",
    "sqrt": "Sqrt", "rsqrt": "aten::rsqrt", "square": "aten::square", "reciprocal": "Reciprocal", "exp": "Exp",
    "exp2": "aten::exp2", "expm1": "aten::expm1", "log": "Log", "log2": "aten::log2", "log10": "aten::log10",
    "log1p": "aten::log1p", "erf": "Erf", "erfc": "aten::erfc", "erfinv": "aten::erfinv", "special_erf": "Erf",
    "special_expm1": "aten::expm1", "special_log1p": "aten::log1p", "special_exp2": "aten::exp2", "sin": "Sin",
    "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "arcsin": "Asin", "arccos": "Acos",
    "arctan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh",
    "arcsinh": "Asinh", "arccosh": "Acosh", "arctanh": "Atanh", "atan2": "aten::atan2", "arctan2": "aten::atan2",
    "tanh": "Tanh", "sinc": "aten::sinc", "hypot": "aten::hypot", "deg2rad": "aten::scaled",
    "rad2deg": "aten::scaled", "sigmoid": "Sigmoid", "special_expit": "Sigmoid", "logit": "aten::logit",
    "log_sigmoid": "aten::log_sigmoid", "relu": "Relu", "threshold": "ThresholdedRelu", "leaky_relu": "LeakyRelu",
    "prelu": "PRelu", "_prelu_kernel": "PRelu", "selu": "Selu", "celu": "Celu", "silu": "aten::silu", "mish": "Mish",
    "hardsigmoid": "HardSigmoid", "hardswish": "HardSwish", "relu6": "aten::hardtanh", "hardtanh": "aten::hardtanh",
    "softsign": "Softsign", "softshrink": "Shrink", "hardshrink": "aten::hardshrink",
    "tanhshrink": "aten::tanhshrink", "rrelu": "LeakyRelu", "eq": "Equal", "ne": "aten::ne", "not_equal": "aten::ne",
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
    "special_logit": "aten::logit", "special_round": "Round", "special_sinc": "aten::sinc", "float_power": "Pow",
    "ldexp": "aten::ldexp", "frexp": "aten::frexp", "nan_to_num": "aten::nan_to_num", "rsub": "Sub",
    "subtract": "Sub", "angle": "aten::angle", "polar": "aten::polar", "glu": "aten::glu", "conj_physical": "Neg",
    "resolve_conj": "aten::resolve_conj", "alpha_dropout": "aten::alpha_dropout", "native_dropout": "aten::dropout",
    "bernoulli": "Bernoulli", "logical_and_": "And", "_fused_dropout": "aten::dropout",
    "fake_quantize_per_tensor_affine": "aten::fake_quantize",
    "fake_quantize_per_channel_affine": "aten::fake_quantize", "quantize_per_tensor": "aten::quantize",
    "quantize_per_channel": "aten::quantize", "dequantize": "aten::dequantize",
    "quantize_per_tensor_dynamic": "aten::quantize_dynamic",
}  # fmt: skip

_LOSSES = [
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "kl_div",
    "soft_margin_loss",
    "poisson_nll_loss",
    "hinge_embedding_loss",
    "multilabel_margin_loss",
    "multi_margin_loss",
]

LOWERINGS: dict[str, Callable[..., Lowered]] = {
    **{name: _plain(op) for name, op in _SAME.items()},
    **{name: loss(f"aten::{name}") for name in _LOSSES},
    "isreal": _plain("IsInf"),
    "__xor__": _plain("BitwiseXor"),
    "__ilshift__": _plain("BitShift"),
    "__irshift__": _plain("BitShift"),
    "__ixor__": _plain("BitwiseXor"),
    "add": _sum("Add"),
    "sub": _sum("Sub"),
    "subtract": _sum("Sub"),
    "div": div,
    "divide": div,
    "clamp": clamp,
    "clip": clamp,
    "clamp_min": lambda input, min: clamp(input, min),
    "clamp_max": lambda input, max: clamp(input, None, max),
    "pow": pow,
    "gelu": gelu,
    "softplus": softplus,
    "elu": elu,
    "dropout": dropout,
    "feature_dropout": dropout,
    "feature_alpha_dropout": dropout,
    "where": where,
    "masked_fill": masked_fill,
    "addcmul": addcmul,
    "addcdiv": addcdiv,
    "lerp": lerp,
    "cross_entropy_loss": cross_entropy,
    "nll_loss": nll,
    "nll_loss_nd": nll,
    "nll_loss2d": nll,
    "cosine_embedding_loss": lambda input1, input2, target, *rest, **more: Lowered(
        "aten::cosine_embedding_loss", (input1, input2, target)
    ),
    "margin_ranking_loss": lambda input1, input2, target, *rest, **more: Lowered(
        "aten::margin_ranking_loss", (input1, input2, target)
    ),
    "triplet_margin_loss": lambda anchor, positive, negative, *rest, **more: Lowered(
        "aten::triplet_margin_loss", (anchor, positive, negative)
    ),
}
