"""Recurrent layers as loops over time steps, with the equations of the specification."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from tests.operators.oracle.linear import matmul, zeros
from tests.operators.oracle.number import larger, pointwise, smaller, tanh
from tests.operators.oracle.pointwise import SCALARS

_ACTIVATIONS: dict[str, Callable[..., Any]] = {
    **{name: SCALARS[name] for name in ("Relu", "Tanh", "Sigmoid", "LeakyRelu", "ThresholdedRelu", "HardSigmoid")},
    **{name: SCALARS[name] for name in ("Elu", "Softsign", "Softplus")},
    "Affine": lambda x, alpha=1.0, beta=0.0: alpha * x + beta,
    "ScaledTanh": lambda x, alpha=1.0, beta=1.0: alpha * tanh(beta * x),
}


def applied(name: str, clip: float | None) -> Callable[[Any], Any]:
    """An activation over arrays, its input bounded first if asked."""

    def activation(x: Any) -> Any:
        if clip is not None:
            x = pointwise(lambda v: smaller(clip, larger(-clip, v)), x)
        return pointwise(_ACTIVATIONS[name], x)

    return activation


def lstm_step(x, h, c, w, r, wb, rb, p, f, g, a, coupled):  # type: ignore[no-untyped-def]
    def gate(i: int, peek: Any = None) -> Any:
        total = matmul(x, w[i].T) + matmul(h, r[i].T)
        if peek is not None:
            total = total + peek[0] * peek[1]
        return total if wb is None else total + wb[i] + rb[i]

    def peep(i: int, cell: Any) -> Any:
        return None if p is None else (p[i], cell)

    enter = f(gate(0, peep(0, c)))
    forget = 1.0 - enter if coupled else f(gate(2, peep(2, c)))
    c = forget * c + enter * g(gate(3))
    h = f(gate(1, peep(1, c))) * a(c)
    return h, c


def gru_step(x, h, w, r, wb, rb, f, g, linear_before_reset):  # type: ignore[no-untyped-def]
    def gate(i: int, state: Any) -> Any:
        total = matmul(x, w[i].T) + matmul(state, r[i].T)
        return total if wb is None else total + wb[i] + rb[i]

    update, reset = f(gate(0, h)), f(gate(1, h))
    if linear_before_reset:
        inner = matmul(h, r[2].T)
        inner = inner if rb is None else inner + rb[2]
        total = matmul(x, w[2].T) + reset * inner
        new = g(total if wb is None else total + wb[2])
    else:
        new = g(gate(2, reset * h))
    return (1.0 - update) * new + update * h


def layer(  # type: ignore[no-untyped-def]
    kind, gates, default, x, w, r, b=None, lengths=None, h0=None, c0=None, p=None, *,
    hidden_size=None, direction="forward", layout=0, activations=None, clip=None, input_forget=0, linear_before_reset=0,
    activation_alpha=None, activation_beta=None,
):  # fmt: skip
    del lengths, hidden_size, activation_alpha, activation_beta  # cases give the activations their defaults
    x = x.transpose(1, 0, 2) if layout else x
    steps, batch, _ = x.shape
    directions, hidden = w.shape[0], r.shape[-1]
    names = activations or default * directions
    outputs, last_h, last_c = [], [], []
    for d in range(directions):
        functions = [applied(name, clip) for name in names[d * len(default) : (d + 1) * len(default)]]
        ws, rs = w[d].reshape(gates, hidden, -1), r[d].reshape(gates, hidden, hidden)
        wb, rb = (None, None) if b is None else b[d].reshape(2, gates, hidden)
        ps = None if p is None else p[d].reshape(3, hidden)
        h = zeros((batch, hidden), x) if h0 is None else h0[d]
        c = zeros((batch, hidden), x) if c0 is None else c0[d]
        states = []
        for t in reversed(range(steps)) if direction == "reverse" or d else range(steps):
            if kind == "LSTM":
                h, c = lstm_step(x[t], h, c, ws, rs, wb, rb, ps, *functions, input_forget)
            elif kind == "GRU":
                h = gru_step(x[t], h, ws, rs, wb, rb, *functions, linear_before_reset)
            else:
                total = matmul(x[t], ws[0].T) + matmul(h, rs[0].T)
                h = functions[0](total if wb is None else total + wb[0] + rb[0])
            states.append(h)
        outputs.append(np.stack(states[::-1] if direction == "reverse" or d else states))
        last_h.append(h)
        last_c.append(c)
    y, y_h, y_c = np.stack(outputs, axis=1), np.stack(last_h), np.stack(last_c)
    if layout:
        y, y_h, y_c = y.transpose(2, 0, 1, 3), y_h.transpose(1, 0, 2), y_c.transpose(1, 0, 2)
    return (y, y_h, y_c) if kind == "LSTM" else (y, y_h)


DEFINITIONS: dict[str, Callable[..., Any]] = {
    "LSTM": partial(layer, "LSTM", 4, ["Sigmoid", "Tanh", "Tanh"]),
    "GRU": partial(layer, "GRU", 3, ["Sigmoid", "Tanh"]),
    "RNN": partial(layer, "RNN", 1, ["Tanh"]),
}
