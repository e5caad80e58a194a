"""Quantised operators that onnx-tool 1.0.1 counts wrong, with the right numbers worked out by hand."""

from __future__ import annotations

import contextlib
import io
from typing import NamedTuple

import numpy
import onnx
import pytest
from onnx import helper

from flopwise.api.profile import profile


class Case(NamedTuple):
    """A model in onnx's text format, the right number, and the tool's."""

    text: str
    right: int
    tool: int
    figure: str = "mac"
    #: What the tool's rule gives for the true shapes, where its own shape inference fails.
    rule: int | None = None


CASES = {
    "MatMulInteger whose one zero point is billed as a bias": Case(
        "(uint8[4,5] x, int8[5,7] w, uint8 z) => (int32[4,7] y) { y = MatMulInteger(x, w, z) }", 140, 168
    ),
    "what the zero point costs": Case(
        "(uint8[4,5] x, int8[5,7] w, uint8 z) => (int32[4,7] y) { y = MatMulInteger(x, w, z) }", 20, 168, "add"
    ),
    "ConvInteger in 3-D, which has no shape and loses an extent of its kernel": Case(
        "(uint8[1,2,6,6,6] x, int8[4,2,3,3,3] w) => (int32[1,4,4,4,4] y)"
        " { y = ConvInteger<kernel_shape = [3, 3, 3], strides = [1, 1, 1]>(x, w) }",
        4 * 64 * 2 * 27,
        0,
        rule=4 * 64 * 2 * 9,
    ),
    "QLinearMatMul that broadcasts": Case(
        "(uint8[8,1,16,16] x, float s, uint8 z, uint8[1,8,16,16] w) => (uint8[8,8,16,16] y)"
        " { y = QLinearMatMul(x, s, z, w, s, z, s, z) }",
        8 * 8 * 16**3,
        8 * 16**3,
    ),
    "DequantizeLinear of weights, which runs once": Case(
        "(float[4,5] x) => (float[4,7] y) <float s = {0.5}, int8[5,7] w = {WEIGHTS}>"
        " { u = DequantizeLinear(w, s)  y = MatMul(x, u) }".replace("WEIGHTS", ", ".join(["1"] * 35)),
        0,
        4 * 5 * 7 + 2 * 35,
        "mul",
    ),
}


def build(case: Case) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> g {case.text}')
    for node, number in zip(model.graph.node, range(9), strict=False):
        node.name = f"n{number}"
    onnx.checker.check_model(model)
    return model


@pytest.mark.parametrize("name", CASES)
def test_ours_is_right(name: str) -> None:
    case = CASES[name]
    counted = profile(build(case))
    assert counted.exact
    assert getattr(counted.sum.counts, case.figure) == case.right


@pytest.mark.parametrize("name", CASES)
def test_the_tool_is_still_wrong(name: str) -> None:
    """When a newer onnx-tool mends one of these, its convention here has to follow."""
    onnx_tool = pytest.importorskip("onnx_tool")
    case = CASES[name]
    model = build(case)
    types = {i.name: i.type.tensor_type for i in model.graph.input}
    feeds = {
        name: numpy.ones([d.dim_value for d in t.shape.dim], helper.tensor_dtype_to_np_dtype(t.elem_type))
        for name, t in types.items()
    }
    with contextlib.redirect_stdout(io.StringIO()):
        graph = onnx_tool.Model(model, {"verbose": False}).graph
        graph.graph_reorder_nodes()
        graph.shape_infer(feeds)
        graph.profile()
    assert int(graph.macs[0]) == case.tool
    assert profile(model, convention="onnx-tool").total("count") == (case.tool if case.rule is None else case.rule)
