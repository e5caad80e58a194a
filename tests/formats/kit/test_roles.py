"""Kinds of stored tensors, by what takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.tflite_models import Net

import flopwise


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def test_one_element_is_a_weight_of_products_alone() -> None:
    """A convolution to one channel has a bias; what scales and shifts by one number is no parameter."""
    net = Net()
    g = net.main
    x, w, b = (
        g.tensor((1, 4, 4, 2), name="x"),
        g.tensor((1, 1, 1, 2), data=ones(1, 1, 1, 2)),
        g.tensor((1,), data=ones(1)),
    )
    half, y, z = g.tensor((1,), data=ones(1) / 2), g.tensor((1, 4, 4, 1), name="y"), g.tensor((1, 4, 4, 1), name="z")
    g.add("CONV_2D", [x, w, b], [y], {1: ("int32", 1), 2: ("int32", 1)})
    g.add("MUL", [y, half], [z])
    g.inputs, g.outputs = [x], [z]
    assert flopwise.profile(net.bytes()).total("params") == 2 + 1


def test_a_token_that_is_put_before_others_is_a_weight() -> None:
    net = Net()
    g = net.main
    x, token, y = g.tensor((1, 4, 8), name="x"), g.tensor((1, 1, 8), data=ones(1, 1, 8)), g.tensor((1, 5, 8), name="y")
    g.add("CONCATENATION", [token, x], [y], {0: ("int32", 1)})
    g.inputs, g.outputs = [x], [y]
    assert flopwise.profile(net.bytes()).total("params") == 8


def test_where_a_loop_starts_is_none() -> None:
    """The loop multiplies what it carries by a weight that it is given; both are stored."""
    net = Net()
    g, cond, body = net.main, net.subgraph(), net.subgraph()
    h, w, flag = cond.tensor((1, 4), name="h"), cond.tensor((4, 4), name="w"), cond.tensor((), "bool", name="flag")
    cond.add("GREATER", [h, h], [flag])
    cond.inputs, cond.outputs = [h, w], [flag]
    h, w, more = body.tensor((1, 4), name="h"), body.tensor((4, 4), name="w"), body.tensor((1, 4), name="more")
    body.add("FULLY_CONNECTED", [h, w], [more])
    body.inputs, body.outputs = [h, w], [more, w]
    starts = [g.tensor((1, 4), data=ones(1, 4)), g.tensor((4, 4), data=ones(4, 4))]
    ends = [g.tensor((1, 4), name="end"), g.tensor((4, 4), name="same")]
    g.add("WHILE", starts, ends, {0: ("int32", 1), 1: ("int32", 2)})
    g.outputs = ends
    assert flopwise.profile(net.bytes()).total("params") == 16


def test_vectors_that_bodies_are_given_are_weights() -> None:
    """A file hands an IF and a WHILE all that they take from outside; what a loop starts with and changes is none."""
    for op in ("IF", "WHILE"):
        net = Net()
        g, first, body = net.main, net.subgraph(), net.subgraph()
        for inner in (first, body):
            x, w, v = inner.tensor((1, 4), name="x"), inner.tensor((4, 4), name="w"), inner.tensor((4,), name="v")
            y, z, flag = inner.tensor((1, 4)), inner.tensor((1, 4)), inner.tensor((), "bool")
            inner.add("FULLY_CONNECTED", [x, w], [y])
            inner.add("MUL", [y, v], [z])
            inner.inputs, inner.outputs = [x, w, v], [z]
            if op == "WHILE":
                inner.outputs = [z, w, v]
            if op == "WHILE" and inner is first:
                inner.add("GREATER", [z, z], [flag])
                inner.outputs = [flag]
        x, w, v = g.tensor((1, 4), name="x"), g.tensor((4, 4), data=ones(4, 4)), g.tensor((4,), data=ones(4))
        start, flag = g.tensor((1, 4), data=ones(1, 4)), g.tensor((), "bool", name="flag")
        ends = [g.tensor((1, 4), name="end")] + [g.tensor((4, 4)), g.tensor((4,))] * (op == "WHILE")
        given = [flag, x, w, v] if op == "IF" else [start, w, v]
        g.add(op, given, ends, {0: ("int32", 1), 1: ("int32", 2)})
        g.inputs, g.outputs = [flag, x] if op == "IF" else [], ends
        assert flopwise.profile(net.bytes()).total("params") == 16 + 4, op
