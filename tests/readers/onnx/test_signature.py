"""The declared inputs of a model."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

import flopwise
from flopwise.errors import ModelError
from flopwise.readers.onnx.signature import Declared, signature


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
    found = signature(form(model()))  # type: ignore[operator]
    assert found.inputs == (Declared("x", "float32", ("n", None, 4)), Declared("free", "int64", None))
    assert not found.loops


def test_the_lighter_form_is_the_same_model() -> None:
    given = {"x": (2, 3, 4), "free": (1,)}
    light = signature(model()).model
    one, two = (flopwise.profile(m, given) for m in (model(), light))
    assert one.to_dict()["totals"] == two.to_dict()["totals"]


def test_control_flow_shows() -> None:
    body = helper.make_graph([], "b", [], [])
    node = helper.make_node("Loop", ["", "", "x"], ["y"], body=body)
    assert signature(helper.make_model(helper.make_graph([node], "g", [], []))).loops


def test_what_is_no_model() -> None:
    with pytest.raises(ModelError, match="not an ONNX model but an HTML page"):
        signature(b"<html>")
