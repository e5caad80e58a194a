"""Caffe's own layers as plain loops over counting numbers, after the formulas in Caffe's documentation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.linear import matmul, padded
from tests.operators.oracle.number import Number, exp, larger, log, plain, pointwise, smaller, sqrt, tanh
from tests.operators.oracle.pooling import average, highest
from tests.operators.oracle.reduction import add_up, maximum, mean

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


def lstm_unit(c: Any, gates: Any, cont: Any) -> Any:
    i, f, o, g = np.split(gates, 4, axis=-1)
    keep = pointwise(sigmoid, f) * cont[..., np.newaxis]
    c = keep * c + pointwise(sigmoid, i) * pointwise(tanh, g)
    return c, pointwise(sigmoid, o) * pointwise(tanh, c)


def lstm(x: Any, cont: Any, *rest: Any, hidden_size: int, static_input: int = 0) -> Any:
    side, (wx, b, *ws, wh) = (rest[0], rest[1:]) if static_input else (None, rest)
    c = h = np.zeros((x.shape[1], hidden_size))
    fixed = matmul(side, ws[0].T) if static_input else None
    states = []
    for xt, mark in zip(x.reshape(*x.shape[:2], -1), cont, strict=True):
        gates = matmul(xt, wx.T) + b
        gates = matmul(counted(h, x) * mark[:, np.newaxis], wh.T) + gates
        if fixed is not None:
            gates = gates + fixed
        c, h = lstm_unit(counted(c, x), gates, mark)
        states.append(h)
    return np.array(states)


def rnn(x: Any, cont: Any, *rest: Any, hidden_size: int, static_input: int = 0) -> Any:
    side, (wx, b, *ws, wh, wo, bo) = (rest[0], rest[1:]) if static_input else (None, rest)
    h = np.zeros((x.shape[1], hidden_size))
    fixed = matmul(side, ws[0].T) if static_input else None
    outputs = []
    for xt, mark in zip(x.reshape(*x.shape[:2], -1), cont, strict=True):
        total = matmul(counted(h, x) * mark[:, np.newaxis], wh.T) + (matmul(xt, wx.T) + b)
        h = pointwise(tanh, total if fixed is None else total + fixed)
        outputs.append(pointwise(tanh, matmul(h, wo.T) + bo))
    return np.array(outputs)


def counted(array: Any, like: Any) -> Any:
    """The array with plain numbers replaced by counting ones."""
    one = like.flat[0]
    return pointwise(lambda v: v if isinstance(v, Number) else Number(float(v), one.tally), array)


# Losses.


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


# Detection.


def area(box: Any) -> Any:
    return (box[2] - box[0]) * (box[3] - box[1])


def survivors(boxes: Any, areas: Any, threshold: float, extra: float = 0.0) -> list[int]:
    """Positions of the boxes, best first, that overlap none before them by more than the threshold."""
    kept: list[int] = []
    for i, box in enumerate(boxes):
        if all(plain(_overlap(box, boxes[j], areas[i], areas[j], extra) <= threshold) for j in kept):
            kept.append(i)
    return kept


def _overlap(a: Any, b: Any, area_a: Any, area_b: Any, extra: float) -> Any:
    sides = [smaller(a[k + 2], b[k + 2]) - larger(a[k], b[k]) for k in (0, 1)]
    width, height = (larger(0.0, side + extra if extra else side) for side in sides)
    common = width * height
    return common / (area_a + area_b - common)


def ordered(scores: Any, keep: int) -> list[int]:
    """Positions of the highest scores, each put into its place by binary search."""
    kept: list[int] = []
    for i, score in enumerate(scores):
        low, high = 0, len(kept)
        while low < high:
            middle = (low + high) // 2
            if plain(scores[kept[middle]] < score):
                high = middle
            else:
                low = middle + 1
        kept.insert(low, i)
        del kept[keep:]
    return kept


def decoded(location: Any, prior: Any, variance: Any) -> Any:
    """A box from its prior box, its location and variances, coded as centre and size."""
    size = [prior[2] - prior[0], prior[3] - prior[1]]
    centre = [(prior[0] + prior[2]) / 2.0, (prior[1] + prior[3]) / 2.0]
    middle = [variance[k] * location[k] * size[k] + centre[k] for k in (0, 1)]
    half = [exp(variance[k + 2] * location[k + 2]) * size[k] / 2.0 for k in (0, 1)]
    return [middle[0] - half[0], middle[1] - half[1], middle[0] + half[0], middle[1] + half[1]]


def detection_output(
    location: Any, confidence: Any, prior: Any, *,
    boxes: int, priors: int, classes: int, candidates: int, keep: int, overlap: float, threshold: float,
) -> Any:  # fmt: skip
    """With shared locations; the first class is the background."""
    assert boxes == priors
    found = []
    for n, (places, scores) in enumerate(zip(location, confidence, strict=True)):
        rows = zip(places.reshape(-1, 4), prior[0, 0].reshape(-1, 4), prior[0, 1].reshape(-1, 4), strict=True)
        corners = [decoded(*row) for row in rows]
        areas = [area(box) for box in corners]
        detected = []
        for c in range(1, classes + 1):
            own = scores.reshape(priors, classes + 1)[:, c]
            passed = [i for i in range(priors) if (own[i] > threshold).value]
            best = [passed[i] for i in ordered([own[i] for i in passed], candidates)]
            left = survivors([corners[i] for i in best], [areas[i] for i in best], overlap)
            detected += [(own[best[i]], c, best[i]) for i in left]
        for i in ordered([score for score, _, _ in detected], keep):
            score, c, box = detected[i]
            found.append([float(n), float(c), score, *corners[box]])
    return np.array(found, object).reshape(1, 1, -1, 7)


def proposal(
    scores: Any, deltas: Any, image: Any, *, anchors: int, candidates: int, base: Any, stride: int, keep: int
) -> Any:
    """One image; boxes hold the pixels on both of their edges."""
    _, _, rows, columns = deltas.shape
    limit = [image[0, 1] - 1.0, image[0, 0] - 1.0]
    boxes, chances = [], []
    for a, i, j in np.ndindex(len(base), rows, columns):
        moved = [b + float(s) for b, s in zip(base[a], (j * stride, i * stride) * 2, strict=True)]
        size = [moved[2] - moved[0] + 1.0, moved[3] - moved[1] + 1.0]
        dx = deltas[0, 4 * a : 4 * a + 4, i, j]
        middle = [dx[k] * size[k] + (moved[k] + size[k] * 0.5) for k in (0, 1)]
        half = [exp(dx[k + 2]) * size[k] * 0.5 for k in (0, 1)]
        corners = [middle[0] - half[0], middle[1] - half[1], middle[0] + half[0], middle[1] + half[1]]
        box = [larger(0.0, smaller(limit[k % 2].value, v)) for k, v in enumerate(corners)]
        wide, high = (box[k + 2] - box[k] + 1.0 >= 1.0 for k in (0, 1))
        if wide.value and high.value:
            boxes.append(box)
            chances.append(scores[0, len(base) + a, i, j])
    assert len(boxes) <= anchors
    best = [boxes[i] for i in ordered(chances, candidates)]
    areas = [(b[2] - b[0] + 1.0) * (b[3] - b[1] + 1.0) for b in best]
    left = survivors(best, areas, 0.7, 1.0)[:keep]
    return np.array([[0.0, *best[i]] for i in left], object)


def bins(region: Any, pooled: Any, extents: Any, scale_: float) -> Any:
    """Rows and columns of each bin of a region, clipped to the map."""
    start = [round(float(region[2]) * scale_), round(float(region[1]) * scale_)]
    end = [round(float(region[4]) * scale_), round(float(region[3]) * scale_)]
    for at in np.ndindex(*pooled):
        spans = []
        for k in (0, 1):
            size = max(end[k] - start[k] + 1, 1) / pooled[k]
            low, high = start[k] + math.floor(at[k] * size), start[k] + math.ceil((at[k] + 1) * size)
            spans.append(slice(min(max(low, 0), extents[k]), min(max(high, 0), extents[k])))
        yield at, tuple(spans)


def roi_pooling(x: Any, regions: Any, *, pooled: Any, scale_: float = 1.0) -> Any:
    y = np.full((len(regions), x.shape[1], *pooled), 0.0, object)
    for r, region in enumerate(regions):
        for at, span in bins(region, pooled, x.shape[2:], scale_):
            for c in range(x.shape[1]):
                window = x[(int(region[0]), c, *span)].reshape(-1)
                y[(r, c, *at)] = highest(window) if window.size else 0.0
    return y


def psroi_pooling(x: Any, regions: Any, *, group: int, scale_: float = 1.0) -> Any:
    y = np.full((len(regions), x.shape[1] // group**2, group, group), 0.0, object)
    for r, region in enumerate(regions):
        for at, span in bins(region, (group, group), x.shape[2:], scale_):
            for c in range(y.shape[1]):
                channel = (c * group + at[0]) * group + at[1]
                window = x[(int(region[0]), channel, *span)].reshape(-1)
                y[(r, c, *at)] = average(window) if window.size else 0.0
    return y


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
        "LSTM": lstm,
        "RNN": rnn,
        "LSTMUnit": lstm_unit,
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

ALGORITHMS: dict[str, Callable[..., Any]] = {
    "caffe::Accuracy": accuracy,
    "caffe::DetectionOutput": detection_output,
    "caffe::Proposal": proposal,
    "caffe::ROIPooling": roi_pooling,
    "caffe::PSROIPooling": psroi_pooling,
}
