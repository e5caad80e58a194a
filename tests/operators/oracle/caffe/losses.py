"""Caffe's losses and its accuracy, sample by sample on counting numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.caffe.layers import sum_of
from tests.operators.oracle.number import Number, exp, larger, log, plain, pointwise, sqrt
from tests.operators.oracle.reduction import add_up, maximum


def softmax(x: Any, axis: int) -> Any:
    e = pointwise(exp, x - maximum(x, [axis]))
    return e / add_up(e, [axis])


def floor_log(v: Any) -> Any:
    return log(larger(1e-20, v))


def picked(x: Any, label: Any, axis: int) -> list[Any]:
    """The element that each label names."""
    rows = np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
    return [row[int(k)] for row, k in zip(rows, np.asarray(label).reshape(-1), strict=True)]


def softmax_loss(x: Any, label: Any, *, axis: int = 1) -> Any:
    chosen = picked(softmax(x, axis), label, axis)
    return np.array(sum_of(floor_log(v) for v in chosen) / -float(len(chosen)))


def logistic_loss(x: Any, label: Any) -> Any:
    chosen = picked(x, label, 1)
    return np.array(sum_of(floor_log(v) for v in chosen) / -float(len(chosen)))


def infogain_loss(x: Any, label: Any, gain: Any, *, axis: int = 1) -> Any:
    p = softmax(x, axis)
    total: Any = 0.0
    for row, k in zip(p, label, strict=True):
        for v, g in zip(row, gain[int(k)], strict=True):
            total = total + floor_log(v) * g
    return np.array(total / -float(len(label)))


def sigmoid_loss(x: Any, target: Any) -> Any:
    total: Any = 0.0
    for v, t in zip(x.flat, target.flat, strict=True):
        total = total + ((larger(0.0, v) - v * t) + log(1.0 + exp(-abs(v))))
    return np.array(total / float(len(x)))


def euclidean_loss(x: Any, y: Any) -> Any:
    d = (x - y).reshape(-1)
    return np.array(sum_of(d * d) / float(2 * len(x)))


def hinge_loss(x: Any, label: Any, *, norm: str = "L1") -> Any:
    x = x.copy()
    for n, k in enumerate(label):
        x[n, int(k)] = -x[n, int(k)]
    margins = pointwise(lambda v: larger(0.0, v + 1.0), x).reshape(-1)
    return np.array(sum_of(margins * margins if norm == "L2" else margins) / float(len(label)))


def contrastive_loss(a: Any, b: Any, similar: Any, *, legacy_version: int = 0, margin: float = 1.0) -> Any:
    total: Any = 0.0
    d = a - b
    for row, alike in zip(d * d, similar, strict=True):
        near = sum_of(row.reshape(-1))
        gap = larger(0.0, margin - (near if legacy_version else sqrt(near)))
        far = gap if legacy_version else gap * gap
        total = total + (near if alike else far)
    return np.array(total / float(2 * len(similar)))


def smooth_l1(x: Any, target: Any, *weights: Any, sigma: float = 1.0) -> Any:
    d = x - target
    if weights:
        d = d * weights[0]
    half, square = 0.5 / sigma**2, sigma**2

    def one(v: Any) -> Any:
        size = abs(v)
        inside, outside = v * v * (0.5 * square), size - half
        return inside if plain(size < 1.0 / square) else outside

    e = pointwise(one, d)
    if len(weights) > 1:
        e = e * weights[1]
    return np.array(sum_of(e.reshape(-1)) / float(len(x)))


def accuracy(x: Any, label: Any, *, axis: int = 1, top_k: int = 1, per_class: bool = False) -> Any:
    zero = Number(0.0, x.flat[0].tally)
    hits, classes = zero, [zero] * x.shape[axis]
    labels = [int(k) for k in np.asarray(label).reshape(-1)]
    for row, k in zip(np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis]), labels, strict=True):
        if sum((v >= row[k]).value for i, v in enumerate(row) if i != k) < top_k:
            hits = hits + 1.0
            if per_class:
                classes[k] = classes[k] + 1.0
    whole = np.array(hits / float(len(labels)))
    if not per_class:
        return whole
    return whole, np.array([c / float(max(1, labels.count(k))) for k, c in enumerate(classes)], object)


DEFINITIONS: dict[str, Callable[..., Any]] = {
    f"caffe::{name}": definition
    for name, definition in {
        "SoftmaxWithLoss": softmax_loss,
        "MultinomialLogisticLoss": logistic_loss,
        "InfogainLoss": infogain_loss,
        "SigmoidCrossEntropyLoss": sigmoid_loss,
        "EuclideanLoss": euclidean_loss,
        "HingeLoss": hinge_loss,
        "ContrastiveLoss": contrastive_loss,
        "SmoothL1Loss": smooth_l1,
    }.items()
}

ALGORITHMS: dict[str, Callable[..., Any]] = {"caffe::Accuracy": accuracy}
