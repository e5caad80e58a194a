"""Losses of PyTorch's: a number for each element or sample, then their sum or mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from tests.operators.arrays import Input, given, positive, real
from tests.operators.calls import Call, call
from tests.operators.calls_reductions import norm
from tests.operators.oracle.number import Number, exp, larger, log, mac, numbers, pointwise, select, smaller, sqrt
from tests.operators.oracle.reduction import add_up, maximum, mean


def reduced(losses: Any, reduction: str) -> Any:
    """A loss for all samples."""
    if reduction == "none":
        return losses
    return add_up(losses, None, 0) if reduction == "sum" else mean(losses, None, 0)


def loss(
    op: str, scalar: Callable[..., Any], *inputs: Input, function: Callable[..., Any] | None = None, **options: Any
) -> Iterator[Call]:
    """A loss of each element, with every reduction."""
    of = function or getattr(F, op)
    for reduction in ("none", "sum", "mean"):
        yield call(
            op,
            lambda *t, r=reduction: of(*t, reduction=r, **options),
            lambda *t, r=reduction: reduced(pointwise(scalar, *t), r),
            *inputs,
        )


def binary_cross_entropy(x: Any, t: Any) -> Any:
    """The logarithms are at least -100."""
    return -(t * larger(-100.0, log(x)) + (1.0 - t) * larger(-100.0, log(1.0 - x)))


def with_logits(x: Any, t: Any) -> Any:
    return larger(0.0, x) - x * t + log(1.0 + exp(-abs(x)))


def with_positive_weight(x: Any, t: Any, weight: Any) -> Any:
    """Positive examples count as often as the weight says."""
    more = weight - 1.0

    def scalar(x: Any, t: Any, more: Any) -> Any:
        return (1.0 - t) * x + (more * t + 1.0) * (log(1.0 + exp(-abs(x))) + larger(0.0, -x))

    return pointwise(scalar, x, t, more)


def smooth_l1(x: Any, t: Any, beta: float) -> Any:
    d = abs(x - t)
    return select(d < beta, d * d * (0.5 / beta), d - 0.5 * beta)


def huber(x: Any, t: Any, delta: float) -> Any:
    d = abs(x - t)
    return select(d <= delta, d * d * 0.5, (d - 0.5 * delta) * delta)


def poisson(x: Any, t: Any) -> Any:
    return exp(x) - t * x


def stirling(t: Any) -> Any:
    """The logarithm of a factorial, nearly; 0 up to 1."""
    term = t * log(t) - t + 0.5 * log(t * (2.0 * math.pi))
    return select(t > 1.0, term, 0.0)


def elementwise() -> Iterator[Call]:
    x, t, p, q = real(3, 4), real(3, 4), positive(3, 4), positive(3, 4)
    sides = Input(np.where(real(3, 4).array > 0, 1.0, -1.0))
    yield from loss("mse_loss", lambda x, t: squared(x - t), x, t)
    yield from loss("l1_loss", lambda x, t: abs(x - t), x, t)
    yield from loss("smooth_l1_loss", lambda x, t: smooth_l1(x, t, 1.0), x, t)
    yield from loss("smooth_l1_loss", lambda x, t: smooth_l1(x, t, 0.5), x, t, beta=0.5)
    yield from loss("huber_loss", lambda x, t: huber(x, t, 0.7), x, t, delta=0.7)
    yield from loss("binary_cross_entropy", binary_cross_entropy, p, q)
    yield from loss("binary_cross_entropy", lambda x, t, w: binary_cross_entropy(x, t) * w, p, q, positive(4))
    yield from loss("binary_cross_entropy_with_logits", with_logits, x, q)
    yield from loss("binary_cross_entropy_with_logits", lambda x, t, w: with_logits(x, t) * w, x, q, positive(4))
    yield from loss("kl_div", lambda x, t: t * (log(t) - x), x, q)
    yield from loss("kl_div", lambda x, t: exp(t) * (t - x), x, t, log_target=True)
    yield from loss("soft_margin_loss", lambda x, t: log(1.0 + exp(-t * x)), x, sides)
    yield from loss("poisson_nll_loss", poisson, x, p)
    yield from loss("poisson_nll_loss", lambda x, t: x - t * log(x + 1e-8), p, q, log_input=False)
    often = Input(np.array([[0.5, 1.0, 2.0, 3.0]]))
    yield from loss(
        "poisson_nll_loss", lambda x, t: poisson(x, t) + stirling(t), x, Input(often.array.repeat(3, 0)), full=True
    )
    yield from loss("hinge_embedding_loss", lambda x, t: select(t.equals(1.0), x, larger(0.0, 1.0 - x)), x, sides)
    yield from loss("margin_ranking_loss", lambda a, b, t: larger(0.0, 0.3 - t * (a - b)), x, t, sides, margin=0.3)
    for weight in (None, positive(4)):
        for reduction in ("none", "sum", "mean"):

            def function(x: Any, t: Any, p: Any, w: Any = None, r: str = reduction) -> Any:
                return F.binary_cross_entropy_with_logits(x, t, w, pos_weight=p, reduction=r)

            def definition(x: Any, t: Any, p: Any, w: Any = None, r: str = reduction) -> Any:
                losses = with_positive_weight(x, t, p)
                return reduced(losses if w is None else losses * w, r)

            inputs = (x, q, positive(4)) if weight is None else (x, q, positive(4), weight)
            yield call("binary_cross_entropy_with_logits", function, definition, *inputs)


def squared(x: Any) -> Any:
    return x * x


def multi_margin(x: Any, labels: Any, weight: Any = None, p: int = 1, margin: float = 1.0) -> Any:
    losses = np.empty(len(x), object)
    for n, label in enumerate(labels):
        total: Any = 0.0
        for i in range(x.shape[1]):
            if i != label:
                gap = larger(0.0, margin - x[n, label] + x[n, i])
                gap = gap * gap if p == 2 else gap
                total = total + (gap if weight is None else gap * weight[label])
        losses[n] = total / float(x.shape[1])
    return losses


def multilabel_margin(x: Any, labels: Any) -> Any:
    """The labels of a sample end at the first that is negative."""
    losses = np.empty(len(x), object)
    for n in range(len(x)):
        kept: list[int] = []
        for label in labels[n]:
            if (label < 0).value:
                break
            kept.append(label.value)
        total: Any = 0.0
        for label in kept:
            for i in range(x.shape[1]):
                if i not in kept:
                    total = larger(0.0, 1.0 - (x[n, label] - x[n, i])) + total
        losses[n] = total / float(x.shape[1])
    return losses


def cross_entropy(x: Any, t: Any, weight: Any = None, smoothing: float = 0.0) -> Any:
    """For each sample, the classes' probabilities times the negative logarithms; classes lie along axis 1."""
    shifted = x - maximum(x, [1])
    logs = shifted - pointwise(log, add_up(pointwise(exp, shifted), [1]))
    if smoothing:
        t = t * (1.0 - smoothing) + smoothing / x.shape[1]
    terms = logs * t
    terms = terms if weight is None else terms * weight.reshape(-1, *[1] * (x.ndim - 2))
    return pointwise(lambda v: -v, add_up(terms, [1], 0))


