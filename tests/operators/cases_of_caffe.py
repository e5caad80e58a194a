"""Small applications of Caffe's own operators. The right values are numpy's, in whole-array formulas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tests.operators.arrays import Input, given, positive, real
from tests.operators.case import Case

EPSILON = 1e-5


def case(op: str, *inputs: Input, expected: Callable[..., Any], outputs: int = 1, **attrs: Any) -> Case:
    def answer(*arrays: Any) -> list[Any]:
        found = expected(*arrays)
        return list(found) if isinstance(found, tuple) else [found]

    told = attrs.pop("told", {})
    return Case(f"caffe::{op}", inputs, attrs, outputs=outputs, expected=answer, told=told)


def chan(v: Any, x: Any) -> Any:
    return v.reshape(-1, *[1] * (x.ndim - 2))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def pointwise() -> Iterator[Case]:
    for power, scale, shift in ((1.0, 1.0, 0.0), (2.0, 1.0, 0.0), (0.5, 3.0, 0.25), (1.0, 2.0, 0.0), (0.0, 2.0, 1.0)):
        attrs = {"power": power, "scale": scale, "shift": shift}
        yield case("Power", positive(2, 3), **attrs, expected=lambda x, p=power, a=scale, b=shift: (b + a * x) ** p)
    yield case("Power", real(2, 3), power=2.0, scale=0.0, shift=3.0, expected=lambda x: np.full(x.shape, 9.0))
    for base, scale, shift in ((-1.0, 2.0, 0.0), (2.0, 1.0, 0.5), (10.0, 0.5, 1.0)):
        attrs = {"base": base, "scale": scale, "shift": shift}
        b = np.e if base == -1 else base
        yield case("Exp", real(3, 4), **attrs, expected=lambda x, b=b, a=scale, c=shift: b ** (c + a * x))
        yield case(
            "Log", positive(3, 4), **attrs, expected=lambda x, b=b, a=scale, c=shift: np.log(c + a * x) / np.log(b)
        )
    yield case("Threshold", real(3, 4), threshold=0.3, expected=lambda x: (x > 0.3).astype(float))
    yield case("Scale", real(2, 3, 4), real(3), bias_term=0, expected=lambda x, g: x * chan(g, x))
    yield case(
        "Scale", real(2, 3, 4), real(3), real(3), bias_term=1, expected=lambda x, g, b: x * chan(g, x) + chan(b, x)
    )
    yield case("Scale", real(2, 3), real(), expected=lambda x, g: x * g)
    yield case("Bias", real(2, 3, 4), real(3), expected=lambda x, b: x + chan(b, x))
    yield case("Axpy", real(2, 3, 1, 1), real(2, 3, 4, 5), real(2, 3, 4, 5), expected=lambda a, x, y: a * x + y)
    three = real(2, 3), real(2, 3), real(2, 3)
    yield case("Eltwise", *three, operation="PROD", expected=lambda a, b, c: a * b * c)
    yield case("Eltwise", *three, operation="MAX", expected=lambda a, b, c: np.maximum(np.maximum(a, b), c))
    for coeff in ([1.0, -1.0, 2.0], [0.5, 1.0, 1.0], [-1.0, -1.0, 3.0]):
        yield case(
            "Eltwise", *three, operation="SUM", coeff=coeff,
            expected=lambda a, b, c, k=coeff: k[0] * a + k[1] * b + k[2] * c,
        )  # fmt: skip
    table = real(5, 4)
    yield case("Embed", given([[0, 3], [4, 4]]), table, bias_term=0, expected=lambda i, t: t[i])
    yield case("Embed", given([1, 2, 2]), table, real(4), bias_term=1, expected=lambda i, t, b: t[i] + b)
    for operation, of in (
        ("SUM", lambda x: x.sum((1, 2))),
        ("ASUM", lambda x: np.abs(x).sum((1, 2))),
        ("SUMSQ", lambda x: (x * x).sum((1, 2))),
        ("MEAN", lambda x: x.mean((1, 2))),
    ):
        told = {"coeff": 0.5, "axis": 1}
        yield case("Reduction", real(2, 3, 4), operation=operation, told=told, expected=lambda x, of=of: 0.5 * of(x))


def blocks(x: Any, k: int) -> Any:
    """Squares that do not overlap, in the last two axes."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // k, k, w // k, k).swapaxes(3, 4).reshape(n, c, h // k, w // k, k * k)


