"""Gradients of functions of single elements and of reductions, written by hand and executed on numbers that count.

Nothing here knows a formula of the package. A derivative is what a textbook writes, from X, Y and the gradient of Y.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.number import (
    Number,
    erf,
    exp,
    function,
    log,
    numbers,
    pointwise,
    select,
    sqrt,
    tanh,
    values,
)
from tests.operators.oracle.reduction import add_up

sine, cosine = function("trig", math.sin), function("trig", math.cos)
sinh, cosh = function("trig", math.sinh), function("trig", math.cosh)


def sum_to(shape: tuple[int, ...], g: Any) -> Any:
    """The gradient of something that was broadcast from a shape: one addition for each element."""
    if g.shape == shape:
        return g
    spread = (1,) * (g.ndim - len(shape)) + shape
    axes = [a for a, (n, m) in enumerate(zip(spread, g.shape, strict=True)) if n != m]
    return add_up(g, axes).reshape(shape) if axes else g.reshape(shape)


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + exp(-x))


def sign(x: Any) -> Any:
    return x.does("cmp", float(np.sign(x.value)))


def between(g: Any, x: Any, low: float, high: float) -> Any:
    return select((x > low) & (x < high), g, 0.0)


def gelu(g: Any, x: Any, y: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        beta, kappa = math.sqrt(2.0 / math.pi), 0.044715
        square = x * x
        t = tanh(beta * (x + kappa * (square * x)))
        left, right = 0.5 * x, 1.0 + t
        inner = beta * (1.0 + 3.0 * kappa * square)
        return g * (0.5 * right + left * (1.0 - t * t) * inner)
    below = 0.5 * (1.0 + erf(math.sqrt(0.5) * x))
    density = 1.0 / math.sqrt(2.0 * math.pi) * exp(-0.5 * (x * x))
    return g * (below + x * density)


def swish(g: Any, x: Any, y: Any, alpha: float = 1.0) -> Any:
    t = alpha * x
    s = sigmoid(t)
    return g * (s * (1.0 + t * (1.0 - s)))


def mish(g: Any, x: Any, y: Any) -> Any:
    t = tanh(log(1.0 + exp(x)))
    return g * (t + x * sigmoid(x) * (1.0 - t * t))


def selu(g: Any, x: Any, y: Any, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875):
    return select(x < 0.0, g * (gamma * alpha * exp(x)), gamma * g)


def hard_swish(g: Any, x: Any, y: Any) -> Any:
    inner = g * (1.0 / 3.0 * x + 0.5)
    return select(x < -3.0, 0.0, select(x > 3.0, g, inner))


def softplus(g: Any, x: Any, y: Any) -> Any:
    e = exp(x)
    return g * e / (e + 1.0)


def softsign(g: Any, x: Any, y: Any) -> Any:
    d = 1.0 + abs(x)
    return g / (d * d)


#: Gradient of a function of one element: G, x, y and the attributes.
ONE: dict[str, Callable[..., Any]] = {
    "Sqrt": lambda g, x, y: g / (2.0 * y),
    "Reciprocal": lambda g, x, y: -g * (y * y),
    "Abs": lambda g, x, y: g * sign(x),
    "Neg": lambda g, x, y: -g,
    "Exp": lambda g, x, y: g * y,
    "Log": lambda g, x, y: g / x,
    "Erf": lambda g, x, y: 2.0 / math.sqrt(math.pi) * exp(-(x * x)) * g,
    "Tanh": lambda g, x, y: g * (1.0 - y * y),
    "Sin": lambda g, x, y: g * cosine(x),
    "Cos": lambda g, x, y: -g * sine(x),
    "Tan": lambda g, x, y: g * (1.0 + y * y),
    "Asin": lambda g, x, y: g / sqrt(1.0 - x * x),
    "Acos": lambda g, x, y: -g / sqrt(1.0 - x * x),
    "Atan": lambda g, x, y: g / (x * x + 1.0),
    "Sinh": lambda g, x, y: g * cosh(x),
    "Cosh": lambda g, x, y: g * sinh(x),
    "Asinh": lambda g, x, y: g / sqrt(x * x + 1.0),
    "Acosh": lambda g, x, y: g / sqrt(x * x - 1.0),
    "Atanh": lambda g, x, y: g / (1.0 - x * x),
    "Relu": lambda g, x, y: select(y > 0.0, g, 0.0),
    "LeakyRelu": lambda g, x, y, alpha=0.01: select(x < 0.0, alpha * g, g),
    "ThresholdedRelu": lambda g, x, y, alpha=1.0: select(x > alpha, g, 0.0),
    "Elu": lambda g, x, y, alpha=1.0: select(x < 0.0, g * (alpha * exp(x)), g),
    "Selu": selu,
    "Celu": lambda g, x, y, alpha=1.0: select(x < 0.0, g * exp(x / alpha), g),
    "Gelu": gelu,
    "Sigmoid": lambda g, x, y: g * (1.0 - y) * y,
    "Swish": swish,
    "Mish": mish,
    "HardSigmoid": lambda g, x, y, alpha=0.2, beta=0.5: between(g * alpha, x, -beta / alpha, (1.0 - beta) / alpha),
    "HardSwish": hard_swish,
    "Softplus": softplus,
    "Softsign": softsign,
    "Shrink": lambda g, x, y, lambd=0.5, bias=0.0: select((x < -lambd) | (x > lambd), g, 0.0),
    "Clip": lambda g, x, y, min, max: between(g, x, min, max),
}


def of_one(scalar: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of the only input, element by element."""
    return lambda g, y, wanted, x, **attrs: {0: pointwise(lambda *v: scalar(*v, **attrs), g, x, y)}


