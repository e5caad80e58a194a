"""Products and distances of PyTorch's, as nested loops."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from tests.operators.arrays import Input, real
from tests.operators.calls import Call, call
from tests.operators.calls_losses import distance, dot, squares
from tests.operators.oracle.attention import attention
from tests.operators.oracle.linear import conv, matmul
from tests.operators.oracle.number import erf, larger, mac, nearest, numbers, pointwise, smaller, sqrt
from tests.operators.oracle.quantized import dynamic_quantize

#: Scales of quantized numbers that come in and go out.
OF_X, OF_Y = 0.05, 0.013


def conv_tbc(x: Any, w: Any, b: Any, pad: int = 0) -> Any:
    """(time, batch, channels) with a kernel (places, channels, features)."""
    places, depth, features = w.shape
    zeros = numbers(np.zeros((pad, *x.shape[1:])), x.flat[0].tally)
    x = np.concatenate([zeros, x, zeros])
    y = np.empty((len(x) - places + 1, x.shape[1], features), object)
    for t, n, f in np.ndindex(y.shape):
        total: Any = 0.0
        for k, c in np.ndindex((places, depth)):
            total = mac(total, x[t + k, n, c], w[k, c, f])
        y[t, n, f] = total + b[f]
    return y


def orders(matrices: list[Any]) -> Iterator[Any]:
    """The product in every order that there is, as nested pairs."""
    if len(matrices) == 1:
        yield matrices[0]
    for cut in range(1, len(matrices)):
        for left in orders(matrices[:cut]):
            for right in orders(matrices[cut:]):
                yield (left, right)


def multiplied(order: Any) -> Any:
    return matmul(multiplied(order[0]), multiplied(order[1])) if isinstance(order, tuple) else order


def chain(*matrices: Any) -> Any:
    """The product in the order that takes the fewest operations, found by trying all of them."""
    tally = matrices[0].flat[0].tally
    results = []
    for order in orders(list(matrices)):
        before = Counter(tally)
        y = multiplied(order)
        results.append((tally["mac"] - before["mac"], y))
        tally.clear()
        tally.update(before)
    work, y = min(results, key=lambda result: result[0])
    tally["mac"] += work
    return y


def outer(a: Any, b: Any) -> Any:
    return pointwise(lambda x, y: x * y, a[:, None], b[None, :])


def batched_sum(a: Any, b: Any) -> Any:
    """The sum over a batch of products, accumulated as they are made."""
    y = np.empty((a.shape[1], b.shape[2]), object)
    for i, j in np.ndindex(y.shape):
        total: Any = 0.0
        for n, k in np.ndindex((len(a), a.shape[2])):
            total = mac(total, a[n, i, k], b[n, k, j])
        y[i, j] = total
    return y


def tensordot(x: Any, y: Any, of_x: list[int], of_y: list[int]) -> Any:
    """Two arrays with some axes of one summed against some of the other."""
    kept_x = [a for a in range(x.ndim) if a not in of_x]
    kept_y = [a for a in range(y.ndim) if a not in of_y]
    if not of_x:
        return np.array([[a * b for b in y.ravel()] for a in x.ravel()], object).reshape(x.shape + y.shape)
    inner = math.prod(x.shape[a] for a in of_x)
    left, right = x.transpose(kept_x + of_x).reshape(-1, inner), y.transpose(of_y + kept_y).reshape(inner, -1)
    return matmul(left, right).reshape([x.shape[a] for a in kept_x] + [y.shape[a] for a in kept_y])


def bilinear(x: Any, y: Any, w: Any, b: Any = None) -> Any:
    out = np.empty((len(x), len(w)), object)
    for n, o in np.ndindex(out.shape):
        total: Any = 0.0
        for j in range(w.shape[2]):
            inner: Any = 0.0
            for i in range(w.shape[1]):
                inner = mac(inner, x[n, i], w[o, i, j])
            total = mac(total, inner, y[n, j])
        out[n, o] = total if b is None else total + b[o]
    return out


def sparse(a: Any, b: Any) -> Any:
    """The elements that are not 0, times the rows that they meet."""
    y = np.full((len(a), b.shape[1]), 0.0, object)
    for i, k in np.ndindex(a.shape):
        if a[i, k].value:
            for j in range(b.shape[1]):
                y[i, j] = mac(y[i, j], a[i, k], b[k, j])
    return y


def gelu(x: Any) -> Any:
    return 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))


def products() -> Iterator[Call]:
    for pad in (0, 1):
        yield call(
            "conv_tbc",
            lambda x, w, b, pad=pad: torch.conv_tbc(x, w, b, pad),
            lambda x, w, b, pad=pad: conv_tbc(x, w, b, pad),
            real(5, 2, 3), real(3, 3, 4), real(4),
        )  # fmt: skip
    for shapes in (
        [(2, 5), (5, 3), (3, 4)],
        [(5, 2), (2, 6), (6, 1), (1, 3)],
        [(4,), (4, 3), (3, 2)],
        [(3, 4), (4, 2), (2,)],
        [(3,), (3, 2), (2,)],
        [(2, 3), (3, 4)],
    ):
        yield call("chain_matmul", lambda *t: torch.linalg.multi_dot(t), chain, *(real(*s) for s in shapes))
    c, a, b = real(3, 4), real(3), real(4)
    yield call("addr", torch.addr, lambda c, a, b: c + outer(a, b), c, a, b)
    options = {"alpha": 2.0, "beta": 3.0}
    weighted = lambda c, y: c * 3.0 + y * 2.0  # noqa: E731
    yield call("addr", lambda *t: torch.addr(*t, **options), lambda c, a, b: weighted(c, outer(a, b)), real(4), a, b)
    batches = real(2, 3, 4), real(2, 4, 5)
    yield call("addbmm", torch.addbmm, lambda c, a, b: c + batched_sum(a, b), real(3, 5), *batches)
    yield call(
        "addbmm",
        lambda *t: torch.addbmm(*t, **options),
        lambda c, a, b: weighted(c, batched_sum(a, b)),
        real(3, 1),
        *batches,
    )
    yield call("addbmm", lambda *t: torch.addbmm(*t, beta=0), lambda c, a, b: batched_sum(a, b), real(3, 5), *batches)
    x, y = real(2, 3, 4), real(4, 3, 5)
    yield call(
        "tensordot",
        lambda x, y: torch.tensordot(x, y, ([1, 2], [1, 0])),
        lambda x, y: tensordot(x, y, [1, 2], [1, 0]),
        x,
        y,
    )
    yield call("tensordot", lambda x, y: torch.tensordot(x, y, 1), lambda x, y: tensordot(x, y, [2], [0]), x, y)
    yield call(
        "tensordot", lambda x, y: torch.tensordot(x, y, 0), lambda x, y: tensordot(x, y, [], []), real(2), real(3)
    )
    yield call("bilinear", F.bilinear, bilinear, real(2, 3), real(2, 4), real(5, 3, 4))
    yield call("bilinear", F.bilinear, bilinear, real(2, 3), real(2, 4), real(5, 3, 4), real(5))
    for left, right in (((3, 4), (3, 4)), ((2, 1, 4), (1, 3, 4))):
        yield call("linalg_vecdot", torch.linalg.vecdot, dot, real(*left), real(*right))
    yield call(
        "linalg_vecdot",
        lambda x, y: torch.linalg.vecdot(x, y, dim=0),
        lambda x, y: dot(x.T, y.T),
        real(3, 4), real(3, 4),
    )  # fmt: skip
    matrices = real(4), real(2, 3), real(3, 4)
    relu = torch._addmm_activation
    yield call(
        "_addmm_activation", relu, lambda c, a, b: pointwise(lambda v: larger(0.0, v), c + matmul(a, b)), *matrices
    )
    yield call(
        "_addmm_activation",
        lambda *t: relu(*t, use_gelu=True),
        lambda c, a, b: pointwise(gelu, c + matmul(a, b)),
        *matrices,
    )
    yield call(
        "_addmm_activation",
        lambda *t: relu(*t, **options),
        lambda c, a, b: pointwise(lambda v: larger(0.0, v), weighted(c, matmul(a, b))),
        *matrices,
    )
    holes = Input(np.array([[0.0, 1.5, 0.0], [2.0, 0.0, 0.0], [0.5, -1.0, 3.0]]))
    yield call("flex_attention", flexible, attention, real(1, 2, 3, 4), real(1, 2, 5, 4), real(1, 2, 5, 6), whole=False)
    yield call("ragged_attention", jagged, ragged, real(8, 2, 3), real(8, 2, 3), real(8, 2, 3), whole=False)
    yield call("_sparse_mm", torch.sparse.mm, sparse, holes, real(3, 2), prepare=lambda a, b: [a.to_sparse(), b])


def flexible(q: Any, k: Any, v: Any) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(q, k, v)


#: Where the sequences of ``jagged`` begin and end.
BORDERS = (0, 3, 8)


def jagged(q: Any, k: Any, v: Any) -> Any:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    borders = torch.tensor(BORDERS)
    heads = [torch.nested.nested_tensor_from_jagged(x, borders).transpose(1, 2) for x in (q, k, v)]
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(*heads).transpose(1, 2).values()


def ragged(q: Any, k: Any, v: Any) -> Any:
    """(tokens, heads, width), each sequence of tokens by itself."""
    sequences = [
        attention(*(x[start:end].transpose(1, 0, 2)[None] for x in (q, k, v)))[0].transpose(1, 0, 2)
        for start, end in itertools.pairwise(BORDERS)
    ]
    return np.concatenate(sequences)


def narrow() -> Iterator[Call]:
    """Kernels that PyTorch has for low precision alone; the numbers are small and whole, so that nothing is rounded."""

    def whole(*shape: int) -> Input:
        return Input(np.round(2.0 * real(*shape).array))

    a, b = whole(2, 3, 16), whole(2, 16, 8)

    def grouped(*t: Any, **more: Any) -> Any:
        return F.grouped_mm(*(x.bfloat16() for x in t), **more).float()

    ends = torch.tensor([2, 5], dtype=torch.int32)
    yield call("_grouped_mm", grouped, matmul, a, b)
    yield call(
        "_grouped_mm",
        lambda a, b: grouped(a, b, offs=ends),
        lambda a, b: np.concatenate([matmul(a[:2], b[0]), matmul(a[2:], b[1])]),
        whole(5, 16), whole(2, 16, 8),
    )  # fmt: skip
    halves = torch.tensor([16, 32], dtype=torch.int32)
    yield call(
        "_grouped_mm",
        lambda a, b: grouped(a, b, offs=halves),
        lambda a, b: np.stack([matmul(a[:, :16], b[:16]), matmul(a[:, 16:], b[16:])]),
        whole(8, 32), whole(32, 8),
    )  # fmt: skip
    yield call(
        "_weight_only_mm",
        lambda x, w: torch._weight_int8pack_mm(x.float(), w.to(torch.int8), torch.ones(4)),
        lambda x, w: matmul(x, w.T),
        whole(2, 3), whole(4, 3),
    )  # fmt: skip


def quantized_layer(x: Any, w: Any, b: Any, scale: Any, product: Any, least: int = 0) -> Any:
    """Integers less their zero points, their products, and the result in the integers of its own scale."""
    sums, ratio = product(x - 3, w - -2, b), OF_X * scale[0] / OF_Y
    return pointwise(lambda v: smaller(255, larger(least, nearest(v * ratio) + 7)), sums)


def dynamic_layer(x: Any, w: Any, b: Any, scale: Any) -> Any:
    """A layer whose input is quantized by its range."""
    whole, own, zero = dynamic_quantize(x)
    factor = own[()] * scale[0]
    return pointwise(lambda v: v * factor, dense(whole - zero, w - -2)) + b


def dense(x: Any, w: Any, b: Any = None) -> Any:
    return matmul(x, w.T) if b is None else matmul(x, w.T) + b


def quantized() -> Iterator[Call]:
    """Layers on integers of 8 bits, and on numbers of 16. The weight is packed once, before anything is counted."""
    kernels: Any = torch.ops.quantized
    scale = Input(np.array([0.02]))

    def whole(low: int, high: int, *shape: int) -> Input:
        return Input(np.round(np.clip(8.0 * real(*shape).array, low, high)))

    def integers(x: Any) -> Any:
        """A quantized tensor of these integers."""
        return torch.quantize_per_tensor((x - 3).float() * OF_X, OF_X, 3, torch.quint8)

    def packed(kind: str, w: Input, b: Input, of_b: float, *sizes: Any) -> Callable[[], Any]:
        @cache
        def once() -> Any:
            weight = torch.quantize_per_tensor((torch.tensor(w.array) + 2).float() * 0.02, 0.02, -2, torch.qint8)
            return getattr(kernels, f"{kind}_prepack")(weight, torch.tensor(b.array).float() * of_b, *sizes)

        return once

    alone: dict[str, Any] = {"whole": False, "tolerance": 1e-5}
    w, b = whole(-20, 20, 6, 4), whole(-20, 20, 6)
    dense_of = packed("linear", w, b, OF_X * 0.02)
    for relu in ("", "_relu"):
        least = 7 if relu else 0  # the zero point, which stands for 0
        yield Call(
            "quantized::linear",
            lambda x, w, b, s, n=f"linear{relu}": getattr(kernels, n)(integers(x), dense_of(), OF_Y, 7).int_repr(),
            lambda *t, low=least: quantized_layer(*t, dense, low),
            (whole(0, 20, 3, 4), w, b, scale),
            **alone,
        )
    for rank, kind in ((1, "conv1d"), (2, "conv2d")):
        filters = whole(-20, 20, 6, 2, *[3] * rank)
        filters_of = packed(kind, filters, b, OF_X * 0.02, [1] * rank, [1] * rank, [1] * rank, 2)
        yield Call(
            "quantized::conv",
            lambda x, w, b, s, n=kind, p=filters_of: getattr(kernels, n)(integers(x), p(), OF_Y, 7).int_repr(),
            lambda *t, r=rank: quantized_layer(*t, lambda *u: conv(*u, group=2, pads=[1] * 2 * r)),
            (whole(0, 20, 2, 4, *[5] * rank), filters, b, scale),
            **alone,
        )
    x, b = real(3, 4), real(6)
    dynamic_of = packed("linear", w, b, 1.0)
    half_of = cache(lambda: kernels.linear_prepack_fp16(torch.tensor(w.array).float(), torch.tensor(b.array).float()))
    for relu in ("", "_relu"):
        after = (lambda y: pointwise(lambda v: larger(0.0, v), y)) if relu else (lambda y: y)
        yield Call(
            "quantized::linear",
            lambda x, w, b, s, n=f"linear{relu}_dynamic": getattr(kernels, n)(x.float(), dynamic_of()),
            lambda *t, after=after: after(dynamic_layer(*t)),
            (x, w, b, scale),
            **alone,
        )
        yield Call(
            "quantized::linear_fp16",
            lambda x, w, b, n=f"linear{relu}_dynamic_fp16": getattr(kernels, n)(x.float(), half_of()),
            lambda x, w, b, after=after: after(dense(x, w, b)),
            (x, w, b),
            **alone,
        )


def distances() -> Iterator[Call]:
    for p in (0.0, 1.0, 2.0, 3.0, math.inf):
        yield call(
            "cdist",
            lambda x, y, p=p: torch.cdist(x, y, p),
            lambda x, y, p=p: distance(x[:, None, :], y[None, :, :], p),
            real(3, 4), real(5, 4),
        )  # fmt: skip
        yield call("pdist", lambda x, p=p: F.pdist(x, p), lambda x, p=p: pairs(x, p), real(4, 3))
        if p:
            yield call(
                "pairwise_distance",
                lambda x, y, p=p: F.pairwise_distance(x, y, p),
                lambda x, y, p=p: distance(x, y, p, 1e-6),
                real(3, 4), real(4),
            )  # fmt: skip
    yield call(
        "cdist",
        torch.cdist,
        lambda x, y: distance(x[:, :, None, :], y[:, None, :, :]),
        real(2, 3, 4), real(2, 5, 4),
    )  # fmt: skip
    yield call("cosine_similarity", F.cosine_similarity, cosine, real(3, 4), real(3, 4))
    yield call("cosine_similarity", lambda x, y: F.cosine_similarity(x, y, -1), cosine, real(3, 1, 4), real(5, 4))


def pairs(x: Any, p: float) -> Any:
    first, second = np.triu_indices(len(x), 1)
    return distance(x[first], x[second], p)


def cosine(x: Any, y: Any) -> Any:
    x, y = np.broadcast_arrays(x, y)

    def length(v: Any) -> Any:
        return pointwise(lambda s: larger(1e-8, sqrt(s)), squares(v))

    return dot(x, y) / (length(x) * length(y))


def calls() -> Iterator[Call]:
    yield from products()
    yield from narrow()
    yield from quantized()
    yield from distances()
