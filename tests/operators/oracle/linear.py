"""Convolutions, matrix products and einsum as nested loops."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
from tests.operators.oracle.number import Number, exp, floor, mac, minus_mac, pointwise, weighed


def zeros(shape: Any, like: Any) -> Any:
    """Counting zeros: what padding is made of."""
    out = np.empty(shape, object)
    one = like.flat[0]
    for index in np.ndindex(out.shape):
        out[index] = type(one)(0.0, one.tally)
    return out


def padded(x: Any, pads: Any) -> Any:
    """X with its spatial axes padded by zeros; pads as ONNX has them, all beginnings first."""
    rank = x.ndim - 2
    begin, end = list(pads[:rank]), list(pads[rank:])
    spatial = [n + b + e for n, b, e in zip(x.shape[2:], begin, end, strict=True)]
    out = zeros((*x.shape[:2], *spatial), x)
    out[(slice(None), slice(None), *(slice(b, b + n) for b, n in zip(begin, x.shape[2:], strict=True)))] = x
    return out


def conv(
    x: Any, w: Any, b: Any = None, *, group: int = 1, pads: Any = None, strides: Any = None, dilations: Any = None
):
    rank = x.ndim - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    x = padded(x, pads or [0] * 2 * rank)
    kernel = w.shape[2:]
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    spatial = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, strides, strict=True)]
    features, depth = w.shape[:2]
    y = np.empty((x.shape[0], features, *spatial), object)
    for n, m, *at in np.ndindex(y.shape):
        first = m // (features // group) * depth
        total: Any = 0.0
        for c, *k in np.ndindex((depth, *kernel)):
            cell = (a * s + i * d for a, s, i, d in zip(at, strides, k, dilations, strict=True))
            total = mac(total, x[(n, first + c, *cell)], w[(m, c, *k)])
        y[(n, m, *at)] = total if b is None else total + b[m]
    return y


def conv_transpose(x: Any, w: Any, b: Any = None, *, group: int = 1, pads: Any = None, strides: Any = None):
    rank = x.ndim - 2
    strides, pads = strides or [1] * rank, pads or [0] * 2 * rank
    depth, features = w.shape[:2]
    kernel = w.shape[2:]
    spatial = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, kernel, strict=True)]
    y = np.full((x.shape[0], features * group, *spatial), 0.0, object)
    for n, c, *at in np.ndindex(x.shape):
        first = c // (depth // group) * features
        for m, *k in np.ndindex((features, *kernel)):
            cell = (n, first + m, *(a * s + i for a, s, i in zip(at, strides, k, strict=True)))
            y[cell] = mac(y[cell], x[(n, c, *at)], w[(c, m, *k)])
    y = y[(slice(None), slice(None), *(slice(pads[i], y.shape[2 + i] - pads[rank + i]) for i in range(rank)))]
    return y if b is None else y + b.reshape(-1, *[1] * rank)


def matmul(a: Any, b: Any) -> Any:
    left = a[np.newaxis] if a.ndim == 1 else a
    right = b[:, np.newaxis] if b.ndim == 1 else b
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left = np.broadcast_to(left, batch + left.shape[-2:])
    right = np.broadcast_to(right, batch + right.shape[-2:])
    y = np.empty((*batch, left.shape[-2], right.shape[-1]), object)
    for *n, i, j in np.ndindex(y.shape):
        total: Any = 0.0
        for k in range(left.shape[-1]):
            total = mac(total, left[(*n, i, k)], right[(*n, k, j)])
        y[(*n, i, j)] = total
    if a.ndim == 1:
        y = y[..., 0, :]
    return y[..., 0] if b.ndim == 1 else y


def deform_conv(
    x: Any, w: Any, offset: Any, b: Any = None, mask: Any = None, *,
    group: int = 1, offset_group: int = 1, pads: Any = None, strides: Any = None, dilations: Any = None,
) -> Any:  # fmt: skip
    """A convolution of what lies at the kernel's places, each moved by an offset of its own."""
    rank = x.ndim - 2
    strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, pads or [0] * 2 * rank
    kernel, spatial = w.shape[2:], offset.shape[2:]
    offset = offset.reshape(x.shape[0], offset_group, *kernel, rank, *spatial)
    mask = None if mask is None else mask.reshape(x.shape[0], offset_group, *kernel, *spatial)
    zero = type(x.flat[0])(0.0, x.flat[0].tally)
    sampled = np.empty((x.shape[0], x.shape[1], *kernel, *spatial), object)
    each = x.shape[1] // offset_group
    for n, g, *at in np.ndindex((x.shape[0], offset_group, *kernel, *spatial)):
        k, out = at[:rank], at[rank:]
        lows, weights = [], []
        for axis in range(rank):
            base = float(out[axis] * strides[axis] - pads[axis] + k[axis] * dilations[axis])
            place = offset[(n, g, *k, axis, *out)] + base
            low = floor(place)
            lows.append(int(low.value))
            rest = place - low
            weights.append((1.0 - rest, rest))
        near = []
        for pick in np.ndindex(*[2] * rank):
            factor = weights[0][pick[0]]
            for axis in range(1, rank):
                factor = factor * weights[axis][pick[axis]]
            near.append((tuple(low + i for low, i in zip(lows, pick, strict=True)), factor))
        for c in range(g * each, (g + 1) * each):
            total: Any = 0.0
            for cell, factor in near:
                inside = all(0 <= i < m for i, m in zip(cell, x.shape[2:], strict=True))
                total = weighed(total, x[(n, c, *cell)] if inside else zero, factor)
            sampled[(n, c, *at)] = total if mask is None else total * mask[(n, g, *at)]
    features, depth = w.shape[:2]
    y = np.empty((x.shape[0], features, *spatial), object)
    for n, m, *out in np.ndindex(y.shape):
        first = m // (features // group) * depth
        total = 0.0
        for c, *k in np.ndindex((depth, *kernel)):
            total = mac(total, sampled[(n, first + c, *k, *out)], w[(m, c, *k)])
        y[(n, m, *out)] = total if b is None else total + b[m]
    return y