def pooling() -> Iterator[Case]:
    yield case(
        "StochasticPooling", positive(2, 3, 4, 6), kernel_shape=[2, 2], strides=[2, 2], told={"out": (2, 3)},
        expected=lambda x: (blocks(x, 2) ** 2).sum(-1) / blocks(x, 2).sum(-1),
    )  # fmt: skip
    pyramid = {"kernels": [[4, 4], [2, 2]], "bins": [1, 4]}
    for pool, of in (
        ("MAX", lambda b: b.max(-1)),
        ("AVE", lambda b: b.mean(-1)),
        ("STOCHASTIC", lambda b: (b * b).sum(-1) / b.sum(-1)),
    ):
        yield case(
            "SPP", positive(2, 3, 4, 4), pool=pool, **pyramid,
            expected=lambda x, of=of: np.concatenate([of(blocks(x, k)).reshape(len(x), -1) for k in (4, 2)], axis=1),
        )  # fmt: skip

    def uneven(x: Any) -> Any:
        wide = np.pad(x, [(0, 0), (0, 0), (1, 0), (1, 0)])
        return np.concatenate([x.max((2, 3)), blocks(wide, 2).max(-1).reshape(len(x), -1)], axis=1)

    yield case("SPP", positive(1, 2, 3, 3), pool="MAX", kernels=[[3, 3], [2, 2]], bins=[1, 4], expected=uneven)
    for unpool, share in (("TILE", 1.0), ("AVE", 0.25)):
        yield case(
            "Unpooling", real(1, 2, 2, 3), unpool=unpool, kernel_shape=[2, 2], strides=[2, 2],
            expected=lambda x, share=share: share * x.repeat(2, 2).repeat(2, 3),
        )  # fmt: skip


def within(x: Any, size: int, alpha: float, beta: float) -> Any:
    half = size // 2
    wide = np.pad(x * x, [(0, 0)] * 2 + [(half, half)] * 2)
    windows = np.lib.stride_tricks.sliding_window_view(wide, (size, size), (2, 3))
    return x / (1 + alpha * windows.mean((-2, -1))) ** beta


def normalization() -> Iterator[Case]:
    square = {"size": 3, "alpha": 0.5, "beta": 0.75}
    yield case("LRNWithinChannel", real(2, 2, 4, 5), **square, expected=lambda x: within(x, **square))
    stored = real(3), positive(3), positive(1)

    def inference(x: Any, m: Any, v: Any, f: Any, g: Any = 1.0, b: Any = 0.0) -> Any:
        y = (x - chan(m / f, x)) / np.sqrt(chan(v / f, x) + EPSILON)
        return y * chan(np.broadcast_to(g, 3), x) + chan(np.broadcast_to(b, 3), x)

    def batch(x: Any, *_: Any) -> Any:
        axes = tuple(a for a in range(x.ndim) if a != 1)
        return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + EPSILON)

    yield case("BatchNorm", real(2, 3, 4, 5), *stored, use_global_stats=1, expected=inference)
    yield case("BatchNorm", real(4, 3), *stored, expected=inference)
    yield case("BatchNorm", real(2, 3, 4), *stored, real(3), real(3), scale_bias=1, expected=inference)
    yield case("BatchNorm", real(2, 3, 4, 5), *stored, use_global_stats=0, expected=batch)
    yield case("BN", real(2, 3, 4), real(3), real(3), expected=lambda x, g, b: x * chan(g, x) + chan(b, x))
    yield case(
        "BN", real(2, 3, 4), real(3), real(3), learning=1, expected=lambda x, g, b: batch(x) * chan(g, x) + chan(b, x)
    )
    for across in (0, 1):
        axes = (1, 2, 3) if across else (2, 3)
        for variance in (0, 1):
            attrs = {"across_channels": across, "normalize_variance": variance}
            yield case(
                "MVN", real(2, 3, 4, 5), **attrs,
                expected=lambda x, axes=axes, variance=variance: (x - x.mean(axes, keepdims=True))
                / (x.std(axes, keepdims=True) if variance else 1),
            )  # fmt: skip
    for spatial, axes in ((1, (1, 2, 3)), (0, (1,))):
        yield case(
            "Normalize", real(2, 3, 4, 5), real(3), across_spatial=spatial,
            expected=lambda x, g, axes=axes: x / np.sqrt((x * x).sum(axes, keepdims=True)) * chan(g, x),
        )  # fmt: skip


