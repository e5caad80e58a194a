"""Classical machine learning, sample by sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from tests.operators.oracle.normalization import softmax
from tests.operators.oracle.number import Number, exp, function, larger, mac, pointwise, smaller, sqrt, tanh
from tests.operators.oracle.pointwise import sigmoid

#: The inverse of the error function, by the quantile of the normal distribution.
inverse_erf = function("erf", lambda x: NormalDist().inv_cdf((x + 1.0) / 2.0) / math.sqrt(2.0))


def dot(a: Any, b: Any) -> Any:
    total: Any = 0.0
    for u, v in zip(a, b, strict=True):
        total = mac(total, u, v)
    return total


def best(values: Sequence[Any]) -> int:
    """The index of the largest."""
    at, top = 0, Number(-math.inf, values[0].tally)
    for i, v in enumerate(values):
        if (v > top).value:
            at, top = i, v
    return at


def softmax_zero(row: Any) -> Any:
    """Softmax in which a zero stays a zero, times what the largest score makes of the others."""
    top: Any = -math.inf
    for v in row:
        top = larger(top, v)
    rest = exp(-top)
    powers, total = [], Number(0.0, row[0].tally)
    for v in row:
        counts = (v > 1e-7).value | (v < -1e-7).value
        power, faded = exp(v - top), v * rest
        powers.append(power if counts else faded)
        total = total + powers[-1]
    empty = total.equals(0.0).value
    return [0.5 if empty else power / total for power in powers]


def transformed(scores: Any, name: str) -> Any:
    """Rows of scores as probabilities."""
    if name == "SOFTMAX":
        return softmax(scores)
    if name == "SOFTMAX_ZERO":
        return np.array([softmax_zero(row) for row in scores], object)
    once = {"LOGISTIC": sigmoid, "PROBIT": lambda p: math.sqrt(2.0) * inverse_erf(2.0 * p - 1.0), "NONE": lambda v: v}
    return pointwise(once[name], scores)


def linear(x: Any, coefficients: Any, intercepts: Any) -> Any:
    weights = np.array(coefficients).reshape(-1, x.shape[-1])
    scores = np.array([[dot(row, w) for w in weights] for row in x], object)
    return scores + np.array(intercepts) if intercepts else scores


def linear_regressor(
    x: Any, *, coefficients: Any, intercepts: Any = (), targets: int = 1, post_transform: str = "NONE"
) -> Any:
    del targets
    return transformed(linear(x, coefficients, intercepts), post_transform)


def linear_classifier(
    x: Any, *, coefficients: Any, intercepts: Any = (), classlabels_ints: Any, post_transform: str = "NONE"
) -> Any:
    scores = linear(x, coefficients, intercepts)
    if scores.shape[1] == 1 and len(classlabels_ints) == 2:
        scores = np.concatenate([-scores, scores], axis=1)
    scores = transformed(scores, post_transform)
    if scores.shape[1] == 1:
        limit = 0.0 if post_transform == "NONE" else 0.5
        return np.array([classlabels_ints[0] if (row[0] >= limit).value else 0 for row in scores]), scores
    return np.array([classlabels_ints[best(row)] for row in scores]), scores


def kernel(a: Any, b: Any, kind: str, params: Sequence[float]) -> Any:
    if kind == "RBF":
        gaps = [u - v for u, v in zip(a, b, strict=True)]
        return exp(dot(gaps, gaps) * -params[0])
    total = dot(a, b)
    if kind == "POLY":
        return (total * params[0] + params[1]) ** int(params[2])
    if kind == "SIGMOID":
        return tanh(total * params[0] + params[1])
    return total


def svm_regressor(
    x: Any, *, coefficients: Any, rho: Any, support_vectors: Any = (), n_supports: int = 0, one_class: int = 0,
    kernel_type: str = "LINEAR", kernel_params: Any = (0.0, 0.0, 0.0), post_transform: str = "NONE",
) -> Any:  # fmt: skip
    y = []
    for row in x:
        if n_supports:
            vectors = np.array(support_vectors).reshape(n_supports, -1)
            score = dot([kernel(row, v, kernel_type, kernel_params) for v in vectors], coefficients)
        else:
            score = dot(row, coefficients)
        score = score + rho[0]
        y.append([(1.0 if (score > 0.0).value else -1.0) if one_class else score])
    return transformed(np.array(y, object), post_transform)


def svm_classifier(
    x: Any, *, coefficients: Any, rho: Any, classlabels_ints: Any, support_vectors: Any = (),
    vectors_per_class: Any = (), kernel_type: str = "LINEAR", kernel_params: Any = (0.0, 0.0, 0.0),
    prob_a: Any = (), prob_b: Any = (), post_transform: str = "NONE",
) -> Any:  # fmt: skip
    """One machine for each two classes, each with a vote; without support vectors one score for each class."""
    classes, total = len(classlabels_ints), sum(vectors_per_class)
    winners, rows = [], []
    for row in x:
        if not total:
            scores = [dot(row, w) + rho[0] for w in np.array(coefficients).reshape(classes, -1)]
            winners.append(best(scores))
            rows.append(scores)
            continue
        vectors = np.array(support_vectors).reshape(total, -1)
        kernels = [kernel(row, v, kernel_type, kernel_params) for v in vectors]
        votes, scores = machines(kernels, np.array(coefficients).reshape(-1, total), vectors_per_class, rho)
        winners.append(best(votes))
        rows.append(coupled(scores, classes, prob_a, prob_b) if prob_a else scores)
    scores = np.array(rows, object)
    if scores.shape[1] == 1:
        scores = np.concatenate([-scores, scores], axis=1)
    return np.array([classlabels_ints[i] for i in winners]), transformed(scores, post_transform)


def machines(kernels: Any, coefficients: Any, sizes: Any, rho: Any) -> tuple[list[Any], list[Any]]:
    """The votes of each class and the score of each pair."""
    starts = np.cumsum([0, *sizes])
    tally = kernels[0].tally
    votes, scores = [Number(0.0, tally) for _ in sizes], []
    for i in range(len(sizes)):
        for j in range(i + 1, len(sizes)):
            mine, others = (slice(starts[c], starts[c + 1]) for c in (i, j))
            score = dot(kernels[mine], coefficients[j - 1, mine]) + dot(kernels[others], coefficients[i, others])
            score = score + rho[len(scores)]
            winner = i if (score > 0.0).value else j
            votes[winner] = votes[winner] + 1.0
            scores.append(score)
    return votes, scores


def coupled(scores: Any, classes: int, a: Any, b: Any) -> list[Any]:
    """Probabilities of classes from those of pairs: Wu, Lin and Weng, JMLR 5 (2004), algorithm 2."""
    tally = scores[0].tally
    r = np.empty((classes, classes), object)
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    for n, (i, j) in enumerate(pairs):
        p = 1.0 / (1.0 + exp(scores[n] * a[n] + b[n]))
        r[i, j] = smaller(1.0 - 1e-7, larger(1e-7, p))
        r[j, i] = 1.0 - r[i, j]
    q = np.full((classes, classes), 0.0, object)
    for i, j in pairs:
        q[i, i], q[j, j] = mac(q[i, i], r[j, i], r[j, i]), mac(q[j, j], r[i, j], r[i, j])
        q[i, j] = q[j, i] = -(r[j, i] * r[i, j])
    p = [Number(1.0 / classes, tally) for _ in range(classes)]
    for _ in range(max(100, classes)):
        products = [dot(row, p) for row in q]
        total = dot(p, products)
        worst: Any = 0.0
        for value in products:
            worst = larger(worst, abs(value - total))
        if (worst < 0.005 / classes).value:
            break
        for t in range(classes):
            step = (total - products[t]) / q[t, t]
            p[t] = p[t] + step
            longer = 1.0 + step
            total = mac(total, step, mac(2.0 * products[t], step, q[t, t])) / longer / longer
            products = [mac(v, step, w) / longer for v, w in zip(products, q[t], strict=True)]
            p = [v / longer for v in p]
    return p


def normalizer(x: Any, *, norm: str = "MAX") -> Any:
    y = []
    for row in x:
        total: Any = -math.inf if norm == "MAX" else 0.0
        for v in row:
            total = larger(total, v) if norm == "MAX" else total + (abs(v) if norm == "L1" else v * v)
        total = sqrt(total) if norm == "L2" else total
        empty = total.equals(0.0).value
        y.append([v if empty else v / total for v in row])
    return np.array(y, object)


def scaler(x: Any, *, offset: Any = (), scale: Any = ()) -> Any:
    y = x - np.array(offset) if offset else x
    return y * np.array(scale) if scale else y


def imputer(x: Any, *, imputed_value_floats: Any, replaced_value_float: float) -> Any:
    news = np.broadcast_to(np.array(imputed_value_floats), x.shape)
    return pointwise(lambda v, new: new if v.equals(replaced_value_float).value else v, x, news)


_DOMAIN = "ai.onnx.ml::"

DEFINITIONS: dict[str, Callable[..., Any]] = {
    f"{_DOMAIN}LinearRegressor": linear_regressor,
    f"{_DOMAIN}LinearClassifier": linear_classifier,
    f"{_DOMAIN}SVMRegressor": svm_regressor,
    f"{_DOMAIN}Normalizer": normalizer,
    f"{_DOMAIN}Scaler": scaler,
    f"{_DOMAIN}Imputer": imputer,
    f"{_DOMAIN}Binarizer": lambda x, threshold=0.0: pointwise(lambda v: float((v > threshold).value), x),
}

ALGORITHMS: dict[str, Callable[..., Any]] = {f"{_DOMAIN}SVMClassifier": svm_classifier}