def of_two(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
    """The gradients of two broadcast inputs."""

    def gradient(g: Any, y: Any, wanted: Any, a: Any, b: Any) -> dict[int, Any]:
        found = {}
        for place, scalar in enumerate((first, second)):
            if place in wanted:
                found[place] = sum_to((a, b)[place].shape, pointwise(scalar, g, a, b, y))
        return found

    return gradient


def power(g: Any, y: Any, wanted: Any, a: Any, b: Any) -> dict[int, Any]:
    found = {}
    if 0 in wanted:
        less = b - 1.0
        found[0] = sum_to(a.shape, pointwise(lambda g, a, b, e: g * (b * a**e), g, a, b, less))
    if 1 in wanted:
        found[1] = sum_to(b.shape, pointwise(lambda g, a, y: g * (y * log(a)), g, a, y))
    return found


def swiglu(g: Any, y: Any, wanted: Any, a: Any, b: Any, alpha: float = 1.0) -> dict[int, Any]:
    t = alpha * a
    s = pointwise(sigmoid, t)
    found = {}
    if 0 in wanted:
        found[0] = g * b * s * (1.0 + t * (1.0 - s))
    if 1 in wanted:
        found[1] = g * a * s
    return found


def several(each: Callable[..., Any]) -> Callable[..., Any]:
    """The gradients of any number of broadcast inputs."""

    def gradient(g: Any, y: Any, wanted: Any, *inputs: Any) -> dict[int, Any]:
        return {i: sum_to(inputs[i].shape, each(g, inputs[i], y)) for i in sorted(wanted)}

    return gradient


def equal_to(g: Any, x: Any, y: Any) -> Any:
    return pointwise(lambda g, x, y: select(x.equals(y), g, 0.0), g, x, y)


def mean(g: Any, y: Any, wanted: Any, *inputs: Any) -> dict[int, Any]:
    share = g / float(len(inputs))
    return {i: sum_to(inputs[i].shape, share) for i in sorted(wanted)}


def prelu(g: Any, y: Any, wanted: Any, x: Any, slope: Any) -> dict[int, Any]:
    found = {}
    if 0 in wanted:
        found[0] = pointwise(lambda g, x, s: select(x < 0.0, s * g, g), g, x, slope)
    if 1 in wanted:
        zero = Number(0.0, x.flat[0].tally)
        found[1] = sum_to(slope.shape, pointwise(lambda g, x: select(x < 0.0, x * g, zero), g, x))
    return found


def reduced(element: Callable[..., Any], result: Callable[..., Any] = lambda g, y: g) -> Callable[..., Any]:
    """The gradient of a reduction that keeps its axes: of each result, then of each element."""

    def gradient(g: Any, y: Any, wanted: Any, x: Any, axes: Any = None) -> dict[int, Any]:
        each = pointwise(result, g, y)
        return {0: pointwise(element, each, x, np.broadcast_to(y, x.shape))}

    return gradient


def mean_of(g: Any, y: Any, wanted: Any, x: Any, axes: Any = None) -> dict[int, Any]:
    share = g / float(x.size // y.size)
    return {0: np.broadcast_to(share, x.shape)}


def running(x: Any) -> Any:
    """Sums from the end of a row."""
    out = np.empty(x.shape, object)
    total: Any = 0.0
    for i in reversed(range(len(x))):
        total = total + x[i]
        out[i] = total
    return out


def _along(x: Any, axis: Any) -> Any:
    return np.apply_along_axis(running, int(axis), x)


GRADIENTS: dict[str, Callable[..., Any]] = {
    **{op: of_one(scalar) for op, scalar in ONE.items()},
    "Add": several(lambda g, x, y: g),
    "Sum": several(lambda g, x, y: g),
    "Sub": of_two(lambda g, a, b, y: g, lambda g, a, b, y: -g),
    "Mul": of_two(lambda g, a, b, y: g * b, lambda g, a, b, y: g * a),
    "Div": of_two(lambda g, a, b, y: g / b, lambda g, a, b, y: -g * ((a / b) / b)),
    "Pow": power,
    "SwiGLU": swiglu,
    "Max": several(equal_to),
    "Min": several(equal_to),
    "Mean": mean,
    "PRelu": prelu,
    "ReduceSum": reduced(lambda g, x, y: g),
    "ReduceMean": mean_of,
    "ReduceMax": reduced(lambda g, x, y: select(x.equals(y), g, 0.0)),
    "ReduceMin": reduced(lambda g, x, y: select(x.equals(y), g, 0.0)),
    "ReduceProd": reduced(lambda g, x, y: g / x, lambda g, y: g * y),
    "ReduceL1": reduced(lambda g, x, y: g * sign(x)),
    "ReduceL2": reduced(lambda g, x, y: x * g, lambda g, y: g / y),
    "ReduceSumSquare": reduced(lambda g, x, y: x * g, lambda g, y: 2.0 * g),
    "ReduceLogSumExp": reduced(lambda g, x, y: g * exp(x - y)),
    "ReduceLogSum": lambda g, y, wanted, x, axes=None: {0: np.broadcast_to(g / add_plain(x, axes), x.shape)},
    "CumSum": lambda g, y, wanted, x, axis: {0: _along(g, axis)},
    "CumProd": lambda g, y, wanted, x, axis: {0: _along(g * y, axis) / x},
}


def add_plain(x: Any, axes: Any) -> Any:
    """Sums that the forward pass kept: their additions are not of the backward pass."""
    return numbers(values(x).sum(axis=tuple(axes) if axes else None, keepdims=True), x.flat[0].tally)