def step(c: Any, gates: Any, cont: Any) -> Any:
    i, f, o, g = np.split(gates, 4, axis=-1)
    c = cont[..., None] * sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return c, sigmoid(o) * np.tanh(c)


def unrolled(kind: str, static: bool) -> Callable[..., Any]:
    """The layer step by step in matrix form."""

    def run(x: Any, cont: Any, *rest: Any) -> Any:
        side, weights = (rest[0], rest[1:]) if static else (None, rest)
        wx, b = weights[:2]
        wh = weights[3] if static else weights[2]
        c = h = np.zeros((x.shape[1], wh.shape[1]))
        out = []
        for xt, mark in zip(x.reshape(*x.shape[:2], -1), cont, strict=True):
            total = xt @ wx.T + b + (h * mark[:, None]) @ wh.T + (side @ weights[2].T if static else 0)
            if kind == "LSTM":
                c, h = step(c, total, mark)
                out.append(h)
            else:
                h = np.tanh(total)
                out.append(np.tanh(h @ weights[-2].T + weights[-1]))
        return np.array(out)

    return run


def recurrent() -> Iterator[Case]:
    """3 steps of 2 streams with 4 numbers, 2 hidden units, a static input of 3."""
    x, cont, side = real(3, 2, 2, 2), Input(np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])), real(2, 3)
    cell = real(1, 2, 3), real(1, 2, 12), Input(np.array([[1.0, 0.0]]))
    yield case("LSTMUnit", *cell, outputs=2, expected=step)
    plain, sided = {"hidden_size": 2, "static_input": 0}, {"hidden_size": 2, "static_input": 1}
    yield case("LSTM", x, cont, real(8, 4), real(8), real(8, 2), **plain, expected=unrolled("LSTM", False))
    weights = real(8, 4), real(8), real(8, 3), real(8, 2)
    yield case("LSTM", x, cont, side, *weights, **sided, expected=unrolled("LSTM", True))
    output = real(2, 2), real(2)
    yield case("RNN", x, cont, real(2, 4), real(2), real(2, 2), *output, **plain, expected=unrolled("RNN", False))
    weights = real(2, 4), real(2), real(2, 3), real(2, 2)
    yield case("RNN", x, cont, side, *weights, *output, **sided, expected=unrolled("RNN", True))


