"""Stacks of recurrent layers, and single cells, as PyTorch calls them: counted as the LSTM, GRU and RNN of ONNX."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.errors import ShapeError
from flopwise.graph import Node, Tensor
from flopwise.operators import gradient
from flopwise.operators.counts import Counts
from flopwise.operators.extents import extent
from flopwise.operators.inputs import Input, Weight, inputs
from flopwise.operators.onnx.recurrent import ACTIVATIONS
from flopwise.operators.operator import Operator, Rule

_TANH, _SIGMOID, _RELU = ACTIVATIONS["tanh"], ACTIVATIONS["sigmoid"], ACTIVATIONS["relu"]

#: Number of gates, and the pointwise work of one hidden unit in one step without biases.
_KINDS: dict[str, tuple[int, Counts]] = {
    "lstm": (4, Counts(add=4 + 1, mul=3) + _SIGMOID * 3 + _TANH * 2),
    "gru": (3, Counts(add=3 + 2, mul=3) + _SIGMOID * 2 + _TANH),
    "rnn_tanh": (1, Counts(add=1) + _TANH),
    "rnn_relu": (1, Counts(add=1) + _RELU),
}


def _layers(kind: str) -> Rule:
    gates, once = _KINDS[kind]

    def rule(node: Node) -> Counts:
        x = node.input(0)
        steps = x.numel // max(1, extent(node, x, -1))
        total = Counts()
        for w_ih, w_hh, biased, projection in _weights(node, gates):
            hidden = extent(node, w_ih, 0) // gates
            inner = extent(node, w_ih, 1) + extent(node, w_hh, 1)
            own = once + Counts(add=2 * gates if biased else 0, mac=gates * inner)
            total += own * (steps * hidden)
            if projection is not None:
                total += Counts(mac=steps * projection.numel)
        if node.attrs.get("dropout", 0):
            per_layer = node.attrs.get("layers", 1)
            total += Counts(cmp=1, mul=2) * ((per_layer - 1) * node.output().numel)
        return total

    return rule


def _weights(node: Node, gates: int) -> Iterator[tuple[Tensor, Tensor, bool, Tensor | None]]:
    """The weights of each layer and direction: two matrices, two biases, and a projection where the state that the
    second matrix takes is not as wide as the gates.

    Raises:
        ShapeError: they are not as many as the layers need.
    """
    parts = node.attrs.get("layers", 1) * node.attrs.get("directions", 1)
    biased = bool(node.attrs.get("biases", 1))
    weights = node.known_inputs[1:]
    projected = len(weights) > 1 and extent(node, weights[1], 1) * gates != extent(node, weights[1], 0)
    each = (4 if biased else 2) + int(projected)
    if len(weights) < parts * each:
        raise ShapeError(f"{node.op} {node.name!r}: {len(weights)} weights for {parts} layers and directions")
    for part in range(parts):
        own = weights[part * each : (part + 1) * each]
        yield own[0], own[1], biased, own[-1] if projected else None


def _cell(kind: str) -> Rule:
    gates, once = _KINDS[kind]

    def rule(node: Node) -> Counts:
        x, w_ih, w_hh = node.input(0), node.input(1), node.input(2)
        samples = x.numel // max(1, extent(node, x, -1))
        biases = sum(int(node.has_input(i)) for i in (3, 4))
        inner = extent(node, w_ih, 1) + extent(node, w_hh, 1)
        own = once + Counts(add=biases * gates, mac=gates * inner)
        return own * (samples * (extent(node, w_ih, 0) // gates))

    return rule


def _row(rule: Rule, formula: str, kind: str) -> Operator:
    """A row for layers of cells, or one cell; the matrices lie in a row among states and biases."""
    back = gradient.by(f"recurrent:{kind}", f"recurrent:{kind}_keeps")
    return Operator(rule, formula, gradient=back, inputs=inputs(repeated=(Input(weight=Weight("matrices")),)))


_OF = "steps × samples × H times, for each layer and direction: "
_TEXTS = {
    "lstm": "4 (I + H) mac, 4 add (join), 8 add with biases, 3 sigmoid, 2 tanh, 3 mul + 1 add; a projection: P × H mac",
    "gru": "3 (I + H) mac, 3 add (join), 6 add with biases, 2 sigmoid, 1 tanh, 3 mul + 2 add",
    "rnn_tanh": "(I + H) mac, 1 add (join), 2 add with biases, 1 tanh",
    "rnn_relu": "(I + H) mac, 1 add (join), 2 add with biases, 1 cmp",
}

OPERATORS: dict[str, Operator] = {
    **{f"aten::{kind}": _row(_layers(kind), _OF + text, "stack") for kind, text in _TEXTS.items()},
    **{f"aten::{kind}_cell": _row(_cell(kind), "samples × H times: " + text, "cell") for kind, text in _TEXTS.items()},
}
