"""Operators of QONNX, brevitas and FINN: quantised and back, and thresholds that are reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.number import function, larger, plain, pointwise, smaller

nearest = function("cmp", round)


def between(x: Any, bits: float) -> Any:
    """Within what so many bits with a sign can say."""
    low, high = -(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1.0
    return pointwise(lambda v: smaller(high, larger(low, v)), x)


def number_in(x: Any) -> float:
    """The one number of a setting."""
    return float(plain(x.ravel()[0]))


def quant(x: Any, scale: Any, zero: Any, bits: Any) -> Any:
    return (pointwise(nearest, between(x / scale + zero, number_in(bits))) - zero) * scale


def trunc(x: Any, scale: Any, zero: Any, bits: Any, to_scale: Any, to_zero: Any, to_bits: Any) -> Any:
    """What was quantised, with fewer bits."""
    del bits, to_zero
    by = number_in(to_scale) / number_in(scale)
    y = pointwise(nearest, between(pointwise(nearest, x / scale + zero) / by, number_in(to_bits)))
    return (y - number_in(zero) / by) * number_in(to_scale)


def bipolar(x: Any, scale: Any) -> Any:
    return pointwise(lambda v: scale.ravel()[0] * (1.0 if (v >= 0.0).value else -1.0), x)


def multi_threshold(v: Any, thresholds: Any, *, out_scale: float = 1.0, out_bias: float = 0.0) -> Any:
    """How many thresholds of its channel each element reaches."""
    y = np.empty(v.shape, object)
    for at in np.ndindex(v.shape):
        reached = v[at] * 0.0
        v[at].tally["mul"] -= 1  # a zero that counts
        for threshold in thresholds[at[1] % len(thresholds)]:
            reached = reached + float((v[at] >= threshold).value)
        y[at] = reached
    y = y * out_scale if out_scale != 1.0 else y
    return y + out_bias if out_bias else y


_DOMAINS = ("onnx.brevitas", "qonnx.custom_op.general", "finn.custom_op.general")

DEFINITIONS: dict[str, Callable[..., Any]] = {
    **{f"{domain}::Quant": quant for domain in _DOMAINS},
    **{f"{domain}::Trunc": trunc for domain in _DOMAINS},
    **{f"{domain}::BipolarQuant": bipolar for domain in _DOMAINS},
    **{f"{domain}::MultiThreshold": multi_threshold for domain in _DOMAINS[1:]},
    "qonnx.custom_op.general::IntQuant": quant,
}
