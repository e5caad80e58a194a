"""Every rule for a gradient against the operations that a gradient written by hand executes.

That the gradient written by hand is one is judged by finite differences of the operator's plain definition.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.analyses.training import caffe_gradients, derivatives, layers, recurrences, windows
from tests.analyses.training.cases import CASES, Case
from tests.operators.nodes import gradient_of
from tests.operators.oracle import DEFINITIONS, numbers, values

from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts

GRADIENTS = {
    **derivatives.GRADIENTS,
    **layers.GRADIENTS,
    **windows.GRADIENTS,
    **recurrences.GRADIENTS,
    **caffe_gradients.GRADIENTS,
}
EVERY = [*CASES, *caffe_gradients.cases()]


def _plain(op: str, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Y of the operator's plain definition."""
    if op == "Gather":
        return np.take(inputs[0], inputs[1], attrs.get("axis", 0))
    if op == "Expand":
        return np.broadcast_to(inputs[0], np.broadcast_shapes(inputs[0].shape, tuple(inputs[1])))
    tally: Counter[str] = Counter()
    arrays = [x if x is None or x.dtype.kind != "f" else numbers(x, tally) for x in inputs]
    y = DEFINITIONS[op](*arrays, **attrs)
    return values(np.asarray(y[0] if isinstance(y, tuple) else y, object)).astype(float)


def _difference(one: Case, place: int, g: Any) -> Any:
    """The gradient of ΣGY for one input, by central differences."""
    found = np.zeros(one.inputs[place].shape)
    for at in np.ndindex(found.shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = one.inputs[place].astype(float).copy()
            moved[at] += step
            inputs = (*one.inputs[:place], moved, *one.inputs[place + 1 :])
            ends.append(float((g * _plain(one.op, inputs, one.attrs)).sum()))
        found[at] = (ends[0] - ends[1]) / 2e-5
    return found


def _node(one: Case, y: Any) -> Node:
    tensors = tuple(None if x is None else Tensor(f"x{i}", x.shape, "float32") for i, x in enumerate(one.inputs))
    return Node(one.op, "node", tensors, (Tensor("y", y.shape, "float32"),), one.attrs)


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.label)
def test_rule_counts_what_the_gradient_executes(one: Case) -> None:
    y = np.asarray(_plain(one.op, one.inputs, one.attrs))
    g = np.random.default_rng(3).normal(size=y.shape)
    tally: Counter[str] = Counter()
    arrays = [x if x is None or x.dtype.kind != "f" else numbers(x, tally) for x in one.inputs]
    found = GRADIENTS[one.op](numbers(g, tally), numbers(y, tally), one.wanted, *arrays, **one.attrs)
    assert gradient_of(one.op).rule(_node(one, y), one.wanted) == Counts(**tally)
    assert found.keys() == one.wanted
    for place, gradient in found.items():
        ours = values(gradient).astype(float)
        np.testing.assert_allclose(ours, _difference(one, place, g), rtol=1e-4, atol=1e-6)


def test_every_gradient_here_is_tried() -> None:
    assert {one.op for one in EVERY} == GRADIENTS.keys()
