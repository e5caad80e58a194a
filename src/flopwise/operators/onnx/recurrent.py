"""Recurrent layers: every time step, every direction, the gates' products and their pointwise work.

The two products of a gate are joined by one add, and the two bias vectors are added one after the other, as the
operators' equations write them; in formats that store their sum (OpenVINO), that is added. All T steps count:
sequence_lens is data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flopwise.errors import ModelError
from flopwise.graph import Node
from flopwise.operators import gradient
from flopwise.operators.counts import SIGMOID, Counts
from flopwise.operators.extents import extent
from flopwise.operators.inputs import DATA, FACTOR, STATE, WEIGHT, factor, inputs
from flopwise.operators.operator import Operator, by

#: What one application of an activation costs, by its name in lower case (the specification's list).
ACTIVATIONS: dict[str, Counts] = {
    **dict.fromkeys(("relu", "thresholdedrelu"), Counts(cmp=1)),
    "tanh": Counts(tanh=1),
    "sigmoid": SIGMOID,
    "affine": Counts(mul=1, add=1),
    "leakyrelu": Counts(cmp=1, mul=1),
    "scaledtanh": Counts(mul=2, tanh=1),
    "hardsigmoid": Counts(mul=1, add=1, cmp=2),
    "elu": Counts(cmp=1, exp=1, add=1, mul=1),
    "softsign": Counts(bit=1, add=1, div=1),
    "softplus": Counts(exp=1, add=1, log=1),
}


def lstm(node: Node) -> Counts:
    """T × B × directions × H times: 4 (I + H) mac, 4 add (join), 8 add when B is given, 3 (mul + add) when P is
    given, 3 f + g + h, cell and output 3 mul + 1 add; clip: 2 cmp before each activation. input_forget: the forget
    gate is 1 add in place of a gate.

    f, g, h are the activations (Sigmoid, Tanh, Tanh unless `activations` says otherwise).

    https://onnx.ai/onnx/operators/onnx__LSTM.html
    """
    coupled = bool(node.attrs.get("input_forget", 0))
    gates = 3 if coupled else 4
    once = Counts(add=gates, mul=3) + Counts(add=2 if coupled else 1)
    if node.has_input(3):
        once += Counts(add=_biases(node, gates))
    if node.has_input(7):
        once += Counts(mul=1, add=1) * (gates - 1)
    counts = Counts()
    for f, g, h in activation_costs(node, ("Sigmoid", "Tanh", "Tanh"), ACTIVATIONS):
        counts += _every_step(node, gates, once + f * (gates - 1) + g + h + _clip(node) * (gates + 1))
    return counts


def gru(node: Node) -> Counts:
    """T × B × directions × H times: 3 (I + H) mac, 3 add (join), 6 add when B is given, 2 f + g, reset and blend 3
    mul + 2 add; clip: 2 cmp before each activation. linear_before_reset moves the reset's mul and changes no number.

    f, g are the activations (Sigmoid, Tanh unless `activations` says otherwise).

    https://onnx.ai/onnx/operators/onnx__GRU.html
    """
    once = Counts(add=3 + 2, mul=3)
    if node.has_input(3):
        once += Counts(add=_biases(node, 3))
    counts = Counts()
    for f, g in activation_costs(node, ("Sigmoid", "Tanh"), ACTIVATIONS):
        counts += _every_step(node, 3, once + f * 2 + g + _clip(node) * 3)
    return counts


def rnn(node: Node) -> Counts:
    """T × B × directions × H times: (I + H) mac, 1 add (join), 2 add when B is given, f; clip: 2 cmp before f.

    f is the activation (Tanh unless `activations` says otherwise).

    https://onnx.ai/onnx/operators/onnx__RNN.html
    """
    once = Counts(add=1 + _biases(node, 1) if node.has_input(3) else 1)
    counts = Counts()
    for (f,) in activation_costs(node, ("Tanh",), ACTIVATIONS):
        counts += _every_step(node, 1, once + f + _clip(node))
    return counts


def _biases(node: Node, gates: int) -> int:
    """Biases added for each hidden unit: two for each gate, or as many as B holds of them where they are summed."""
    b, r = node.input(3), node.input(2)
    width, hidden = b.shape[-1] if b.shape else None, r.shape[-1] if r.shape else None
    if type(width) is int and type(hidden) is int and hidden and width in (gates * hidden, (gates + 1) * hidden):
        return width // hidden
    return 2 * gates


def _every_step(node: Node, gates: int, once: Counts) -> Counts:
    """One direction: the gates' products and ``once`` for each step, sample and hidden unit.

    X is (T, B, I) or, with layout=1, (B, T, I): the product of its first two extents is the same.
    """
    x, recurrence = node.input(0), node.input(2)
    hidden = extent(node, recurrence, -1)
    units = extent(node, x, 0) * extent(node, x, 1) * hidden
    return (once + Counts(mac=gates * (extent(node, x, -1) + hidden))) * units


def _clip(node: Node) -> Counts:
    """Counts of bounding the input of one activation."""
    return Counts(cmp=2) if "clip" in node.attrs else Counts()


def activation_costs(node: Node, default: Sequence[str], costs: Mapping[str, Counts]) -> list[list[Counts]]:
    """Counts for one element of each activation (f, g, h in order), a list for each direction of a recurrent operator.

    Args:
        node: the operator, whose ``activations`` name them; with none, each direction has ``default``.
        default: the operator's activations by default.
        costs: lower-case name -> counts of the activation, or of its derivative.

    Raises:
        ModelError: an activation is not in ``costs``, or a direction names too many or too few.
    """
    names: Sequence[str] = node.attrs.get("activations") or default
    per = len(default)
    directions = []
    for direction in range(2 if node.attrs.get("direction", "forward") == "bidirectional" else 1):
        own = names[direction * per : (direction + 1) * per] or names[:per]
        try:
            directions.append([costs[name.lower()] for name in own])
        except KeyError:
            raise ModelError(f"{node.op} {node.name!r}: unknown activation in {', '.join(own)}") from None
        if len(own) != per:
            raise ModelError(f"{node.op} {node.name!r}: {per} activations per direction expected, got {', '.join(own)}")
    return directions


OPERATORS: dict[str, Operator] = {
    "LSTM": by(
        lstm,
        inputs=inputs(
            FACTOR, factor("stacked", role="weight"), factor("stacked", role="weight"), WEIGHT, DATA, STATE, STATE
        ),
        gradient=gradient.by("recurrent:lstm", "recurrent:lstm_keeps"),
        shape="algebra:recurrent",
    ),
    "GRU": by(
        gru,
        inputs=inputs(FACTOR, factor("stacked", role="weight"), factor("stacked", role="weight"), WEIGHT, DATA, STATE),
        gradient=gradient.by("recurrent:gru", "recurrent:gru_keeps"),
        shape="algebra:recurrent",
    ),
    "RNN": by(
        rnn,
        inputs=inputs(FACTOR, factor("stacked", role="weight"), factor("stacked", role="weight"), WEIGHT, DATA, STATE),
        gradient=gradient.by("recurrent:rnn", "recurrent:rnn_keeps"),
        shape="algebra:recurrent",
    ),
}
