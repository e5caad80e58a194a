"""Gradients of recurrent layers, back through time, on numbers that count. One direction at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from tests.operators.oracle.linear import matmul, zeros
from tests.operators.oracle.number import mac, numbers, values


def _kept(array: Any, like: Any) -> Any:
    return numbers(np.asarray(array, float), like.flat[0].tally)


def _floats(array: Any) -> Any:
    return values(array).astype(float)


def _sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def _into(total: Any, a: Any, b: Any) -> None:
    """total += aᵀ b, product by product."""
    for n, i, j in np.ndindex(a.shape[0], a.shape[1], b.shape[1]):
        total[i, j] = mac(total[i, j], a[n, i], b[n, j])


def _of_sigmoid(g: Any, s: Any) -> Any:
    return g * (1.0 - s) * s


def _of_tanh(g: Any, t: Any) -> Any:
    return g * (1.0 - t * t)


class _Way:
    """The arrays of one direction, with what is asked for."""

    def __init__(self, gates: int, wanted: Any, x: Any, w: Any, r: Any, b: Any) -> None:
        self.x, self.w, self.r, self.b, self.wanted = x, w, r, b, wanted
        self.hidden = r.shape[-1]
        self.dx, self.dw, self.dr = (zeros(v.shape, x) for v in (x, w, r))
        self.db = zeros((2 * gates * self.hidden,), x)

    def step(self, t: int, gate: Any, before: Any, recurrent: Any = None) -> None:
        """Products of one step but the one to the state before; ``recurrent`` where its gates differ."""
        recurrent = gate if recurrent is None else recurrent
        if 0 in self.wanted:
            self.dx[t] = matmul(gate, self.w)
        if 1 in self.wanted:
            _into(self.dw, gate, self.x[t])
        if 2 in self.wanted:
            _into(self.dr, recurrent, before)
        if 3 in self.wanted:
            half = gate.shape[1]
            for n in range(gate.shape[0]):
                self.db[:half] = self.db[:half] + gate[n]
                self.db[half:] = self.db[half:] + recurrent[n]

    def found(self, dh: Any) -> dict[int, Any]:
        all_of = {0: self.dx, 1: self.dw[None], 2: self.dr[None], 3: self.db[None], 5: None if dh is None else dh[None]}
        return {i: all_of[i] for i in self.wanted}


def rnn(g: Any, y: Any, wanted: Any, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h0: Any = None, **attrs: Any):  # fmt: skip # noqa: E501
    way = _Way(1, wanted, x, w[0], r[0], b)
    first = _kept(np.zeros(y[0, 0].shape), x) if h0 is None else h0[0]
    dh = zeros(first.shape, x)
    for t in reversed(range(x.shape[0])):
        gate = _of_tanh(g[t, 0] + dh, y[t, 0])
        way.step(t, gate, y[t - 1, 0] if t else first)
        if t or 5 in wanted:
            dh = matmul(gate, way.r)
    return way.found(dh)


def lstm(g: Any, y: Any, wanted: Any, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h0: Any = None, c0: Any = None, p: Any = None, **attrs: Any):  # fmt: skip # noqa: E501
    way = _Way(4, wanted, x, w[0], r[0], b)
    hidden, steps = way.hidden, x.shape[0]
    shape = y[0, 0].shape
    first = _kept(np.zeros(shape), x) if h0 is None else h0[0]
    plain = [_floats(v) for v in (x, w[0], r[0])]
    bias = np.zeros(8 * hidden) if b is None else _floats(b[0])
    h, c = _floats(first), np.zeros(shape)
    kept = []
    for t in range(steps):
        total = plain[0][t] @ plain[1].T + h @ plain[2].T + bias[: 4 * hidden] + bias[4 * hidden :]
        parts = [total[:, i * hidden : (i + 1) * hidden] for i in range(4)]
        i, o, f, n = _sigmoid(parts[0]), _sigmoid(parts[1]), _sigmoid(parts[2]), np.tanh(parts[3])
        before, c = c, f * c + i * n
        h = o * np.tanh(c)
        kept.append([_kept(v, x) for v in (i, o, f, n, before, np.tanh(c))])
    dh, dc = zeros(shape, x), zeros(shape, x)
    for t in reversed(range(steps)):
        i, o, f, n, before, cell = kept[t]
        dh = g[t, 0] + dh
        do = _of_sigmoid(dh * cell, o)
        dc = dc + _of_tanh(dh * o, cell)
        df, di, dn = _of_sigmoid(dc * before, f), _of_sigmoid(dc * n, i), _of_tanh(dc * i, n)
        dc = dc * f
        gate = np.concatenate([di, do, df, dn], axis=1)
        way.step(t, gate, y[t - 1, 0] if t else first)
        if t or 5 in wanted:
            dh = matmul(gate, way.r)
    return way.found(dh)


def gru(g: Any, y: Any, wanted: Any, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h0: Any = None, *, linear_before_reset: int = 0, **attrs: Any):  # fmt: skip # noqa: E501
    way = _Way(3, wanted, x, w[0], r[0], b)
    hidden, steps = way.hidden, x.shape[0]
    shape = y[0, 0].shape
    first = _kept(np.zeros(shape), x) if h0 is None else h0[0]
    xs, ws, rs = _floats(x), _floats(w[0]), _floats(r[0])
    bias = np.zeros(6 * hidden) if b is None else _floats(b[0])
    wb, rb = bias[: 3 * hidden], bias[3 * hidden :]
    h = _floats(first)
    kept = []
    for t in range(steps):
        of_x, two = xs[t] @ ws.T + wb, h @ rs[: 2 * hidden].T + rb[: 2 * hidden]
        z = _sigmoid(of_x[:, :hidden] + two[:, :hidden])
        e = _sigmoid(of_x[:, hidden : 2 * hidden] + two[:, hidden:])
        inner = h @ rs[2 * hidden :].T + rb[2 * hidden :]
        if linear_before_reset:
            n = np.tanh(of_x[:, 2 * hidden :] + e * inner)
        else:
            n = np.tanh(of_x[:, 2 * hidden :] + (e * h) @ rs[2 * hidden :].T + rb[2 * hidden :])
        kept.append([_kept(v, x) for v in (z, e, n, inner, h, e * h)])
        h = (1 - z) * n + z * h
    dh = zeros(shape, x)
    for t in reversed(range(steps)):
        z, e, n, inner, before, reset = kept[t]
        dh = g[t, 0] + dh
        dz = _of_sigmoid(dh * (before - n), z)
        dn = _of_tanh(dh * (1.0 - z), n)
        back = dh * z
        if linear_before_reset:
            de, d_inner = _of_sigmoid(dn * inner, e), dn * e
            way.step(t, np.concatenate([dz, de, dn], axis=1), before, np.concatenate([dz, de, d_inner], axis=1))
            gates = np.concatenate([dz, de, d_inner], axis=1)
            dh = back + (matmul(gates, way.r) if t or 5 in wanted else zeros(shape, x))
        else:
            d_reset = matmul(dn, way.r[2 * hidden :])
            de = _of_sigmoid(d_reset * before, e)
            gate = np.concatenate([dz, de, dn], axis=1)
            _of_gru(way, t, gate, before, reset)
            two = np.concatenate([dz, de], axis=1)
            more = matmul(two, way.r[: 2 * hidden]) if t or 5 in wanted else zeros(shape, x)
            dh = back + more + d_reset * e
    return way.found(dh)


def _of_gru(way: _Way, t: int, gate: Any, before: Any, reset: Any) -> None:
    """A step whose last gate multiplies the state after its reset."""
    hidden = way.hidden
    asked, way.wanted = way.wanted, way.wanted - {2}
    way.step(t, gate, before)
    way.wanted = asked
    if 2 in asked:
        _into(way.dr[: 2 * hidden], gate[:, : 2 * hidden], before)
        _into(way.dr[2 * hidden :], gate[:, 2 * hidden :], reset)


def both(kind: Callable[..., Any], g: Any, y: Any, wanted: Any, x: Any, *weights: Any, direction: str = "forward", **attrs: Any):  # fmt: skip # noqa: E501
    """One direction, or two that read the input from either end and whose gradients of it are joined."""
    if direction == "forward":
        return kind(g, y, wanted, x, *weights, **attrs)
    parts = []
    for d in range(2):
        own = [v if v is None else v[d : d + 1] for v in weights]
        turn = slice(None, None, -1 if d else 1)
        found = kind(g[turn, d : d + 1], y[turn, d : d + 1], wanted, x[turn], *own, **attrs)
        if 0 in found:
            found[0] = found[0][turn]
        parts.append(found)
    joined = {i: np.concatenate([p[i] for p in parts]) for i in wanted - {0}}
    return {**joined, **({0: parts[0][0] + parts[1][0]} if 0 in wanted else {})}


GRADIENTS: dict[str, Callable[..., Any]] = {
    "RNN": partial(both, rnn),
    "LSTM": partial(both, lstm),
    "GRU": partial(both, gru),
}
