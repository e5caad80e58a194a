"""Operators that do not fit their inputs: refused with other input shapes than the file's, told otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto, helper
from tests.formats.models import model as model_of
from tests.formats.models import node, value, weight

import flopwise


def model(size: int, rows: int, channels: int = 3) -> bytes:
    """Conv on 3 channels, pooling by 8, a fixed Reshape to 4 × 16 columns, and Gemm with the given rows of weights."""
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], name="conv"),
        helper.make_node("AveragePool", ["c"], ["p"], kernel_shape=[8, 8], strides=[8, 8]),
        helper.make_node("Reshape", ["p", "s"], ["r"], name="flat"),
        helper.make_node("Gemm", ["r", "w"], ["y"], name="fc"),
    ]
    stored = [
        helper.make_tensor("k", TensorProto.FLOAT, [4, 3, 1, 1], [0.0] * 12),
        helper.make_tensor("s", TensorProto.INT64, [2], [1, 64]),
        helper.make_tensor("w", TensorProto.FLOAT, [rows, 2], [0.0] * rows * 2),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, size, size])]
    graph = helper.make_graph(nodes, "fit", inputs, [helper.make_tensor_value_info("y", 1, None)], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def test_what_fits_is_not_told() -> None:
    assert flopwise.read(model(32, 64)).warnings == ()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            (1, 3, 64, 64),
            r"Reshape 'flat' does not fit its inputs: \(1, 4, 8, 8\) has another number of elements",
        ),
        ((1, 6, 32, 32), r"Conv 'conv' does not fit its inputs: it takes 3 channels, but \(1, 6, 32, 32\) has 6"),
    ],
)
def test_other_input_shapes_are_refused(given: tuple[int, ...], told: str) -> None:
    with pytest.raises(flopwise.InputError, match=f"the input shapes are impossible: {told}"):
        flopwise.read(model(32, 64), given)


@pytest.mark.parametrize(
    ("damaged", "told"),
    [
        (
            model(64, 64),
            "Reshape 'flat' does not fit its inputs: (1, 4, 8, 8) has another number of elements than (1, 64)",
        ),
        (model(32, 60), "Gemm 'fc' does not fit its inputs: (1, 64) times (60, 2): the inner extents differ"),
        (model(32, 64, 6), "Conv 'conv' does not fit its inputs: it takes 3 channels, but (1, 6, 32, 32) has 6"),
    ],
)
def test_a_file_that_contradicts_itself_is_told(damaged: bytes, told: str) -> None:
    assert told in flopwise.read(damaged).warnings
    profile = flopwise.profile(damaged)
    assert not profile.exact
    assert any(row.unknown for row in profile.rows) or profile.unresolved


X = {"x": (2, 6, 8, 8)}
SEQUENCE = {"x": (5, 2, 6)}


@pytest.mark.parametrize(
    ("node_", "inputs", "stored", "told"),
    [
        (
            node("Conv", "x w", "y", "n", group=0),
            X,
            [weight("w", 4, 6, 1, 1)],
            "does not fit its inputs: group is 0",
        ),
        (
            node("Conv", "x w", "y", "n", group=-2),
            X,
            [weight("w", 4, 6, 1, 1)],
            "does not fit its inputs: group is -2",
        ),
        (
            node("Conv", "x w", "y", "n", group=3),
            X,
            [weight("w", 4, 2, 1, 1)],
            "4 channels cannot be divided into 3 groups",
        ),
        (
            node("ConvTranspose", "x w", "y", "n"),
            X,
            [weight("w", 4, 6, 1, 1)],
            "takes 4 channels, but (2, 6, 8, 8) has 6",
        ),
        (
            node("ConvTranspose", "x w", "y", "n", group=4),
            X,
            [weight("w", 6, 6, 1, 1)],
            "6 channels cannot be divided into 4 groups",
        ),
        (
            node("BatchNormalization", "x s s s s", "y", "n"),
            X,
            [weight("s", 4)],
            "has parameters for 4 channels, but (2, 6, 8, 8) has 6",
        ),
        (
            node("LSTM", "x w r", "y", "n", hidden_size=3),
            SEQUENCE,
            [weight("w", 1, 12, 5), weight("r", 1, 12, 3)],
            "takes inputs of 5, but (5, 2, 6) has 6",
        ),
        (
            node("GRU", "x w r", "y", "n", hidden_size=3),
            SEQUENCE,
            [weight("w", 1, 12, 6), weight("r", 1, 12, 3)],
            "are not of 3 gates",
        ),
        (
            node("LSTM", "x w r", "y", "n", hidden_size=7),
            SEQUENCE,
            [weight("w", 1, 12, 6), weight("r", 1, 12, 3)],
            "hidden_size is 7, but the weights are (1, 12, 3)",
        ),
        *(
            (
                node(op, "x w r _ _ h", "y", "n", hidden_size=3),
                {**SEQUENCE, "h": start},
                [weight("w", 1, gates * 3, 6), weight("r", 1, gates * 3, 3)],
                f"an initial state of {told} where its inputs make it (1, 2, 3)",
            )
            for op, gates in {"LSTM": 4, "GRU": 3, "RNN": 1}.items()
            for start, told in {(1, 128, 3): "(1, 128, 3)", (1, 2, 9): "(1, 2, 9)", (2, 3): "(2, 3)"}.items()
        ),
        (
            node("LSTM", "x w r _ l h c", "y", "n", hidden_size=3, layout=1),
            {**SEQUENCE, "l": (2,), "h": (5, 1, 3), "c": (5, 1, 3)},
            [weight("w", 1, 12, 6), weight("r", 1, 12, 3)],
            "lengths of (2) where its inputs make it (5)",
        ),
        *(
            (
                node("Conv", "x w", "y", "n", **attrs),
                X,
                [weight("w", 4, 6, kernel, 3)],
                f"a window over {reach} elements is larger than the image, 8{padding}",
            )
            for kernel, attrs, reach, padding in (
                (9, {}, 9, ""),
                (10, {"strides": [3, 1]}, 10, ""),
                (5, {"dilations": [2, 1]}, 9, ""),
                (12, {"pads": [1, 0, 2, 0]}, 12, " with a padding of 1 and 2"),
                (9, {"auto_pad": "VALID"}, 9, ""),
            )
        ),
        (
            node("AveragePool", "x", "y", "n", kernel_shape=[11, 2]),
            X,
            [],
            "a window over 11 elements is larger than the image, 8",
        ),
    ],
)
def test_what_cannot_run_is_unknown(node_: Any, inputs: Any, stored: Any, told: str) -> None:
    net = model_of([node_], inputs, stored)
    profile = flopwise.profile(net)
    assert any(told in note for note in profile.notes)
    assert profile.rows[0].unknown
    assert not profile.exact


def test_a_pool_divides_towards_zero_as_onnxruntime_does() -> None:
    """Kernel 9 over 8 elements makes no window in steps of 1, and one in steps of 2."""
    for stride, windows in ((1, 0), (2, 1)):
        pool = node("MaxPool", "x", "y", kernel_shape=[9, 1], strides=[stride, 1])
        assert flopwise.read(model_of([pool], X)).outputs[0].shape == (2, 6, windows, 8)


def test_what_cannot_run_in_a_body_is_unknown() -> None:
    body = helper.make_graph([node("Conv", "x w", "b", group=0)], "b", [], [value("b", None)])
    net = model_of(
        [node("If", "c", "y", then_branch=body, else_branch=body)], {**X, "c": ()}, [weight("w", 4, 6, 1, 1)]
    )
    profile = flopwise.profile(net)
    assert any("group is 0" in note for note in profile.notes)
    assert not profile.exact


def test_two_stored_tensors_of_one_name() -> None:
    nodes = [node("Add", "x w", "y")]
    with pytest.raises(
        flopwise.ModelError, match=r"two stored tensors are named 'w': one of shape \(4,\), one of \(1,\)"
    ):
        flopwise.read(model_of(nodes, {"x": (4,)}, [weight("w", 4), weight("w", 1)]))
    assert flopwise.profile(model_of(nodes, {"x": (4,)}, [weight("w", 4), weight("w", 4)])).exact
