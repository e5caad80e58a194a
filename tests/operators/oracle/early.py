"""Experimental operators of early versions of ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.linear import matmul
from tests.operators.oracle.number import exp, log, pointwise, tanh
from tests.operators.oracle.pointwise import of_each, sigmoid


def gru_unit(hidden: Any, gates: Any) -> Any:
    """The update gate and the candidate; the first third of the gates has been used up."""
    _, update, candidate = np.split(gates, 3, axis=-1)
    z, c = pointwise(sigmoid, update), pointwise(tanh, candidate)
    return hidden * z + c * (1.0 - z)


def image_scaler(x: Any, *, scale: float = 1.0, bias: Any = None) -> Any:
    y = x * scale
    return y if bias is None else y + np.array(bias).reshape(-1, 1, 1)


DEFINITIONS: dict[str, Callable[..., Any]] = {
    "Affine": of_each(lambda x, alpha=1.0, beta=0.0: alpha * x + beta),
    "Scale": of_each(lambda x, scale=1.0: scale * x),
    "ScaledTanh": of_each(lambda x, alpha, beta: alpha * tanh(beta * x)),
    "ParametricSoftplus": of_each(lambda x, alpha, beta: alpha * log(exp(beta * x) + 1.0)),
    "ImageScaler": image_scaler,
    "FC": lambda x, w, b=None: matmul(x, w.T) if b is None else matmul(x, w.T) + b,
    "GRUUnit": gru_unit,
}
