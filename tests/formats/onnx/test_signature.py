"""The declared inputs of a model."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

import flopwise
from flopwise.errors import ModelError
from flopwise.formats.inputs import Declared
from flopwise.formats.kit.inputs import declared, has_loops
from flopwise.formats.kit.read import graph_of, resolved_at
from flopwise.formats.onnx.read import opened_onnx


def model(op: str = "Relu") -> onnx.ModelProto:
    """y = op(x + w) of an open x, beside an input without a shape and one that is stored."""
    sum_ = helper.make_node("Add", ["x", "w"], ["s"], name="sum")
    sum_.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'layer', 'layer']")
    graph = helper.make_graph(
        [sum_, helper.make_node(op, ["s"], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", None, 4]),
            helper.make_tensor_value_info("free", TensorProto.INT64, None),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [4]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("w", TensorProto.FLOAT, [4], [1.0] * 4)],
    )
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


@pytest.mark.parametrize("form", [lambda m: m, lambda m: m.SerializeToString()], ids=["proto", "bytes"])
def test_inputs(form: object) -> None:
    graph = opened_onnx(form(model())).model.graph  # type: ignore[operator]
    assert declared(graph) == (Declared("x", "float32", ("n", None, 4)), Declared("free", "int64", None))
    assert not has_loops(graph)


def test_a_model_that_is_opened_once_is_resolved_at_several_sizes() -> None:
    opened = opened_onnx(model())
    for rows in (2, 5):
        given = {"x": (rows, 3, 4), "free": (1,)}
        one, two = flopwise.read(model(), given), graph_of(resolved_at(opened, given))
        assert [t.shape for n in one.nodes for t in n.known_outputs] == [
            t.shape for n in two.nodes for t in n.known_outputs
        ]


def test_control_flow_shows() -> None:
    body = helper.make_graph([], "b", [], [])
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])]
    node = helper.make_node("Loop", ["", "", "x"], ["y"], body=body)
    assert has_loops(opened_onnx(helper.make_model(helper.make_graph([node], "g", inputs, []))).model.graph)


def test_what_is_no_model() -> None:
    with pytest.raises(ModelError, match="not an ONNX model but an HTML page"):
        opened_onnx(b"<html>")
