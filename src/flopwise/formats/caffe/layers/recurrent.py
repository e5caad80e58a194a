"""Caffe's recurrent layers, which unroll into inner products and pointwise layers over T steps of N streams.

Stored blobs in the order in which BVLC Caffe's unrolled net makes them, src/caffe/layers/recurrent_layer.cpp,
lstm_layer.cpp and rnn_layer.cpp.
"""

from __future__ import annotations

from flopwise.formats.caffe.layers.place import Extents, Lowered, Place, Row, Weight, product, show


def _streams(place: Place, states: int) -> tuple[Extents, int, int | None]:
    """The shape of x, the number of hidden units, and the elements of the static input for each stream.

    Raises:
        ModelError: bottoms or tops are missing, or their shapes do not go together.
    """
    message = place.param("recurrent_param")
    hidden = place.size(message, "num_output")
    exposed = states if message.bool("expose_hidden", False) else 0
    bottoms, tops = len(place.bottoms), len(place.layer.tops)
    static = bottoms == 3 + exposed
    if bottoms != 2 + static + exposed or tops != 1 + exposed:
        raise place.error(
            f"has {bottoms} bottoms and {tops} tops; needs x, cont, maybe a static input and {exposed} states, "
            f"and {1 + exposed} tops"
        )
    x, marks = place.bottom(0), place.bottom(1)
    if len(x) < 2 or marks != x[:2]:
        raise place.error(f"x of shape {show(x)} and cont of shape {show(marks)} do not agree in steps and streams")
    if not static:
        return x, hidden, None
    side = place.bottom(2)
    if not side or side[0] != x[1]:
        raise place.error(f"its static input of shape {show(side)} does not have {x[1]} streams")
    return x, hidden, product(side[1:])


def _lowered(place: Place, op: str, gates: int, states: int, output: tuple[Weight, ...]) -> Lowered:
    """Products of x, of the static input and of the last step's state for all gates, then what the output needs."""
    x, hidden, static = _streams(place, states)
    steps, streams, inner = x[0], x[1], product(x[2:])
    rows = gates * hidden
    weights: list[Weight] = [("weight_x", (rows, inner), "weight"), ("bias", (rows,), "weight")]
    if static is not None:
        weights.append(("weight_static", (rows, static), "weight"))
    weights.append(("weight_h", (rows, hidden), "weight"))
    exposed = len(place.layer.tops) - 1
    outputs = ((steps, streams, hidden), *(((1, streams, hidden),) * exposed))
    attrs = {"hidden_size": hidden, "static_input": int(static is not None)}
    return Lowered(op, outputs, (*weights, *output), attrs)


def lstm(place: Place, op: str) -> Lowered:
    """[4H, D], [4H], with a static input [4H, Ds], and [4H, H]."""
    return _lowered(place, op, 4, 2, ())


def rnn(place: Place, op: str) -> Lowered:
    """[H, D], [H], with a static input [H, Ds], [H, H]; and for the output [H, H], [H]."""
    hidden = place.size(place.param("recurrent_param"), "num_output")
    return _lowered(place, op, 1, 1, (("weight_o", (hidden, hidden), "weight"), ("bias_o", (hidden,), "weight")))


def lstm_unit(place: Place, op: str) -> Lowered:
    """Cell and output of one step, from the last cell [1, N, H], the gates [1, N, 4H] and the continuation [1, N]."""
    cell, gates, marks = place.all_bottoms()
    if len(cell) != 3 or gates != (*cell[:2], 4 * cell[2]) or marks != cell[:2] or cell[0] != 1:
        raise place.error(f"cannot step from {show(cell)} with gates of shape {show(gates)} and {show(marks)}")
    return Lowered(op, (cell, cell))


LAYERS: dict[str, Row] = {
    "LSTM": Row("caffe::LSTM", lstm, (2, 5), (1, 3), stores=True),
    "RNN": Row("caffe::RNN", rnn, (2, 4), (1, 2), stores=True),
    "LSTMUnit": Row("caffe::LSTMUnit", lstm_unit, (3, 3), (2, 2)),
}