def causal_conv_with_state(x: Any, w: Any, b: Any = None, past: Any = None, *, activation: str = "none") -> Any:
    before = zeros((*x.shape[:2], w.shape[-1] - 1), x) if past is None else past
    whole = np.concatenate([before, x], axis=2)
    y = conv(whole, w, b, group=x.shape[1])
    if activation != "none":
        y = y * pointwise(lambda v: 1.0 / (1.0 + exp(-v)), y)
    return y, whole[..., whole.shape[2] - w.shape[-1] + 1 :]


def col2im(x: Any, image: Any, block: Any, *, pads: Any = None, strides: Any = None, dilations: Any = None) -> Any:
    """Blocks added up in a padded image, of which the padding is cut off."""
    rank = len(image)
    strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, pads or [0] * 2 * rank
    whole = [int(n) + pads[a] + pads[rank + a] for a, n in enumerate(image)]
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, d, k, s in zip(whole, dilations, block, strides, strict=True)]
    x = x.reshape(x.shape[0], -1, *block, *counts)
    y = np.full((*x.shape[:2], *whole), 0.0, object)
    for n, c, *at in np.ndindex(x.shape):
        k, place = at[:rank], at[rank:]
        cell = (n, c, *(p * s + i * d for p, s, i, d in zip(place, strides, k, dilations, strict=True)))
        y[cell] = y[cell] + x[(n, c, *at)]
    return y[(slice(None), slice(None), *(slice(pads[a], pads[a] + int(n)) for a, n in enumerate(image)))]


