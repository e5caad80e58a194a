"""Operators that do not fit their inputs: refused with other input shapes than the file's, told otherwise."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

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
        ((1, 3, 64, 64), r"Reshape 'flat' makes \(1, 64\) of \(1, 4, 8, 8\), which has another number of elements"),
        ((1, 6, 32, 32), r"Conv 'conv' takes 3 channels, but \(1, 6, 32, 32\) has 6"),
    ],
)
def test_other_input_shapes_are_refused(given: tuple[int, ...], told: str) -> None:
    with pytest.raises(flopwise.InputError, match=f"the input shapes are impossible: {told}"):
        flopwise.read(model(32, 64), given)


@pytest.mark.parametrize(
    ("damaged", "told"),
    [
        (model(64, 64), "Reshape 'flat' makes (1, 64) of (1, 4, 8, 8), which has another number of elements"),
        (model(32, 60), "Gemm 'fc' multiplies (1, 64) by (60, 2): 64 columns meet 60 rows"),
        (model(32, 64, 6), "Conv 'conv' takes 3 channels, but (1, 6, 32, 32) has 6"),
    ],
)
def test_a_file_that_contradicts_itself_is_told(damaged: bytes, told: str) -> None:
    assert told in flopwise.read(damaged).warnings
