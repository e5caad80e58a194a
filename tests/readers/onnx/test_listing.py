"""The nodes of a graph, listed once."""

from __future__ import annotations

from onnx import helper

from flopwise.readers.onnx.listing import listed


def test_nodes_in_order_with_their_names() -> None:
    nodes = [helper.make_node("Split", ["x"], ["", "a"], domain="my"), helper.make_node("Relu", ["a"], ["y"])]
    first, second = listed(helper.make_graph(nodes, "g", [], []))
    assert (first.op, first.domain, first.inputs, first.outputs) == ("Split", "my", ("x",), ("", "a"))
    assert first.first_output == "a"
    assert second.proto.op_type == "Relu"
    assert second.inputs[0] is first.outputs[1]


def test_a_node_without_outputs() -> None:
    assert listed(helper.make_graph([helper.make_node("Relu", ["x"], [])], "g", [], []))[0].first_output == ""