def determinant(x: Any) -> Any:
    """The product of the pivots of Gaussian elimination, the largest of each column taken, with a sign for swaps."""
    y = np.empty(x.shape[:-2], object)
    for at in np.ndindex(y.shape):
        a = x[at].copy()
        result: Any = 1.0
        for k in range(len(a)):
            best, row = Number(-math.inf, a[k, k].tally), k
            for i in range(k, len(a)):
                size = abs(a[i, k])
                if (size > best).value:
                    best, row = size, i
            result = result * a[row, k]
            if row != k:
                a[[k, row]] = a[[row, k]]
                result = -result
            for i in range(k + 1, len(a)):
                factor = a[i, k] / a[k, k]
                for j in range(k + 1, len(a)):
                    a[i, j] = minus_mac(a[i, j], factor, a[k, j])
        y[at] = result
    return y


def gemm(a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0):  # noqa: N803 - as in ONNX
    y = matmul(a.T if transA else a, b.T if transB else b)
    if alpha != 1.0:
        y = y * alpha
    if c is not None:
        y = y + (c * beta if beta != 1.0 else c)
    return y


def einsum(*operands: Any, equation: str) -> Any:
    """Explicit equations with plain letters and ``...``: a loop over all indices for each two from the left."""
    left, _, right = equation.replace(" ", "").partition("->")
    named: list[tuple[list[str], Any]] = []
    for term, x in zip(left.split(","), operands, strict=True):
        before, _, after = term.partition("...")
        named.append(([*before, *map(str, range(len(before) + len(after) - x.ndim, 0)), *after], x))
    dots = sorted({label for labels, _ in named for label in labels if label[0] == "-"}, key=int)
    out = [label for part in right.replace("...", ".") for label in (dots if part == "." else [part])]
    result = named[0]
    for place, operand in enumerate(named[1:], start=1):
        needed = {*out, *(label for labels, _ in named[place + 1 :] for label in labels)}
        one, other = alone(result, operand, needed), alone(operand, result, needed)
        kept = [label for label in dict.fromkeys((*one[0], *other[0])) if label in needed]
        result = kept, multiplied(one, other, kept)
    labels, x = alone(result, (out, None), set(out))
    return multiplied((labels, x), None, out)


def alone(one: tuple[list[str], Any], other: tuple[list[str], Any], needed: set[str]) -> tuple[list[str], Any]:
    """An operand summed over the labels that the other does not have and nobody needs."""
    labels, x = one
    kept = [label for label in dict.fromkeys(labels) if label in other[0] or label in needed]
    return (labels, x) if set(kept) == set(labels) else (kept, multiplied(one, None, kept))


def multiplied(one: tuple[list[str], Any], other: tuple[list[str], Any] | None, out: list[str]) -> Any:
    """The product of two operands, or one operand, summed over all labels that the result does not have."""
    operands = [one] if other is None else [one, other]
    extents: dict[str, int] = {}
    for labels, x in operands:
        for label, n in zip(labels, x.shape, strict=True):
            extents[label] = max(n, extents.get(label, 1))
    summed = [label for label in extents if label not in out]
    y = np.empty([extents[label] for label in out], object)
    for at in np.ndindex(y.shape):
        total: Any = 0.0
        for inner in product(*(range(extents[label]) for label in summed)):
            where = dict(zip((*out, *summed), (*at, *inner), strict=True))
            terms = [
                x[tuple(where[i] if n > 1 else 0 for i, n in zip(names, x.shape, strict=True))] for names, x in operands
            ]
            if len(terms) == 1:
                total = total + terms[0] if summed else terms[0]
            else:
                total = mac(total, *terms) if summed else terms[0] * terms[1]
        y[at] = total
    return y


DEFINITIONS = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "DeformConv": deform_conv,
    "CausalConvWithState": causal_conv_with_state,
    "Col2Im": col2im,
    "MatMul": matmul,
    "Gemm": gemm,
    "Einsum": einsum,
}

ALGORITHMS = {"Det": determinant}