def log_softmax(x: Any, axis: int = 1) -> Any:
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def losses() -> Iterator[Case]:
    labels = given([1, 0, 2])
    yield case("SoftmaxWithLoss", real(3, 4), labels, axis=1, expected=lambda x, k: -log_softmax(x)[range(3), k].mean())
    maps = given([[[0, 1], [2, 2]]])
    yield case(
        "SoftmaxWithLoss", real(1, 3, 2, 2), maps, axis=1,
        expected=lambda x, k: -np.take_along_axis(log_softmax(x), k[:, None], 1).mean(),
    )  # fmt: skip
    yield case("MultinomialLogisticLoss", positive(3, 4), labels, expected=lambda x, k: -np.log(x[range(3), k]).mean())
    yield case(
        "InfogainLoss", real(3, 4), labels, Input(np.eye(4) + 0.5), axis=1,
        expected=lambda x, k, g: -(g[k] * log_softmax(x)).sum() / 3,
    )  # fmt: skip
    yield case(
        "SigmoidCrossEntropyLoss", real(3, 4), positive(3, 4),
        expected=lambda x, t: -(t * np.log(sigmoid(x)) + (1 - t) * np.log(1 - sigmoid(x))).sum() / 3,
    )  # fmt: skip
    yield case("EuclideanLoss", real(3, 4), real(3, 4), expected=lambda x, y: ((x - y) ** 2).sum() / 6)
    for norm, of in (("L1", lambda v: v.sum()), ("L2", lambda v: (v * v).sum())):
        yield case(
            "HingeLoss", real(3, 4), labels, norm=norm,
            expected=lambda x, k, of=of: of(np.maximum(0, 1 + x * (1 - 2 * np.eye(4)[k]))) / 3,
        )  # fmt: skip
    alike = given([1, 0, 0])
    for legacy in (0, 1):

        def contrastive(a: Any, b: Any, s: Any, legacy: int = legacy) -> Any:
            near = ((a - b) ** 2).sum(1)
            far = np.maximum(0, 1 - near) if legacy else np.maximum(0, 1 - np.sqrt(near)) ** 2
            return np.where(s, near, far).sum() / 6

        yield case(
            "ContrastiveLoss", positive(3, 2), positive(3, 2), alike, legacy_version=legacy, expected=contrastive
        )

    def smooth(x: Any, t: Any, inside: Any = 1.0, outside: Any = 1.0) -> Any:
        d = inside * (x - t)
        return (outside * np.where(np.abs(d) < 1, d * d / 2, np.abs(d) - 0.5)).sum() / len(x)

    yield case("SmoothL1Loss", real(3, 4), real(3, 4), expected=smooth)
    yield case("SmoothL1Loss", real(3, 4), real(3, 4), positive(3, 4), positive(3, 4), expected=smooth)


FAMILIES = (pointwise, pooling, normalization, recurrent, losses)


def overlaps(boxes: Any, extra: float = 0.0) -> Any:
    """Intersection over union of every pair."""
    low = np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    common = np.maximum(high - low + extra, 0).prod(-1)
    areas = (boxes[:, 2:] - boxes[:, :2] + extra).prod(-1)
    return common / (areas[:, None] + areas[None] - common)


def suppressed(boxes: Any, threshold: float, extra: float = 0.0) -> Any:
    """Positions of the boxes, best first, that no better one that stays overlaps."""
    alive = np.ones(len(boxes), bool)
    table = overlaps(boxes, extra) > threshold
    for i in range(len(boxes)):
        if alive[i]:
            alive[i + 1 :] &= ~table[i, i + 1 :]
    return np.flatnonzero(alive)


def detected(location: Any, confidence: Any, prior: Any, keep: int, candidates: int) -> Any:
    box, variance = prior[0].reshape(2, -1, 4)
    size, centre = box[:, 2:] - box[:, :2], (box[:, :2] + box[:, 2:]) / 2
    rows = []
    for n in range(len(location)):
        code = location[n].reshape(-1, 4) * variance
        middle, half = code[:, :2] * size + centre, np.exp(code[:, 2:]) * size / 2
        corners = np.concatenate([middle - half, middle + half], 1)
        scores = confidence[n].reshape(len(box), -1)
        found = []
        for c in range(1, scores.shape[1]):
            best = np.argsort(-scores[:, c])[:candidates]
            found += [(scores[i, c], c, i) for i in best[suppressed(corners[best], 0.45)]]
        rows += [[n, c, s, *corners[i]] for s, c, i in sorted(found, reverse=True)[:keep]]
    return np.array(rows).reshape(1, 1, -1, 7)


def proposed(scores: Any, deltas: Any, image: Any, base: Any, stride: int, keep: int, candidates: int) -> Any:
    count, (rows, columns) = len(base), deltas.shape[2:]
    j, i = np.meshgrid(np.arange(columns) * stride, np.arange(rows) * stride)
    boxes = base[:, None, None] + np.stack([j, i, j, i], -1)
    size = boxes[..., 2:] - boxes[..., :2] + 1
    code = deltas[0].reshape(count, 4, rows, columns).transpose(0, 2, 3, 1)
    middle = code[..., :2] * size + boxes[..., :2] + size / 2
    half = np.exp(code[..., 2:]) * size / 2
    limit = image[0, [1, 0, 1, 0]] - 1
    corners = np.clip(np.concatenate([middle - half, middle + half], -1), 0, limit).reshape(-1, 4)
    best = np.argsort(-scores[0, count:].reshape(-1))[:candidates]
    left = best[suppressed(corners[best], 0.7, 1.0)][:keep]
    return np.concatenate([np.zeros((len(left), 1)), corners[left]], 1)


