"""Pointwise operators: one scalar function each. Both sides of a selection are computed, as a plain kernel does."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.operators.oracle.number import (
    ceil,
    erf,
    exp,
    floor,
    function,
    invert,
    larger,
    log,
    nearest,
    plain,
    pointwise,
    select,
    sign,
    smaller,
    sqrt,
    tanh,
)


def of_each(scalar: Callable[..., Any]) -> Callable[..., Any]:
    """A scalar function of the inputs, with attributes as keywords, over broadcast arrays."""
    return lambda *arrays, **attrs: pointwise(partial(scalar, **attrs), *arrays)


def clip(x: Any, low: Any = None, high: Any = None, *, min: float | None = None, max: float | None = None) -> Any:
    low, high = (min if low is None else low), (max if high is None else high)
    x = x if low is None else pointwise(larger, low, x)
    return x if high is None else pointwise(smaller, high, x)


def elu(x: Any, alpha: float = 1.0) -> Any:
    return select(x < 0.0, alpha * (exp(x) - 1.0), x)


def selu(x: Any, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Any:
    return select(x < 0.0, gamma * (alpha * exp(x) - alpha), gamma * x)


def celu(x: Any, alpha: float = 1.0) -> Any:
    return alpha * elu(x / alpha)


def gelu(x: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1.0 + tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + exp(-x))


def softplus(x: Any) -> Any:
    return log(1.0 + exp(x))


def hard_sigmoid(x: Any, alpha: float = 0.2, beta: float = 0.5) -> Any:
    return larger(0.0, smaller(1.0, alpha * x + beta))


def shrink(x: Any, lambd: float = 0.5, bias: float = 0.0) -> Any:
    below, above = x + bias, x - bias
    return select(x < -lambd, below, select(x > lambd, above, 0.0))


def shift(x: Any, y: Any, direction: str) -> Any:
    return x << y if direction == "LEFT" else x >> y


SCALARS: dict[str, Callable[..., Any]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: a / b,
    "Mod": lambda a, b, fmod=0: a.does("div", math.fmod(a.value, b.value)) if fmod else a % b,
    "Pow": lambda a, b: a**b,
    "Sqrt": sqrt,
    "Reciprocal": lambda x: 1.0 / x,
    "Abs": abs,
    "Neg": lambda x: -x,
    "Sign": sign,
    "Floor": floor,
    "Ceil": ceil,
    "Round": nearest,
    "Exp": exp,
    "Log": log,
    "Erf": erf,
    "Tanh": tanh,
    **{
        name: function("trig", getattr(math, name.lower()))
        for name in ["Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"]
    },
    "Relu": lambda x: larger(0.0, x),
    "LeakyRelu": lambda x, alpha=0.01: select(x < 0.0, alpha * x, x),
    "PRelu": lambda x, slope: select(x < 0.0, slope * x, x),
    "ThresholdedRelu": lambda x, alpha=1.0: select(x > alpha, x, 0.0),
    "Elu": elu,
    "Selu": selu,
    "Celu": celu,
    "Gelu": gelu,
    "Sigmoid": sigmoid,
    "Swish": lambda x, alpha=1.0: x * sigmoid(alpha * x),
    "SwiGLU": lambda a, b, alpha=1.0: a * sigmoid(alpha * a) * b,
    "Mish": lambda x: x * tanh(softplus(x)),
    "HardSigmoid": hard_sigmoid,
    "HardSwish": lambda x: x * hard_sigmoid(x, alpha=1.0 / 6.0),
    "Softplus": softplus,
    "Softsign": lambda x: x / (1.0 + abs(x)),
    "Shrink": shrink,
    "Equal": lambda a, b: a.equals(b),
    "Greater": lambda a, b: a > b,
    "GreaterOrEqual": lambda a, b: a >= b,
    "Less": lambda a, b: a < b,
    "LessOrEqual": lambda a, b: a <= b,
    "IsNaN": function("cmp", math.isnan),
    "IsInf": function("cmp", math.isinf),
    "Not": invert,
    "And": lambda a, b: a & b,
    "Or": lambda a, b: a | b,
    "Xor": lambda a, b: a ^ b,
    "BitShift": shift,
    "BitwiseNot": invert,
    "BitwiseAnd": lambda a, b: a & b,
    "BitwiseOr": lambda a, b: a | b,
    "BitwiseXor": lambda a, b: a ^ b,
}

DEFINITIONS: dict[str, Callable[..., Any]] = {
    **{op: of_each(scalar) for op, scalar in SCALARS.items()},
    "Clip": clip,
    "Where": lambda flag, a, b: pointwise(lambda f, x, y: x if plain(f) else y, flag, a, b),
}
