"""Gradients of layers as nested loops, on numbers that count. What the forward pass keeps is there without counting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.linear import matmul, zeros
from tests.operators.oracle.number import exp, mac, numbers, pointwise, values
from tests.operators.oracle.reduction import add_up


def kept(array: Any, like: Any) -> Any:
    """Numbers that the forward pass left behind."""
    return numbers(np.asarray(array, float), like.flat[0].tally)


def conv(g: Any, y: Any, wanted: Any, x: Any, w: Any, b: Any = None, *, group: int = 1, pads: Any = None, strides: Any = None, dilations: Any = None):  # fmt: skip # noqa: E501
    rank = x.ndim - 2
    pads, strides, dilations = pads or [0] * 2 * rank, strides or [1] * rank, dilations or [1] * rank
    extents = [n + pads[i] + pads[rank + i] for i, n in enumerate(x.shape[2:])]
    dx, dw = zeros((*x.shape[:2], *extents), g), zeros(w.shape, g)
    wide = zeros(dx.shape, x)
    inner = (slice(None), slice(None), *(slice(pads[i], pads[i] + n) for i, n in enumerate(x.shape[2:])))
    wide[inner] = x
    features, depth = w.shape[:2]
    for n, m, *at in np.ndindex(g.shape):
        first = m // (features // group) * depth
        for c, *k in np.ndindex((depth, *w.shape[2:])):
            cell = (n, first + c, *(a * s + i * d for a, s, i, d in zip(at, strides, k, dilations, strict=True)))
            if 0 in wanted:
                dx[cell] = mac(dx[cell], g[(n, m, *at)], w[(m, c, *k)])
            if 1 in wanted:
                dw[(m, c, *k)] = mac(dw[(m, c, *k)], g[(n, m, *at)], wide[cell])
    found = {0: dx[inner], 1: dw}
    if 2 in wanted:
        found[2] = add_up(g, [0, *range(2, g.ndim)]).reshape(-1)
    return {i: found[i] for i in wanted}


def conv_transpose(g: Any, y: Any, wanted: Any, x: Any, w: Any, b: Any = None, *, group: int = 1, strides: Any = None):
    strides = strides or [1] * (x.ndim - 2)
    depth, features = w.shape[:2]
    dx, dw = zeros(x.shape, g), zeros(w.shape, g)
    for n, c, *at in np.ndindex(x.shape):
        first = c // (depth // group) * features
        for m, *k in np.ndindex((features, *w.shape[2:])):
            cell = (n, first + m, *(a * s + i for a, s, i in zip(at, strides, k, strict=True)))
            if 0 in wanted:
                dx[(n, c, *at)] = mac(dx[(n, c, *at)], g[cell], w[(c, m, *k)])
            if 1 in wanted:
                dw[(c, m, *k)] = mac(dw[(c, m, *k)], g[cell], x[(n, c, *at)])
    found = {0: dx, 1: dw}
    if 2 in wanted:
        found[2] = add_up(g, [0, *range(2, g.ndim)]).reshape(-1)
    return {i: found[i] for i in wanted}


def contracted(target: str, *operands: tuple[str, Any]) -> Any:
    """An Einstein sum of two operands as a loop over all index values; indices of extent 1 broadcast."""
    (left, a), (right, b) = operands
    extents: dict[str, int] = {}
    for labels, array in operands:
        for label, n in zip(labels, array.shape, strict=True):
            extents[label] = max(extents.get(label, 1), n)
    out = np.empty([extents[label] for label in target], object)
    out[...] = 0.0
    order = list(extents)
    for index in np.ndindex(*extents.values()):
        at = dict(zip(order, index, strict=True))
        place = tuple(at[label] for label in target)
        out[place] = mac(out[place], _pick(a, left, at), _pick(b, right, at))
    return out


def _pick(array: Any, labels: str, at: dict[str, int]) -> Any:
    return array[tuple(at[label] if n > 1 else 0 for label, n in zip(labels, array.shape, strict=True))]


def matmul_back(g: Any, y: Any, wanted: Any, a: Any, b: Any) -> dict[int, Any]:
    batch = "uvwxyz"[: g.ndim - 2]
    left, right = batch[len(batch) - (a.ndim - 2) :] + "ik", batch[len(batch) - (b.ndim - 2) :] + "kj"
    found = {}
    if 0 in wanted:
        found[0] = contracted(_own(left, a), (batch + "ij", g), (right, b)).reshape(a.shape)
    if 1 in wanted:
        found[1] = contracted(_own(right, b), (left, a), (batch + "ij", g)).reshape(b.shape)
    return found


def _own(labels: str, array: Any) -> str:
    """The labels of a gradient: axes of extent 1 are summed over."""
    return "".join(label for label, n in zip(labels, array.shape, strict=True) if n > 1)


def gemm(g: Any, y: Any, wanted: Any, a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0):  # fmt: skip # noqa: E501, N803
    found: dict[int, Any] = {}
    if 2 in wanted:
        dc = g if c.shape == g.shape else add_up(g, [0]).reshape(c.shape)
        found[2] = dc if beta == 1.0 else dc * beta
    if wanted & {0, 1}:
        scaled = g if alpha == 1.0 else g * alpha
        if 0 in wanted:
            da = matmul(scaled, b if transB else b.T)
            found[0] = da.T if transA else da
        if 1 in wanted:
            db = matmul(a if transA else a.T, scaled)
            found[1] = db.T if transB else db
    return found


def attention(g: Any, y: Any, wanted: Any, q: Any, k: Any, v: Any, *, scale: float | None = None, softcap: float = 0.0):
    heads, root = q.shape[1], math.sqrt(1.0 / math.sqrt(q.shape[-1]) if scale is None else scale)
    fold = heads // k.shape[1]
    qs, ks = kept(values(q) * root, q), kept(np.repeat(values(k), fold, 1) * root, q)
    vs = np.repeat(v, fold, 1)
    scores = np.einsum("bhsd,bhtd->bhst", values(qs).astype(float), values(ks).astype(float))
    t = np.tanh(scores / softcap) if softcap else None
    scores = softcap * t if softcap else scores
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    p = kept(weights / weights.sum(-1, keepdims=True), q)
    found: dict[int, Any] = {}
    grouped = (q.shape[0], k.shape[1], fold)
    if 2 in wanted:
        parts = p.reshape(*grouped, *p.shape[2:]), g.reshape(*grouped, *g.shape[2:])
        found[2] = contracted("bjte", ("bjfst", parts[0]), ("bjfse", parts[1]))
    if wanted & {0, 1}:
        dp = matmul(g, vs.transpose(0, 1, 3, 2))
        ds = p * (dp - add_up(dp * p, [-1]))
        if softcap:
            cap = kept(t, q)
            ds = ds * softcap * (1.0 - cap * cap) / softcap
        if 0 in wanted:
            found[0] = matmul(ds, ks) * root
        if 1 in wanted:
            dk = matmul(ds.transpose(0, 1, 3, 2), qs) * root
            found[1] = kept(values(dk).astype(float).reshape(*grouped, *dk.shape[2:]).sum(2), q)
    return found


def softmax(g: Any, y: Any, wanted: Any, x: Any, axis: int = -1) -> dict[int, Any]:
    return {0: y * (g - add_up(g * y, [axis]))}


def log_softmax(g: Any, y: Any, wanted: Any, x: Any, axis: int = -1) -> dict[int, Any]:
    return {0: g - pointwise(exp, y) * add_up(g, [axis])}


def batch_normalization(g: Any, y: Any, wanted: Any, x: Any, scale: Any, b: Any, mu: Any, var: Any, *, training_mode: int = 0, epsilon: float = 1e-5):  # fmt: skip # noqa: E501
    per, axes = [1, -1, *[1] * (x.ndim - 2)], [a for a in range(x.ndim) if a != 1]
    plain = values(x).astype(float)
    centre = plain.mean(tuple(axes)) if training_mode else values(mu).astype(float)
    spread = plain.var(tuple(axes)) if training_mode else values(var).astype(float)
    rate = kept(1.0 / np.sqrt(spread + epsilon), x)
    each = float(x.size // x.shape[1])
    found: dict[int, Any] = {}
    batch = 0 in wanted and training_mode
    if batch or 1 in wanted:
        d = x - kept(centre, x).reshape(per)
        dot = add_up(g * d, axes)
    if batch or 2 in wanted:
        total = add_up(g, axes)
    if batch:
        k = dot.reshape(-1) * rate * rate / each
        factor = rate * scale
        found[0] = (g - total / each - d * k.reshape(per)) * factor.reshape(per)
    elif 0 in wanted:
        found[0] = g * kept(values(rate) * values(scale), x).reshape(per)
    if 1 in wanted:
        found[1] = dot.reshape(-1) * rate
    if 2 in wanted:
        found[2] = total.reshape(-1)
    return found


def standardized(g: Any, wanted: Any, x: Any, scale: Any, axes: Any, scale_axes: Any, epsilon: float) -> dict[int, Any]:
    """Gradients of scale × (x − mean) × rate + bias, mean and rate along axes."""
    plain = values(x).astype(float)
    centre = kept(plain.mean(axes, keepdims=True), x)
    rate = kept(1.0 / np.sqrt(plain.var(axes, keepdims=True) + epsilon), x)
    each = float(x.size // centre.size)
    found: dict[int, Any] = {}
    if wanted & {0, 1}:
        hat = (x - centre) * rate
    if 0 in wanted:
        inner = g if scale is None else g * scale
        left, right = add_up(inner, axes) / each, add_up(inner * hat, axes) / each
        found[0] = rate * (inner - left - hat * right)
    if 1 in wanted:
        found[1] = add_up(g * hat, scale_axes)
    if 2 in wanted:
        found[2] = add_up(g, scale_axes)
    return found


def layer_normalization(g: Any, y: Any, wanted: Any, x: Any, scale: Any, b: Any = None, *, axis: int = -1):
    axes = tuple(range(axis % x.ndim, x.ndim))
    rest = tuple(a for a in range(x.ndim) if a not in axes)
    found = standardized(g, wanted, x, scale, axes, rest, 1e-5)
    return {i: v.reshape((x, scale, b)[i].shape) for i, v in found.items()}


def group_normalization(g: Any, y: Any, wanted: Any, x: Any, scale: Any, b: Any, *, num_groups: int):
    shape = (x.shape[0], num_groups, x.shape[1] // num_groups, *x.shape[2:])
    own = scale.reshape(1, num_groups, -1, *[1] * (x.ndim - 2))
    axes, rest = tuple(range(2, len(shape))), (0, *range(3, len(shape)))
    found = standardized(g.reshape(shape), wanted, x.reshape(shape), own, axes, rest, 1e-5)
    return {i: v.reshape((x, scale, b)[i].shape) for i, v in found.items()}


def instance_normalization(g: Any, y: Any, wanted: Any, x: Any, scale: Any, b: Any):
    return group_normalization(g, y, wanted, x, scale, b, num_groups=x.shape[1])


def rms_normalization(g: Any, y: Any, wanted: Any, x: Any, scale: Any, *, axis: int = -1) -> dict[int, Any]:
    axes = tuple(range(axis % x.ndim, x.ndim))
    plain = values(x).astype(float)
    rate = kept(1.0 / np.sqrt((plain**2).mean(axes, keepdims=True) + 1e-5), x)
    each = float(x.size // rate.size)
    hat = x * rate
    found: dict[int, Any] = {}
    if 0 in wanted:
        inner = g * scale
        found[0] = rate * (inner - hat * (add_up(inner * hat, axes) / each))
    if 1 in wanted:
        found[1] = add_up(g * hat, [a for a in range(x.ndim) if a not in axes]).reshape(scale.shape)
    return found


def lrn(g: Any, y: Any, wanted: Any, x: Any, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0):
    before = (size - 1) // 2
    plain = values(x).astype(float)
    sums = np.zeros(plain.shape)
    for c in range(plain.shape[1]):
        sums[:, c] = (plain[:, max(c - before, 0) : c + size - before] ** 2).sum(1)
    s = kept(bias + alpha / size * sums, x)
    ratio = g * y / s
    total = np.empty(x.shape, object)
    total[...] = 0.0
    wide = np.concatenate(
        [zeros(x[:, :1].shape, x)] * (size - 1 - before) + [ratio] + [zeros(x[:, :1].shape, x)] * before, 1
    )
    for c in range(x.shape[1]):
        for i in range(size):
            total[:, c] = total[:, c] + wide[:, c + i]
    return {0: g * s**-beta - 2.0 * alpha * beta / size * x * total}


def lp_normalization(g: Any, y: Any, wanted: Any, x: Any, *, axis: int = -1, p: int = 2) -> dict[int, Any]:
    plain = values(x).astype(float)
    norm = kept(np.linalg.norm(plain, p, axis, keepdims=True), x)
    along = y if p == 2 else pointwise(lambda v: v.does("cmp", float(np.sign(v.value))), x)
    return {0: (g - along * add_up(g * y, [axis])) / norm}


def mean_variance(g: Any, y: Any, wanted: Any, x: Any, *, axes: Any = (0, 2, 3)) -> dict[int, Any]:
    return standardized(g, wanted, x, None, tuple(axes), (), 0.0)


def cross_entropy(g: Any, y: Any, wanted: Any, x: Any, labels: Any, *, reduction: str = "mean") -> dict[int, Any]:
    plain = values(x).astype(float)
    logs = kept(plain - np.log(np.exp(plain).sum(1, keepdims=True)), x)
    share = np.broadcast_to(np.asarray(g, object), labels.shape)
    if reduction == "mean":
        one = np.asarray(g, object).reshape(-1)[0] / float(labels.size)
        share = np.full(labels.shape, one, object)
    inner = zeros(x.shape, x)
    for n, label in enumerate(labels):
        inner[n, label] = -share[n]
    return {0: inner - pointwise(exp, logs) * add_up(inner, [1])}


def nll(g: Any, y: Any, wanted: Any, x: Any, labels: Any, *, reduction: str = "mean") -> dict[int, Any]:
    flat = np.asarray(g, object).reshape(-1)
    one = flat[0] / float(labels.size) if reduction == "mean" else None
    dx = zeros(x.shape, x)
    for n, label in enumerate(labels):
        dx[n, label] = -(flat[0] if reduction == "sum" else flat[n] if one is None else one)
    return {0: dx}


GRADIENTS: dict[str, Callable[..., Any]] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "MatMul": matmul_back,
    "Gemm": gemm,
    "Attention": attention,
    "Softmax": softmax,
    "LogSoftmax": log_softmax,
    "BatchNormalization": batch_normalization,
    "LayerNormalization": layer_normalization,
    "GroupNormalization": group_normalization,
    "InstanceNormalization": instance_normalization,
    "RMSNormalization": rms_normalization,
    "LRN": lrn,
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance,
    "SoftmaxCrossEntropyLoss": cross_entropy,
    "NegativeLogLikelihoodLoss": nll,
}
