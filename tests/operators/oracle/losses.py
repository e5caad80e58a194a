"""Losses sample by sample, with the steps of the specification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.normalization import log_softmax
from tests.operators.oracle.number import Number, plain, select
from tests.operators.oracle.reduction import add_up, mean


def negative_log_likelihood(
    x: Any, target: Any, weight: Any = None, *, reduction: str = "mean", ignore_index: int | None = None
) -> Any:
    tally = x.flat[0].tally
    losses, weights = np.empty(target.shape, object), np.empty(target.shape, object)
    for at in np.ndindex(target.shape):
        label, skip = target[at], Number(False, tally)
        if ignore_index is not None:
            skip = label.equals(ignore_index)
            label = select(skip, label - label, label)
        picked = select(skip, Number(0.0, tally), x[(at[0], int(plain(label)), *at[1:])])
        weights[at] = select(skip, Number(0.0, tally), Number(1.0, tally) if weight is None else weight[plain(label)])
        losses[at] = -picked
    weighted = weight is not None or ignore_index is not None
    if weighted:
        losses = losses * weights
    if reduction == "none":
        return losses
    if reduction == "sum":
        return add_up(losses, None, 0)
    return add_up(losses, None, 0) / add_up(weights, None, 0) if weighted else mean(losses, None, 0)


def softmax_cross_entropy(x: Any, target: Any, weight: Any = None, **attrs: Any) -> Any:
    logs = log_softmax(x, axis=1)
    return negative_log_likelihood(logs, target, weight, **attrs), logs


DEFINITIONS: dict[str, Callable[..., Any]] = {
    "NegativeLogLikelihoodLoss": negative_log_likelihood,
    "SoftmaxCrossEntropyLoss": softmax_cross_entropy,
}
