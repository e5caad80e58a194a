"""Gradients of recurrent layers: back through every time step and direction, from the gates that the forward pass kept.

Each step has one product for each of its operands. The product that leads to the step before is left out at the first
step when the initial state asks for no gradient.
"""

from __future__ import annotations

from collections.abc import Iterable

from flopwise.graph import Node, Tensor
from flopwise.graph.dtypes import BITS
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent
from flopwise.operators.gradient import Keeps, Wanted
from flopwise.operators.onnx.recurrent import activations

#: What the derivative of one activation costs, times the gradient of its result, by its name in lower case.
DERIVATIVES: dict[str, Counts] = {
    "relu": Counts(cmp=1),
    "tanh": Counts(mul=2, add=1),
    "sigmoid": Counts(mul=2, add=1),
    "affine": Counts(mul=1),
    "leakyrelu": Counts(cmp=1, mul=1),
    "thresholdedrelu": Counts(cmp=1),
    "scaledtanh": Counts(mul=4, add=1),
    "hardsigmoid": Counts(cmp=2, bit=1, mul=1),
    "elu": Counts(cmp=1, exp=1, mul=2),
    "softsign": Counts(bit=1, add=1, mul=1, div=1),
    "softplus": Counts(exp=1, add=1, mul=1, div=1),
}


def lstm(node: Node, wanted: Wanted) -> Counts:
    """T × B × directions × H times: 4 I mac for dX, 4 I mac for dW, 4 H mac for dR, 4 H mac for dh (not at step 1
    unless initial_h asks for it), 2 add + 6 mul (dh, dc and the gates), 3 f' + g' + h'; dB: 8 add; peepholes: 3 (mul +
    add) for their way back into the cell, and for dP. input_forget: the forget gate is 1 add in place of a gate. Two
    directions: numel(X) add for dX.
    """
    gates = 3 if node.attrs.get("input_forget", 0) else 4
    once = Counts(add=2, mul=6)
    if gates == 3:
        once += Counts(add=1, mul=-1)
    if node.has_input(7):
        once += Counts(mul=1, add=1) * ((gates - 1) * (1 + int(7 in wanted)))
    counts = Counts()
    for f, g, h in activations(node, ("Sigmoid", "Tanh", "Tanh"), DERIVATIVES):
        counts += (once + f * (gates - 1) + g + h) * _units(node)
    return counts + _products(node, wanted, gates)


def gru(node: Node, wanted: Wanted) -> Counts:
    """T × B × directions × H times: 3 I mac for dX, 3 I mac for dW, 3 H mac for dR, 3 H mac for dh (not at step 1
    unless initial_h asks for it), 4 add + 5 mul (dh, blend and reset), 2 f' + g'; dB: 6 add; linear_before_reset = 0: 1
    add more, and H mac for dh at step 1 too. Two directions: numel(X) add for dX.
    """
    once = Counts(add=4, mul=5)
    if not node.attrs.get("linear_before_reset", 0):
        once += Counts(add=1)
    counts = Counts()
    for f, g in activations(node, ("Sigmoid", "Tanh"), DERIVATIVES):
        counts += (once + f * 2 + g) * _units(node)
    first = node.input(0).numel // max(extent(node, node.input(0), -1), 1) // max(_steps(node), 1)
    if 5 not in wanted and not node.attrs.get("linear_before_reset", 0):
        counts += Counts(mac=first * extent(node, node.input(2), -1) ** 2 * _directions(node))
    return counts + _products(node, wanted, 3)


def rnn(node: Node, wanted: Wanted) -> Counts:
    """T × B × directions × H times: I mac for dX, I mac for dW, H mac for dR, H mac for dh (not at step 1 unless
    initial_h asks for it), 1 add (dh), f'; dB: 2 add. Two directions: numel(X) add for dX.
    """
    counts = Counts()
    for (f,) in activations(node, ("Tanh",), DERIVATIVES):
        counts += (Counts(add=1) + f) * _units(node)
    return counts + _products(node, wanted, 1)


def _units(node: Node) -> int:
    """Steps × samples × hidden units of one direction."""
    x = node.input(0)
    return extent(node, x, 0) * extent(node, x, 1) * extent(node, node.input(2), -1)


def _steps(node: Node) -> int:
    return extent(node, node.input(0), 1 if node.attrs.get("layout", 0) else 0)


def _directions(node: Node) -> int:
    return 2 if node.attrs.get("direction", "forward") == "bidirectional" else 1


def _products(node: Node, wanted: Wanted, gates: int) -> Counts:
    """The products and sums of all gates, steps and directions."""
    x, hidden = node.input(0), extent(node, node.input(2), -1)
    steps = _steps(node)
    samples = extent(node, x, 0 if node.attrs.get("layout", 0) else 1)
    directions = _directions(node)
    row = samples * hidden * gates * directions
    back = steps if 5 in wanted else max(steps - 1, 0)
    mac = row * (steps * extent(node, x, -1) * len(wanted & {0, 1}) + hidden * (back + steps * int(2 in wanted)))
    add = 2 * row * steps if 3 in wanted else 0
    if 0 in wanted and directions == 2:
        add += x.numel
    return Counts(mac=mac, add=add)


def _kept(per_unit: int) -> Keeps:
    """X and Y are kept, and so many numbers for each unit and step."""

    def keeps(node: Node, wanted: Wanted) -> Iterable[Tensor | int]:
        yield node.input(0)
        if node.outputs and node.outputs[0] is not None:
            yield node.outputs[0]
        bits = BITS.get(node.input(0).dtype or "float32", 32)
        yield per_unit * _units(node) * _directions(node) * bits // 8

    return keeps


lstm_keeps = _kept(6)
gru_keeps = _kept(4)
rnn_keeps = _kept(0)
