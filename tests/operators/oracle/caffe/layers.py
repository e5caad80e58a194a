"""Caffe's own layers as plain loops over counting numbers, after the formulas in Caffe's documentation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.linear import padded
from tests.operators.oracle.number import Number, exp, larger, log, pointwise, sqrt
from tests.operators.oracle.pooling import average, highest
from tests.operators.oracle.reduction import add_up, mean

EPSILON = 1e-5


def per_channel(v: Any, x: Any) -> Any:
    """One value per channel, shaped to spread over X."""
    return v.reshape(1, -1, *[1] * (x.ndim - 2))


def sigmoid(v: Number) -> Any:
    return 1.0 / (1.0 + exp(-v))


def line(x: Any, factor: float, offset: float) -> Any:
    """offset + factor × x without what changes nothing."""
    if factor != 1:
        x = x * factor
    return x + offset if offset else x


def power(x: Any, *, power: float = 1.0, scale: float = 1.0, shift: float = 0.0) -> Any:
    if power == 0 or scale == 0:
        return np.full(x.shape, shift**power if power else 1.0)
    y = line(x, scale, shift)
    return y if power == 1 else pointwise(lambda v: v**power, y)


def exponential(x: Any, *, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> Any:
    of = exp if base == -1 else (lambda v: v.does("pow", base**v.value))
    return pointwise(of, line(x, scale, shift))


def logarithm(x: Any, *, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> Any:
    y = pointwise(log, line(x, scale, shift))
    return y if base == -1 else y / math.log(base)


def scale(x: Any, gamma: Any, beta: Any = None, *, bias_term: int = 0) -> Any:
    y = x * (per_channel(gamma, x) if gamma.ndim else gamma)
    return y + per_channel(beta, x) if bias_term else y


def eltwise(*xs: Any, operation: str = "SUM", coeff: Any = ()) -> Any:
    if operation == "SUM":
        coeff = list(coeff) or [1] * len(xs)
        total = xs[0] * coeff[0] if abs(coeff[0]) != 1 else -xs[0] if coeff[0] == -1 else xs[0]
        for c, x in zip(coeff[1:], xs[1:], strict=True):
            total = total - x if c == -1 else total + (x if c == 1 else x * c)
        return total
    total = xs[0]
    for x in xs[1:]:
        total = total * x if operation == "PROD" else pointwise(larger, total, x)
    return total


def embed(index: Any, table: Any, bias: Any = None, *, bias_term: int = 0) -> Any:
    y = table[index]
    return y + bias if bias_term else y


def reduction(x: Any, *, operation: str, coeff: float, axis: int) -> Any:
    before: dict[str, Callable[[Any], Any]] = {"ASUM": abs, "SUMSQ": lambda v: v * v}
    axes = list(range(axis, x.ndim))
    y = pointwise(before[operation], x) if operation in before else x
    y = mean(y, axes, 0) if operation == "MEAN" else add_up(y, axes, 0)
    return y * coeff


def weighted(window: Any) -> Any:
    """The mean of the elements, each weighted by itself."""
    top: Any = 0.0
    bottom: Any = 0.0
    for v in window:
        top, bottom = top + v * v, bottom + v
    return top / bottom


POOLS: dict[str, Callable[[Any], Any]] = {"MAX": highest, "AVE": average, "STOCHASTIC": weighted}


def windows(of: Callable[[Any], Any], x: Any, kernel: Any, stride: Any, pad: Any, out: Any) -> Any:
    """A function of each window; a window beyond the edge reads padding, whatever rounding up adds."""
    reach = [
        max(0, (o - 1) * s + k - n - p) for o, s, k, n, p in zip(out, stride, kernel, x.shape[2:], pad, strict=True)
    ]
    x = padded(x, [*pad, *reach])
    y = np.empty((*x.shape[:2], *out), object)
    for n, c, i, j in np.ndindex(y.shape):
        a, b = i * stride[0], j * stride[1]
        y[n, c, i, j] = of(x[n, c, a : a + kernel[0], b : b + kernel[1]].flat)
    return y


def stochastic(x: Any, *, kernel_shape: Any, strides: Any, out: Any) -> Any:
    return windows(weighted, x, kernel_shape, strides, (0, 0), out)


def pyramid(x: Any, *, pool: str, kernels: Any, bins: Any) -> Any:
    levels = []
    for level, (kernel, count) in enumerate(zip(kernels, bins, strict=True)):
        side = 2**level
        pad = [(k * side - n + 1) // 2 for k, n in zip(kernel, x.shape[2:], strict=True)]
        out = (side, side) if count == side * side else (1, 1)
        levels.append(windows(POOLS[pool], x, kernel, kernel, pad, out).reshape(x.shape[0], -1))
    return np.concatenate(levels, axis=1)


def unpooling(x: Any, *, unpool: str, kernel_shape: Any, strides: Any) -> Any:
    size = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, kernel_shape, strict=True)]
    y = np.full((*x.shape[:2], *size), 0.0, object)
    for n, c, i, j in np.ndindex(x.shape):
        for di, dj in np.ndindex(*kernel_shape):
            at = n, c, i * strides[0] + di, j * strides[1] + dj
            y[at] = y[at] + (x[n, c, i, j] / math.prod(kernel_shape) if unpool == "AVE" else x[n, c, i, j])
    return y


def lrn_within(x: Any, *, size: int, alpha: float, beta: float) -> Any:
    half = [size // 2] * 2
    summed = windows(lambda w: sum_of(w), x * x, [size] * 2, (1, 1), half, x.shape[2:])
    return x / pointwise(lambda v: v**beta, summed * (alpha / size**2) + 1.0)


def sum_of(window: Any) -> Any:
    total: Any = 0.0
    for v in window:
        total = total + v
    return total


def batch_norm(
    x: Any, mean_: Any, variance: Any, factor: Any, gamma: Any = None, beta: Any = None, *,
    use_global_stats: int = 1, scale_bias: int = 0, fraction: float = 0.999,
) -> Any:  # fmt: skip
    axes = [a for a in range(x.ndim) if a != 1]
    if use_global_stats:
        share = 1.0 / factor[0]
        average_, spread = (per_channel(pointwise(lambda v: v * share, s), x) for s in (mean_, variance))
        y = x - average_
    else:
        average_ = mean(x, axes)
        y = x - average_
        spread = mean(y * y, axes)
        count = x.size // x.shape[1]
        mean_ * fraction + average_.reshape(-1)
        variance * fraction + spread.reshape(-1) * (count / (count - 1))
        factor[0] * fraction + 1.0
    y = y / pointwise(sqrt, spread + EPSILON)
    return y * per_channel(gamma, x) + per_channel(beta, x) if scale_bias else y


def bn(x: Any, gamma: Any, beta: Any, *, learning: int = 0) -> Any:
    if learning:
        axes = [a for a in range(x.ndim) if a != 1]
        average_, squares = mean(x, axes), mean(x * x, axes)
        spread = squares - average_ * average_
        x = (x - average_) / pointwise(sqrt, spread + EPSILON)
    return x * per_channel(gamma, x) + per_channel(beta, x)


def mean_variance(x: Any, *, across_channels: int = 0, normalize_variance: int = 1) -> Any:
    axes = list(range(1 if across_channels else 2, x.ndim))
    y = x - mean(x, axes)
    if normalize_variance:
        y = y / (pointwise(sqrt, mean(y * y, axes)) + 1e-9)
    return y


def normalize(x: Any, gamma: Any, *, across_spatial: int = 1) -> Any:
    axes = [1, 2, 3] if across_spatial else [1]
    norms = pointwise(sqrt, add_up(x * x, axes) + 1e-10)
    return x / norms * (per_channel(gamma, x) if gamma.ndim else gamma)


DEFINITIONS: dict[str, Callable[..., Any]] = {
    f"caffe::{name}": definition
    for name, definition in {
        "Power": power,
        "Exp": exponential,
        "Log": logarithm,
        "Threshold": lambda x, *, threshold=0.0: pointwise(lambda v: float((v > threshold).value), x),
        "Scale": scale,
        "Bias": lambda x, b: x + per_channel(b, x),
        "Eltwise": eltwise,
        "Axpy": lambda a, x, y: a * x + y,
        "Embed": embed,
        "Reduction": reduction,
        "StochasticPooling": stochastic,
        "SPP": pyramid,
        "Unpooling": unpooling,
        "LRNWithinChannel": lrn_within,
        "BatchNorm": batch_norm,
        "BN": bn,
        "MVN": mean_variance,
        "Normalize": normalize,
    }.items()
}
