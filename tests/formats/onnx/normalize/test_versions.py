"""Operators as the first operator set spells them; later models say the same in another way."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from tests.formats.models import model, node, shapes, weight

from flopwise.api.read import read

X = (2, 4, 6, 8)
STORED = [weight("s", 4), weight("b", 4), weight("m", 4), weight("v", 4), weight("w", 10, 192), weight("wb", 10)]


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        (node("Relu", "x", "y", consumed_inputs=[0]), X),
        (node("Sigmoid", "x", "y"), X),
        (node("LeakyRelu", "x", "y", alpha=0.1), X),
        (node("Clip", "x", "y", min=0.0, max=6.0), X),
        (node("Add", "x s", "y", broadcast=1, axis=1), X),
        (node("Mul", "x x", "y"), X),
        (node("Sum", "x x x", "y"), X),
        (node("BatchNormalization", "x s b m v", "y", is_test=1, consumed_inputs=[0, 0, 0, 1, 1]), X),
        (node("InstanceNormalization", "x s b", "y"), X),
        (node("Dropout", "x", "y", is_test=1), X),
        (node("Cast", "x", "y", to="FLOAT16"), X),
        (node("Concat", "x x", "y"), (2, 8, 6, 8)),
        (node("Concat", "x x", "y", axis=3), (2, 4, 6, 16)),
        (node("Pad", "x", "y", paddings=[0, 0, 1, 2, 0, 0, 3, 4]), (2, 4, 10, 14)),
        (node("Upsample", "x", "y", height_scale=2.0, width_scale=3.0), (2, 4, 12, 24)),
        (node("Split", "x", "y z", axis=1), (2, 2, 6, 8)),
        (node("Split", "x", "y z", axis=1, split=[1, 3]), (2, 1, 6, 8)),
        (node("Reshape", "x", "y", shape=[0, -1]), (2, 192)),
        (node("Flatten", "x", "y"), (2, 192)),
    ],
    ids=lambda v: v.op_type if isinstance(v, onnx.NodeProto) else "",
)
@pytest.mark.parametrize("opset", [1])
def test_operator_set_1(old: onnx.NodeProto, expected: Any, opset: int) -> None:
    graph = read(model([old], {"x": X}, STORED, outputs=["y"], opset=opset, ir=3))
    assert shapes(graph)["y"] == expected
    assert graph.warnings == ()


def test_the_type_that_a_cast_names() -> None:
    for name, expected in (("DOUBLE", "float64"), ("FLOAT", "float32"), ("INT64", "int64"), ("BOOL", "bool")):
        graph = read(model([node("Cast", "x", "y", to=name)], {"x": (3,)}, opset=1))
        assert graph.outputs[0].dtype == expected
    graph = read(model([node("Cast", "x", "y", to="QUATERNION")], {"x": (3,)}, opset=1))
    assert graph.warnings[0].startswith("no shape for Cast 'y'")


def test_a_whole_network_of_operator_set_1() -> None:
    net = model(
        [
            node("Conv", "x c", "a", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            node("BatchNormalization", "a s b m v", "n", is_test=1, consumed_inputs=[0, 0, 0, 1, 1]),
            node("Relu", "n", "r"),
            node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
            node("Reshape", "p", "f", shape=[2, -1]),
            node("Gemm", "f w wb", "g", transB=1, broadcast=1),
            node("Softmax", "g", "y"),
        ],
        {"x": (2, 3, 8, 24)},
        [weight("c", 4, 3, 3, 3), *STORED],
        opset=1,
        ir=1,
    )
    for attribute in (a for n in net.graph.node for a in n.attribute):
        attribute.ClearField("type")  # the first models have no types
    del net.opset_import[:]
    graph = read(net)
    assert shapes(graph)["y"] == (2, 10)
    assert graph.nodes[0].attrs == {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    assert graph.nodes[0].version == 1
    assert graph.warnings == ()


def test_the_nodes_stay_as_the_file_has_them() -> None:
    graph = read(model([node("Pad", "x", "y", paddings=[0, 0, 1, 2, 0, 0, 3, 4])], {"x": X}, opset=1))
    assert graph.nodes[0].attrs == {"paddings": [0, 0, 1, 2, 0, 0, 3, 4]}
    assert len(graph.nodes[0].inputs) == 1
