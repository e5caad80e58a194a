"""Cells and stacks of recurrent layers of PyTorch's, step by step with the equations of its documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from tests.operators.arrays import Input, real
from tests.operators.calls import Call, call
from tests.operators.oracle.linear import matmul
from tests.operators.oracle.number import larger, pointwise, tanh
from tests.operators.oracle.pointwise import sigmoid

INPUTS, HIDDEN, BATCH, STEPS = 3, 2, 4, 3
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def joined(x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, gates: int) -> list[Any]:
    """What goes into each gate."""
    total = matmul(x, w_ih.T) + matmul(h, w_hh.T)
    return np.split(total if b_ih is None else total + b_ih + b_hh, gates, axis=-1)


def lstm(x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> tuple[Any, Any]:
    enter, forget, new, leave = joined(x, h, w_ih, w_hh, b_ih, b_hh, 4)
    c = pointwise(sigmoid, forget) * c + pointwise(sigmoid, enter) * pointwise(tanh, new)
    return pointwise(sigmoid, leave) * pointwise(tanh, c), c


def gru(x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> tuple[Any]:
    left, right = matmul(x, w_ih.T), matmul(h, w_hh.T)
    if b_ih is not None:
        left, right = left + b_ih, right + b_hh
    (reset, update, new), (reset2, update2, inner) = np.split(left, 3, axis=-1), np.split(right, 3, axis=-1)
    r, z = pointwise(sigmoid, reset + reset2), pointwise(sigmoid, update + update2)
    n = pointwise(tanh, new + r * inner)
    return ((1.0 - z) * n + z * h,)


def plain(of: Callable[[Any], Any]) -> Callable[..., tuple[Any]]:
    def step(x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> tuple[Any]:
        return (pointwise(of, joined(x, h, w_ih, w_hh, b_ih, b_hh, 1)[0]),)

    return step


CELLS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "lstm": lstm,
    "gru": gru,
    "rnn_tanh": plain(tanh),
    "rnn_relu": plain(lambda v: larger(0.0, v)),
}


def weights(kind: str, biased: bool, inputs: int = INPUTS, project: int = 0) -> list[Input]:
    """The weights of one layer in one direction."""
    rows = GATES[kind] * HIDDEN
    own = [real(rows, inputs), real(rows, project or HIDDEN)]
    own += [real(rows), real(rows)] if biased else []
    return own + ([real(project, HIDDEN)] if project else [])


def states(kind: str, count: int = 0, project: int = 0) -> list[Input]:
    """What the cells start from, of so many layers and directions."""
    shapes = [(BATCH, project or HIDDEN), (BATCH, HIDDEN)][: 2 if kind == "lstm" else 1]
    return [real(*(count, *shape)) if count else real(*shape) for shape in shapes]


def single(kind: str) -> Callable[..., Any]:
    """PyTorch's cell, of x, the states and the weights."""
    function = getattr(torch, f"{kind}_cell")
    if kind != "lstm":
        return function
    return lambda x, h, c, *own: function(x, (h, c), *own)


def cells() -> Iterator[Call]:
    for kind, step in CELLS.items():
        for biased in (False, True):
            inputs = [real(BATCH, INPUTS), *states(kind), *weights(kind, biased)]
            yield call(f"{kind}_cell", single(kind), step, *inputs)


def stack(kind: str, layers: int, directions: int, biased: bool, projected: bool = False, sizes: Any = None) -> Any:
    """All layers of all directions over all steps of (steps, batch, width), or of packed rows of these sizes."""
    kept, each = 2 if kind == "lstm" else 1, (4 if biased else 2) + int(projected)

    def definition(x: Any, *more: Any) -> Any:
        starts, own = more[:kept], more[kept:]
        ends: list[list[Any]] = [[] for _ in range(kept)]
        lengths = [x.shape[1]] * len(x) if sizes is None else sizes
        rows = list(x) if sizes is None else np.split(x, np.cumsum(sizes)[:-1])
        for layer in range(layers):
            sides = []
            for back in range(directions):
                part = layer * directions + back
                mine = own[part * each : (part + 1) * each]
                state = [start[part].copy() for start in starts]
                out: list[Any] = [None] * len(rows)
                for t in range(len(rows))[:: -1 if back else 1]:
                    n = lengths[t]
                    made = CELLS[kind](rows[t], *(s[:n] for s in state), *mine[: 4 if biased else 2])
                    made = (matmul(made[0], mine[-1].T), *made[1:]) if projected else made
                    for s, m in zip(state, made, strict=True):
                        s[:n] = m
                    out[t] = made[0]
                sides.append(out)
                for end, s in zip(ends, state, strict=True):
                    end.append(s)
            rows = [np.concatenate(parts, axis=-1) for parts in zip(*sides, strict=True)]
        y = np.stack(rows) if sizes is None else np.concatenate(rows)
        return (y, *(np.stack(end) for end in ends))

    return definition


def several(kind: str, layers: int, directions: int, biased: bool, sizes: Any = None) -> Callable[..., Any]:
    """PyTorch's stack of layers, of x, the states and the weights."""
    function, kept = getattr(torch, kind), 2 if kind == "lstm" else 1
    settings = biased, layers, 0.0, False, directions == 2

    def call(x: Any, *more: Any) -> Any:
        start = tuple(more[:2]) if kept == 2 else more[0]
        if sizes is None:
            return function(x, start, list(more[kept:]), *settings, False)
        return function(x, torch.tensor(sizes), start, list(more[kept:]), *settings)

    return call


def stacks() -> Iterator[Call]:
    for kind in CELLS:
        for layers, directions, biased, project, sizes in (
            (1, 1, True, 0, None),
            (2, 1, False, 0, None),
            (2, 2, True, 0, None),
            (1, 2, True, 0, [4, 4, 2, 1]),
            (2, 1, True, 1, None),
        ):
            if project and kind != "lstm":
                continue
            own = []
            for layer in range(layers):
                wide = (project or HIDDEN) * directions if layer else INPUTS
                for _ in range(directions):
                    own += weights(kind, biased, wide, project)
            x = real(STEPS, BATCH, INPUTS) if sizes is None else real(sum(sizes), INPUTS)
            yield call(
                kind,
                several(kind, layers, directions, biased, sizes),
                stack(kind, layers, directions, biased, bool(project), sizes),
                x, *states(kind, layers * directions, project), *own,
            )  # fmt: skip


def calls() -> Iterator[Call]:
    yield from cells()
    yield from stacks()
