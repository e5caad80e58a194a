"""Recurrent operators of TensorFlow Lite, which take the weights of each gate by themselves.

tensorflow/lite/kernels: rnn.cc, lstm_eval.cc, svdf.cc.
"""

from __future__ import annotations

from collections.abc import Iterable

from flopwise.graph import Node
from flopwise.operators.counts import SIGMOID, Counts
from flopwise.operators.extents import extent
from flopwise.operators.inputs import DATA, STATE, WEIGHT, Input, factor, inputs
from flopwise.operators.operator import Operator, by

#: What a fused activation takes for each element.
ACTIVATION: dict[str, Counts] = {
    "RELU": Counts(cmp=1),
    "RELU_N1_TO_1": Counts(cmp=2),
    "RELU6": Counts(cmp=2),
    "TANH": Counts(tanh=1),
    "SIGN_BIT": Counts(bit=1),
}

#: LayerNorm of a gate, for each element and for each row: statistics, and the coefficient.
_NORM, _NORM_ROW = Counts(add=3, mul=3), Counts(div=3, add=2, mul=1, sqrt=1)


def _numel(node: Node, places: Iterable[int]) -> int:
    return sum(node.input(place).numel for place in places if node.has_input(place))


def _steps(node: Node) -> int:
    """Steps × batch."""
    x = node.input(0)
    width = extent(node, x, -1)
    return x.numel // width if width else 0


def _activation(node: Node) -> Counts:
    return ACTIVATION.get(node.attrs.get("activation", ""), Counts())


def rnn(node: Node) -> Counts:
    """T × N × [numel(W) + numel(R) mac, H × 2 add (bias, join) and the activation].

    https://www.tensorflow.org/mlir/tfl_ops#tflunidirectional_sequence_rnn_tflunidirectionalsequencernnop
    """
    return _rnn(node, 1)


def bidirectional_rnn(node: Node) -> Counts:
    """twice, forwards and backwards, T × N × [numel(W) + numel(R) mac, H × 2 add (bias, join) and the activation].

    https://www.tensorflow.org/mlir/tfl_ops
    """
    return _rnn(node, 1) + _rnn(node, 5)


def _rnn(node: Node, first: int) -> Counts:
    units = extent(node, node.input(first), 0)
    once = (_activation(node) + Counts(add=2)) * units
    return (once + Counts(mac=_numel(node, (first, first + 1)))) * _steps(node)


def lstm(node: Node) -> Counts:
    """T × N × [the elements of all matrices mac; for each of the H cells 8 add (biases, joins), 3 sigmoid, 2
    activation, 3 mul + 1 add; peepholes 1 mac each; layer normalisation of a gate 3 add + 3 mul, and 3 div + 2 add + 1
    mul + 1 sqrt for each row; projection with bias 1 add for each of its outputs]. Without an input
    gate 2 add and a sigmoid less, 1 add more.

    https://www.tensorflow.org/mlir/tfl_ops#tfllstm_tfllstmop
    """
    return _lstm(node, 1, 20)


def bidirectional_lstm(node: Node) -> Counts:
    """twice, forwards and backwards, what LSTM takes.

    https://www.tensorflow.org/mlir/tfl_ops#tflbidirectional_sequence_lstm_tflbidirectionalsequencelstmop
    """
    return _lstm(node, 1, None) + _lstm(node, 18, None)


def _lstm(node: Node, first: int, norms: int | None) -> Counts:
    """One direction, whose weights begin at a place, with the coefficients of layer normalisation at another."""
    cells = extent(node, node.input(first + 1), 0)
    gated = node.has_input(first)
    gates = 4 if gated else 3
    once = Counts(add=2 * gates) + SIGMOID * (gates - 1) + _activation(node) * 2 + Counts(mul=3, add=1)
    if not gated:
        once += Counts(add=1)
    once = once * cells
    once += Counts(mac=_numel(node, range(first, first + 11)) + _numel(node, (first + 15,)))
    once += Counts(add=_numel(node, (first + 16,)))
    if norms is not None:
        normalized = [place for place in range(norms, norms + 4) if node.has_input(place)]
        once += (_NORM * cells + _NORM_ROW) * len(normalized)
    return once * _steps(node)


def basic_lstm(node: Node) -> Counts:
    """N × [numel(W) mac, H × (4 add + 3 sigmoid + 2 tanh + 3 mul + 1 add)], W of all four gates over input and state.

    tensorflow/lite/kernels/lstm.cc, the basic kernel
    """
    cells = extent(node, node.input(2), 0) // 4
    once = (Counts(add=5, mul=3, tanh=2) + SIGMOID * 3) * cells
    return (once + Counts(mac=node.input(2).numel)) * _steps(node)


def svdf(node: Node) -> Counts:
    """N × [numel(F) + numel(M) mac (features, then time), F.shape[0] − U add (ranks of a unit), U add when B is given,
    and the activation of U units].

    https://www.tensorflow.org/mlir/tfl_ops#tflsvdf_tflsvdfop
    """
    features, memory, batch = node.input(1), node.input(2), extent(node, node.input(0), 0)
    units = extent(node, node.output(), -1)
    once = Counts(mac=features.numel + memory.numel, add=extent(node, features, 0) - units)
    once += (_activation(node) + Counts(add=int(node.has_input(3)))) * units
    return once * batch


_MATRIX: Input = factor("right", role="weight")
_LSTM = (*[_MATRIX] * 8, *[WEIGHT] * 7, _MATRIX, WEIGHT)

_ROWS: dict[str, Operator] = {
    **dict.fromkeys(
        ("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"), by(rnn, inputs=inputs(DATA, _MATRIX, _MATRIX, WEIGHT, STATE))
    ),
    "BIDIRECTIONAL_SEQUENCE_RNN": by(
        bidirectional_rnn, inputs=inputs(DATA, *[_MATRIX, _MATRIX, WEIGHT, STATE] * 2, DATA, _MATRIX, _MATRIX)
    ),
    **dict.fromkeys(
        ("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"), by(lstm, inputs=inputs(DATA, *_LSTM, STATE, STATE, *[WEIGHT] * 4))
    ),
    "BIDIRECTIONAL_SEQUENCE_LSTM": by(
        bidirectional_lstm, inputs=inputs(DATA, *_LSTM, *_LSTM, STATE, STATE, STATE, STATE)
    ),
    "BASIC_LSTM": by(basic_lstm, inputs=inputs(DATA, STATE, _MATRIX, WEIGHT, STATE)),
    "SVDF": by(svdf, inputs=inputs(DATA, _MATRIX, _MATRIX, WEIGHT, STATE)),
}

OPERATORS: dict[str, Operator] = {f"tflite::{name}": row for name, row in _ROWS.items()}