def region_means(x: Any, regions: Any, pooled: tuple[int, int], of: Callable[[Any], Any], group: int = 0) -> Any:
    """One number for each bin, whose rows and columns are picked by masks."""
    out = np.zeros((len(regions), x.shape[1] // (group**2 or 1), *pooled))
    for r, (n, *box) in enumerate(regions):
        left, top, right, bottom = np.round(box)
        for at in np.ndindex(out.shape[1:]):
            masks = []
            for k, (low, high) in enumerate(((top, bottom), (left, right))):
                size = max(high - low + 1, 1) / pooled[k]
                cells = np.arange(x.shape[2 + k])
                first, last = low + np.floor(at[1 + k] * size), low + np.ceil((at[1 + k] + 1) * size)
                masks.append((cells >= first) & (cells < last))
            channel = (at[0] * group + at[1]) * group + at[2] if group else at[0]
            window = x[int(n), channel][np.ix_(*masks)]
            out[(r, *at)] = of(window) if window.size else 0
    return out


def priors(count: int) -> Input:
    rng = np.random.default_rng(3)
    low = rng.uniform(0, 0.6, (count, 2))
    boxes = np.concatenate([low, low + rng.uniform(0.2, 0.4, (count, 2))], 1)
    return Input(np.stack([boxes.reshape(-1), np.tile([0.1, 0.1, 0.2, 0.2], count)])[None])


def bounded() -> Iterator[Case]:
    labels = given([1, 0, 2])
    hits = {"axis": 1}
    yield case("Accuracy", real(3, 4), labels, **hits, expected=lambda x, k: (x.argmax(1) == k).mean())

    def per_class(x: Any, k: Any) -> Any:
        right = x.argmax(1) == k
        return right.mean(), np.array([right[k == c].mean() if (k == c).any() else 0.0 for c in range(4)])

    yield case("Accuracy", real(3, 4), labels, **hits, outputs=2, told={"per_class": True}, expected=per_class)
    attrs = {"boxes": 9, "priors": 9, "classes": 2, "candidates": 5}
    yield case(
        "DetectionOutput", real(2, 36), positive(2, 27), priors(9), **attrs,
        told={"keep": 4, "overlap": 0.45, "threshold": 0.0}, expected=lambda a, b, c: detected(a, b, c, 4, 5),
    )  # fmt: skip
    base = np.array([[-4.0, -4.0, 11.0, 11.0], [-8.0, 0.0, 15.0, 7.0]])
    told = {"base": base, "stride": 8, "keep": 6}
    yield case(
        "Proposal", positive(1, 4, 3, 4), real(1, 8, 3, 4), Input(np.array([[24.0, 32.0, 1.0]])),
        anchors=24, candidates=15, told=told, expected=lambda s, d, im: proposed(s, d, im, base, 8, 6, 15),
    )  # fmt: skip
    regions = given([[0, 0, 0, 7, 5], [0, 1.2, 2.2, 2.4, 2.6], [0, 3, 1, 20, 30], [0, -4, -4, 3, 3]], float)
    for pooled in ((2, 3), (7, 7)):
        yield case(
            "ROIPooling", real(1, 2, 6, 8), regions, told={"pooled": pooled},
            expected=lambda x, r, p=pooled: region_means(x, r, p, np.max),
        )  # fmt: skip
    yield case(
        "PSROIPooling", real(1, 18, 6, 8), regions, told={"group": 3},
        expected=lambda x, r: region_means(x, r, (3, 3), np.mean, 3),
    )  # fmt: skip


BOUNDED = (bounded,)