def one_hot(labels: Any, like: Any) -> Any:
    """1 at each label, as numbers that count."""
    return numbers(np.eye(like.shape[1])[labels], like.flat[0].tally)


def weighted_mean(x: Any, labels: Any, weight: Any) -> Any:
    """The losses of labels, divided by the sum of their weights."""
    losses = cross_entropy(x, one_hot(labels, x), weight, 0.1)
    return add_up(losses, None, 0) / add_up(weight[labels], None, 0)


def dot(x: Any, y: Any) -> Any:
    """The products of two arrays, summed along the last axis."""
    x, y = np.broadcast_arrays(x, y)
    out = np.empty(x.shape[:-1], object)
    for at in np.ndindex(out.shape):
        total: Any = 0.0
        for a, b in zip(x[at], y[at], strict=True):
            total = mac(total, a, b)
        out[at] = total
    return out


def squares(x: Any) -> Any:
    """The squares of an array, added up along the last axis."""
    return add_up(x * x, [-1], 0)


def distance(x: Any, y: Any, p: float = 2.0, eps: float = 0.0) -> Any:
    """The p-norm of the differences along the last axis."""
    gap = x - y
    gap = gap + eps if eps else gap
    return pointwise(sqrt, squares(gap)) if p == 2 else norm(gap, p, [-1])


def cosine_embedding(x: Any, y: Any, t: Any, margin: float = 0.0) -> Any:
    def scalar(product: Any, squares: Any, side: Any) -> Any:
        cosine = product / sqrt(squares)
        return select(side.equals(1.0), 1.0 - cosine, larger(0.0, cosine - margin))

    return pointwise(scalar, dot(x, y), squares(x) * squares(y), t)


def triplet(a: Any, p: Any, n: Any, power: float = 2.0, swap: bool = False) -> Any:
    near, far = distance(a, p, power, 1e-6), distance(a, n, power, 1e-6)
    if swap:
        far = pointwise(smaller, far, distance(p, n, power, 1e-6))
    return pointwise(lambda d, e: larger(0.0, d - e + 1.0), near, far)


