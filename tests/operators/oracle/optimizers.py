"""One step of an optimizer, line by line of the specification's pseudo code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.operators.oracle.number import Number, plain, pointwise, sqrt


def power(base: float, exponent: Number) -> Number:
    return exponent.does("pow", base ** plain(exponent))


def scaled(rate: Number, array: Any) -> Any:
    return pointwise(lambda v: rate * v, array)


def groups(tensors: tuple[Any, ...], each: int) -> list[tuple[Any, ...]]:
    """The tensors that belong together: the first of each kind, the second of each kind ..."""
    count = len(tensors) // each
    return [tensors[i::count] for i in range(count)]


def by_kind(results: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """All results of the first kind, then all of the second ..."""
    return tuple(result for kind in zip(*results, strict=True) for result in kind)


def adagrad(r: Any, t: Any, *tensors: Any, norm_coefficient: float, epsilon: float, decay_factor: float) -> Any:
    rate = r[()] / (t[()] * decay_factor + 1.0)
    results = []
    for x, g, h in groups(tensors, 3):
        g = norm_coefficient * x + g
        h = h + g * g
        results.append((x - scaled(rate, g) / (pointwise(sqrt, h) + epsilon), h))
    return by_kind(results)


def adam(
    r: Any, t: Any, *tensors: Any, norm_coefficient: float, norm_coefficient_post: float,
    alpha: float, beta: float, epsilon: float,
) -> Any:  # fmt: skip
    adjusted = r[()] * sqrt(1.0 - power(beta, t[()])) / (1.0 - power(alpha, t[()]))
    rate = adjusted if (t[()] > 0).value else r[()]
    results = []
    for x, g, v, h in groups(tensors, 4):
        g = norm_coefficient * x + g
        v = alpha * v + (1.0 - alpha) * g
        h = beta * h + (1.0 - beta) * g * g
        x = x - scaled(rate, v) / (pointwise(sqrt, h) + epsilon)
        results.append(((1.0 - norm_coefficient_post) * x, v, h))
    return by_kind(results)


def momentum(r: Any, t: Any, *tensors: Any, norm_coefficient: float, alpha: float, beta: float, mode: str) -> Any:
    share = beta if (t[()] > 0).value else 1.0
    results = []
    for x, g, v in groups(tensors, 3):
        g = norm_coefficient * x + g
        v = alpha * v + share * g
        step = g + alpha * v if mode == "nesterov" else v
        results.append((x - scaled(r[()], step), v))
    return by_kind(results)


_DOMAIN = "ai.onnx.preview.training::"

DEFINITIONS: dict[str, Callable[..., Any]] = {
    f"{_DOMAIN}Adagrad": adagrad,
    f"{_DOMAIN}Adam": adam,
    f"{_DOMAIN}Momentum": momentum,
}
