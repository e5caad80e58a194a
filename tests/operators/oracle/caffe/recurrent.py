"""Caffe's recurrent layers, step by step on counting numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.operators.oracle.caffe.layers import sigmoid
from tests.operators.oracle.linear import matmul
from tests.operators.oracle.number import Number, pointwise, tanh


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


DEFINITIONS: dict[str, Callable[..., Any]] = {
    f"caffe::{name}": definition
    for name, definition in {
        "LSTM": lstm,
        "RNN": rnn,
        "LSTMUnit": lstm_unit,
    }.items()
}
