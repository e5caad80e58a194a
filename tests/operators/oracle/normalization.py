"""Normalisations and softmax over whole arrays of counting numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.number import exp, log, pointwise, select, sqrt
from tests.operators.oracle.reduction import add_up, argument, maximum, mean


def batch_normalization(
    x: Any,
    scale: Any,
    b: Any,
    mu: Any,
    var: Any,
    *,
    epsilon: float = 1e-5,
    training_mode: int = 0,
    momentum: float = 0.9,
) -> Any:
    per_channel = [-1, *[1] * (x.ndim - 2)]
    running = ()
    if training_mode:
        axes = [a for a in range(x.ndim) if a != 1]
        now = mean(x, axes)
        deviation = x - now
        spread = mean(deviation * deviation, axes)
        now, spread = now.reshape(-1), spread.reshape(-1)
        running = (mu * momentum + now * (1.0 - momentum), var * momentum + spread * (1.0 - momentum))
        mu, var = now, spread
    factor = scale / pointwise(sqrt, var + epsilon)
    shift = b - mu * factor
    y = x * factor.reshape(per_channel) + shift.reshape(per_channel)
    return (y, *running) if running else y


def standardized(x: Any, axes: Any, epsilon: float) -> tuple[Any, Any, Any]:
    """(x - mean) / deviation, the mean and the deviation, the variance from the mean of squares."""
    centre = mean(x, axes)
    variance = mean(x * x, axes) - centre * centre
    deviation = pointwise(sqrt, variance + epsilon)
    return (x - centre) / deviation, centre, deviation


def layer_normalization(
    x: Any, scale: Any, b: Any = None, *, axis: int = -1, epsilon: float = 1e-5, outputs: int = 1
) -> Any:
    y, centre, deviation = standardized(x, range(axis % x.ndim, x.ndim), epsilon)
    y = y * scale if b is None else y * scale + b
    return (y, centre, 1.0 / deviation)[:outputs] if outputs > 1 else y


def rms_normalization(x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5) -> Any:
    square = mean(x * x, range(axis % x.ndim, x.ndim))
    return x / pointwise(sqrt, square + epsilon) * scale


def group_normalization(x: Any, scale: Any, b: Any, *, num_groups: int, epsilon: float = 1e-5) -> Any:
    per_channel = [-1, *[1] * (x.ndim - 2)]
    y, _, _ = standardized(x.reshape(x.shape[0], num_groups, -1), [2], epsilon)
    return y.reshape(x.shape) * scale.reshape(per_channel) + b.reshape(per_channel)


def instance_normalization(x: Any, scale: Any, b: Any, *, epsilon: float = 1e-5) -> Any:
    return group_normalization(x, scale, b, num_groups=x.shape[1], epsilon=epsilon)


def lrn(x: Any, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
    before = (size - 1) // 2
    square = x * x
    edge = pointwise(lambda v: type(v)(0.0, v.tally), x[:, :1])
    square = np.concatenate([edge] * before + [square] + [edge] * (size - 1 - before), axis=1)
    total: Any = np.full(x.shape, 0.0, object)
    for c in range(x.shape[1]):
        for i in range(size):
            total[:, c] = total[:, c] + square[:, c + i]
    return x / (bias + alpha / size * total) ** beta


def lp_normalization(x: Any, *, axis: int = -1, p: int = 2) -> Any:
    norm = add_up(pointwise(abs, x), [axis]) if p == 1 else pointwise(sqrt, add_up(x * x, [axis]))
    empty = pointwise(lambda v: v.equals(0.0), norm)
    return pointwise(lambda flag, v: select(flag, 0.0, v), empty, x / norm)


def mean_variance_normalization(
    x: Any, *, axes: Any = (0, 2, 3), version: int = 0, across_channels: int = 0, normalize_variance: int = 1
) -> Any:
    if 0 < version < 9:
        axes = range(1 if across_channels else 2, x.ndim)
    centre = mean(x, axes)
    if not normalize_variance:
        return x - centre
    variance = mean(x**2, axes) - centre**2
    return (x - centre) / (pointwise(sqrt, variance) + 1e-9)


def flattened(axis: int, x: Any, version: int) -> tuple[Any, int]:
    """The array and the axis along which it is normalised: before opset 13 a matrix, rows beginning at the axis."""
    if 0 < version < 13:
        return x.reshape(int(np.prod(x.shape[:axis])), -1), 1
    return x, axis


def softmax(x: Any, *, axis: int | None = None, version: int = 0) -> Any:
    rows, along = flattened((1 if 0 < version < 13 else -1) if axis is None else axis, x, version)
    e = pointwise(exp, rows - maximum(rows, [along]))
    return (e / add_up(e, [along])).reshape(x.shape)


def log_softmax(x: Any, *, axis: int | None = None, version: int = 0) -> Any:
    rows, along = flattened((1 if 0 < version < 13 else -1) if axis is None else axis, x, version)
    shifted = rows - maximum(rows, [along])
    total = add_up(pointwise(exp, shifted), [along])
    return (shifted - pointwise(log, total)).reshape(x.shape)


def hardmax(x: Any, *, axis: int = -1) -> Any:
    best = argument(lambda v, best: v > best, -np.inf)(x, axis=axis)
    y = np.zeros(x.shape)
    np.put_along_axis(y, best, 1.0, axis)
    return y


DEFINITIONS: dict[str, Callable[..., Any]] = {
    "BatchNormalization": batch_normalization,
    "InstanceNormalization": instance_normalization,
    "GroupNormalization": group_normalization,
    "LayerNormalization": layer_normalization,
    "RMSNormalization": rms_normalization,
    "LRN": lrn,
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance_normalization,
    "Softmax": softmax,
    "LogSoftmax": log_softmax,
    "Hardmax": hardmax,
}
