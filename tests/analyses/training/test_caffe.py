"""Training steps of Caffe nets."""

from __future__ import annotations

from tests.operators.nodes import gradient_of

import flopwise
from flopwise.graph import Node, Tensor
from flopwise.operators.counts import Counts

ALEXNET = "examples/alexnet.prototxt"


def test_a_net_of_products_costs_twice_its_forward_pass_less_the_gradient_of_the_image() -> None:
    profile = flopwise.profile(ALEXNET, train=True)
    assert profile.training is not None
    assert profile.training.unknown == {}
    first = next(row for row in profile.rows if row.node.op == "Conv")
    assert profile.total("backward_macs") == 2 * profile.total("macs") - (first.macs or 0)
    assert sum(t.numel for t in profile.training.weights) == profile.total("params")


def test_dropout_in_a_net_for_inference_passes_on_and_a_note_says_so() -> None:
    assert any("Dropout in inference mode" in note for note in flopwise.profile(ALEXNET, train=True).notes)


def _node(op: str, shapes: tuple[tuple[int, ...] | None, ...], y: tuple[int, ...], **attrs: int) -> Node:
    tensors = tuple(None if s is None else Tensor(f"x{i}", s, "float32") for i, s in enumerate(shapes))
    return Node(op, "node", tensors, (Tensor("y", y, "float32"),), attrs)


def test_an_unrolled_lstm_multiplies_as_the_operator_of_onnx_does() -> None:
    steps, streams, inner, hidden = 5, 3, 4, 6
    ours = _node(
        "caffe::LSTM",
        ((steps, streams, inner), (steps, streams), (4 * hidden, inner), (4 * hidden,), (4 * hidden, hidden)),
        (steps, streams, hidden),
        hidden_size=hidden,
        static_input=0,
    )
    onnx = _node(
        "LSTM",
        ((steps, streams, inner), (1, 4 * hidden, inner), (1, 4 * hidden, hidden)),
        (steps, 1, streams, hidden),
        hidden_size=hidden,
    )
    counts = gradient_of("caffe::LSTM").rule(ours, frozenset({0, 2, 3, 4}))
    assert counts.mac == gradient_of("LSTM").rule(onnx, frozenset({0, 1, 2})).mac
    assert counts != Counts()
