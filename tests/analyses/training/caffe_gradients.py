"""Gradients of Caffe's own operators as its backward functions make them, on numbers that count."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tests.analyses.training.cases import Case, normal, positive
from tests.analyses.training.derivatives import sign, sum_to
from tests.operators.oracle.caffe.layers import EPSILON, line, per_channel, sigmoid
from tests.operators.oracle.number import numbers, pointwise, select, values
from tests.operators.oracle.reduction import add_up


def _kept(array: Any, like: Any) -> Any:
    return numbers(np.asarray(array, float), like.flat[0].tally)


def power(g: Any, y: Any, wanted: Any, x: Any, *, power: float = 1.0, scale: float = 1.0, shift: float = 0.0) -> Any:
    if power == 1:
        return {0: g * scale if scale != 1 else g}
    return {0: scale * power * (g * y) / line(x, scale, shift)}


def exponential(g: Any, y: Any, wanted: Any, x: Any, *, base: float = -1.0, scale: float = 1.0, shift: float = 0.0):
    c = scale * (1.0 if base == -1 else math.log(base))
    return {0: g * y if c == 1 else c * (g * y)}


def logarithm(g: Any, y: Any, wanted: Any, x: Any, *, base: float = -1.0, scale: float = 1.0, shift: float = 0.0):
    c = scale / (1.0 if base == -1 else math.log(base))
    found = g / line(x, scale, shift)
    return {0: found if c == 1 else c * found}


def scale(g: Any, y: Any, wanted: Any, x: Any, gamma: Any, beta: Any = None, *, bias_term: int = 0) -> Any:
    found = {}
    spread = gamma if gamma.shape == x.shape else per_channel(gamma, x)
    if 0 in wanted:
        found[0] = g * spread
    if 1 in wanted:
        found[1] = sum_to(spread.shape, g * x).reshape(gamma.shape)
    if 2 in wanted:
        found[2] = sum_to(spread.shape, g).reshape(gamma.shape)
    return found


def eltwise(g: Any, y: Any, wanted: Any, *xs: Any, operation: str = "SUM", coeff: Any = ()) -> Any:
    found = {}
    for i in wanted:
        if operation == "SUM":
            found[i] = g if coeff[i] == 1 else -g if coeff[i] == -1 else g * coeff[i]
            continue
        found[i] = g
        for j, x in enumerate(xs):
            found[i] = found[i] if i == j else found[i] * x
    return found


def reduction(g: Any, y: Any, wanted: Any, x: Any, *, operation: str, coeff: float, axis: int) -> Any:
    share = g * (2.0 * coeff if operation == "SUMSQ" else coeff)
    if operation == "MEAN":
        share = share / float(x.size // y.size)
    share = np.broadcast_to(share.reshape(*share.shape, *[1] * (x.ndim - axis)), x.shape)
    if operation == "SUMSQ":
        return {0: share * x}
    return {0: share * pointwise(sign, x) if operation == "ASUM" else share}


def _centred(g: Any, y: Any, axes: Any, deviation: Any) -> Any:
    each = float(g.size // deviation.size)
    return (g - add_up(g, axes) / each - y * (add_up(g * y, axes) / each)) / deviation


def batch_norm(
    g: Any, y: Any, wanted: Any, x: Any, mean: Any, variance: Any, factor: Any, *, use_global_stats: int = 1
):
    axes = [a for a in range(x.ndim) if a != 1]
    plain = values(x).astype(float)
    spread = plain.var(tuple(axes)) if not use_global_stats else values(variance).astype(float) / values(factor)[0]
    deviation = _kept(np.sqrt(spread.astype(float) + EPSILON).reshape(1, -1, *[1] * (x.ndim - 2)), x)
    return {0: g / deviation if use_global_stats else _centred(g, y, axes, deviation)}


def mean_variance(g: Any, y: Any, wanted: Any, x: Any, *, across_channels: int = 0, normalize_variance: int = 1) -> Any:
    axes = list(range(1 if across_channels else 2, x.ndim))
    plain = values(x).astype(float)
    if not normalize_variance:
        total = add_up(g, axes)
        return {0: g - total / float(x.size // total.size)}
    return {0: _centred(g, y, axes, _kept(plain.std(tuple(axes), keepdims=True), x))}


def normalize(g: Any, y: Any, wanted: Any, x: Any, gamma: Any, *, across_spatial: int = 1) -> Any:
    axes = [1, 2, 3] if across_spatial else [1]
    plain = values(x).astype(float)
    norm = _kept(np.sqrt((plain**2).sum(tuple(axes), keepdims=True)), x)
    hat = _kept(plain / values(norm).astype(float), x)
    found = {}
    if 0 in wanted:
        inner = g * per_channel(gamma, x)
        found[0] = (inner - hat * add_up(inner * hat, axes)) / norm
    if 1 in wanted:
        found[1] = sum_to((1, gamma.size, 1, 1), g * hat).reshape(-1)
    return found


def softmax_loss(g: Any, y: Any, wanted: Any, x: Any, label: Any) -> Any:
    e = np.exp(values(x).astype(float))
    p = _kept(e / e.sum(1, keepdims=True), x)
    for n, k in enumerate(label):
        p[n, int(k)] = p[n, int(k)] - 1.0
    share = np.asarray(g, object).reshape(-1)[0] / float(len(label))
    return {0: pointwise(lambda v: v * share, p)}


def sigmoid_loss(g: Any, y: Any, wanted: Any, x: Any, target: Any) -> Any:
    share = np.asarray(g, object).reshape(-1)[0] / float(len(x))
    return {0: pointwise(lambda v, t: (sigmoid(v) - t) * share, x, target)}


def euclidean_loss(g: Any, y: Any, wanted: Any, a: Any, b: Any) -> Any:
    d = _kept(values(a).astype(float) - values(b).astype(float), a)
    share = np.asarray(g, object).reshape(-1)[0] / float(len(a))
    return {0: pointwise(lambda v: v * share, d)}


def hinge_loss(g: Any, y: Any, wanted: Any, x: Any, label: Any) -> Any:
    plain = values(x).astype(float)
    for n, k in enumerate(label):
        plain[n, int(k)] *= -1
    share = np.asarray(g, object).reshape(-1)[0] / float(len(label))
    found = pointwise(lambda m: share * select(m > 0.0, 1.0, 0.0), _kept(plain + 1.0, x))
    for n, k in enumerate(label):
        found[n, int(k)] = -found[n, int(k)]
    return {0: found}


GRADIENTS: dict[str, Callable[..., Any]] = {
    "caffe::Power": power,
    "caffe::Exp": exponential,
    "caffe::Log": logarithm,
    "caffe::Scale": scale,
    "caffe::Eltwise": eltwise,
    "caffe::Reduction": reduction,
    "caffe::BatchNorm": batch_norm,
    "caffe::MVN": mean_variance,
    "caffe::Normalize": normalize,
    "caffe::SoftmaxWithLoss": softmax_loss,
    "caffe::SigmoidCrossEntropyLoss": sigmoid_loss,
    "caffe::EuclideanLoss": euclidean_loss,
    "caffe::HingeLoss": hinge_loss,
}


def cases() -> Iterator[Case]:
    """Applications of these operators."""
    x = (positive(2, 3, 2),)
    for attrs in ({"power": 2.0, "scale": 3.0, "shift": 1.0}, {"scale": 3.0}, {"power": 0.5}):
        yield Case("caffe::Power", x, attrs=attrs)
    for attrs in ({}, {"base": 2.0}, {"scale": 2.0, "shift": 1.0}):
        yield Case("caffe::Exp", x, attrs=attrs)
        yield Case("caffe::Log", x, attrs=attrs)
    for places in ({0}, {1}, {0, 1}, {0, 1, 2}):
        inputs = (normal(2, 3, 2), normal(3), normal(3))
        yield Case("caffe::Scale", inputs, frozenset(places), {"bias_term": 1})
    yield Case("caffe::Eltwise", (normal(2, 3),) * 3, frozenset({0, 1, 2}), {"coeff": [1.0, -1.0, 2.5]})
    yield Case("caffe::Eltwise", (normal(2, 3), normal(2, 3), normal(2, 3)), frozenset({0, 2}), {"operation": "PROD"})
    for operation in ("SUM", "MEAN", "ASUM", "SUMSQ"):
        yield Case("caffe::Reduction", (normal(2, 3, 2),), attrs={"operation": operation, "coeff": 0.7, "axis": 1})
    for stored in (0, 1):
        inputs = (normal(2, 3, 4), normal(3), positive(3), positive(1))
        yield Case("caffe::BatchNorm", inputs, attrs={"use_global_stats": stored})
    for attrs in ({}, {"across_channels": 1}, {"normalize_variance": 0}):
        yield Case("caffe::MVN", (normal(2, 3, 2, 2),), attrs=attrs)
    for places in ({0}, {1}, {0, 1}):
        yield Case("caffe::Normalize", (normal(1, 3, 2, 2), normal(3)), frozenset(places), {"across_spatial": 0})
    labels = np.array([1, 0, 3])
    yield Case("caffe::SoftmaxWithLoss", (normal(3, 4), labels))
    yield Case("caffe::HingeLoss", (normal(3, 4) * 1.01, labels))
    yield Case("caffe::SigmoidCrossEntropyLoss", (normal(3, 4), positive(3, 4) / 2.0))
    yield Case("caffe::EuclideanLoss", (normal(3, 4), normal(3, 4)))