def of_samples() -> Iterator[Call]:
    x, labels = real(3, 4), given([1, 3, 0])
    volume = Input(np.array(np.exp(real(2, 3, 5).array)))
    volume = Input(volume.array / volume.array.sum(1, keepdims=True))
    several = Input(np.array([[1, 2, -1, 0], [3, -1, 0, 0], [0, 1, 2, 3]]))
    sides = Input(np.array([1.0, -1.0, 1.0]))
    for r in ("none", "sum", "mean"):
        yield call(
            "multi_margin_loss",
            lambda x, t, r=r: F.multi_margin_loss(x, t, reduction=r),
            lambda x, t, r=r: reduced(multi_margin(x, t), r),
            x, labels,
        )  # fmt: skip
        yield call(
            "multi_margin_loss",
            lambda x, t, w, r=r: F.multi_margin_loss(x, t, 2, 0.5, w, reduction=r),
            lambda x, t, w, r=r: reduced(multi_margin(x, t, w, 2, 0.5), r),
            x, labels, positive(4),
        )  # fmt: skip
        yield call(
            "multilabel_margin_loss",
            lambda x, t, r=r: F.multilabel_margin_loss(x, t, reduction=r),
            lambda x, t, r=r: reduced(multilabel_margin(x, t), r),
            x, several,
        )  # fmt: skip
        yield call(
            "cross_entropy_dense",
            lambda x, t, r=r: F.cross_entropy(x, t, reduction=r),
            lambda x, t, r=r: reduced(cross_entropy(x, t), r),
            real(2, 3, 5), volume,
        )  # fmt: skip
        yield call(
            "cross_entropy_dense",
            lambda x, t, w, r=r: F.cross_entropy(x, t, w, reduction=r, label_smoothing=0.2),
            lambda x, t, w, r=r: reduced(cross_entropy(x, t, w, 0.2), r),
            real(2, 3, 5), volume, positive(3),
        )  # fmt: skip
        yield call(
            "cross_entropy_dense",
            lambda x, t, r=r: F.cross_entropy(x, t, reduction=r, label_smoothing=0.1),
            lambda x, t, r=r: reduced(cross_entropy(x, one_hot(t, x), None, 0.1), r),
            x, labels,
        )  # fmt: skip
        yield call(
            "cosine_embedding_loss",
            lambda x, y, t, r=r: F.cosine_embedding_loss(x, y, t, 0.2, reduction=r),
            lambda x, y, t, r=r: reduced(cosine_embedding(x, y, t, 0.2), r),
            x, real(3, 4), sides,
        )  # fmt: skip
        for p, swap in ((2.0, False), (2.0, True), (1.0, True), (3.0, False)):
            yield call(
                "triplet_margin_loss",
                lambda *t, r=r, p=p, swap=swap: F.triplet_margin_loss(*t, p=p, swap=swap, reduction=r),
                lambda *t, r=r, p=p, swap=swap: reduced(triplet(*t, p, swap), r),
                x, real(3, 4), real(3, 4),
            )  # fmt: skip
    yield call(
        "cross_entropy_dense",
        lambda x, t, w: F.cross_entropy(x, t, w, label_smoothing=0.1),
        weighted_mean,
        x, labels, positive(4),
    )  # fmt: skip


def connectionist(logs: Any, targets: Any) -> Any:
    """The negative logarithm of the sum over all alignments, for each sample; label 0 is blank."""

    def sum_of(*terms: Any) -> Any:
        top: Any = terms[0]
        for term in terms[1:]:
            top = larger(top, term)
        base = top.value if top.value > -math.inf else 0.0
        total: Any = 0.0
        for term in terms:
            total = exp(term - base) + total
        return total.does("log", math.log(total.value) if total.value else -math.inf) + base

    steps, samples, _ = logs.shape
    never = Number(-math.inf, logs.flat[0].tally)
    out = np.empty(samples, object)
    for n in range(samples):
        labels = [0]
        for label in targets[n]:
            labels += [int(label), 0]
        states = [logs[0, n, label] if s < 2 else never for s, label in enumerate(labels)]
        for t in range(1, steps):
            after = []
            for s, label in enumerate(labels):
                skips = s > 1 and label and label != labels[s - 2]
                terms = [states[s], states[s - 1] if s else never, states[s - 2] if skips else never]
                after.append(sum_of(*terms) + logs[t, n, label])
            states = after
        out[n] = -sum_of(states[-1], states[-2])
    return out


def mean_by_length(losses: Any, length: int) -> Any:
    return mean(losses / float(length), None, 0)


def alignments() -> Iterator[Call]:
    for steps in (3, 12):
        logs = Input(torch.from_numpy(real(steps, 2, 4).array).log_softmax(-1).numpy())
        targets = given([[1, 2, 2], [3, 1, 3]]) if steps > 4 else given([[1, 2], [3, 1]])
        length = targets.array.shape[1]
        for reduction in ("none", "sum", "mean"):
            sizes = torch.tensor([steps] * 2), torch.tensor([length] * 2)
            finish = {"none": lambda x: x, "sum": lambda x: add_up(x, None, 0)}
            of = finish.get(reduction, lambda x, length=length: mean_by_length(x, length))
            yield call(
                "ctc_loss",
                lambda x, t, r=reduction, sizes=sizes: F.ctc_loss(x, t, *sizes, reduction=r),
                lambda x, t, of=of: of(connectionist(x, t)),
                logs, targets,
            )  # fmt: skip


def calls() -> Iterator[Call]:
    yield from elementwise()
    yield from of_samples()
    yield from alignments()
