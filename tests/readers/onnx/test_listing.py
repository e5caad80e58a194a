"""The nodes of a graph, listed once."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper

from flopwise.errors import ModelError
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


def test_attributes_and_names_that_are_not_ascii() -> None:
    nodes = [
        helper.make_node("Concat", ["größe"], ["größe_" + "é" * 200], name="层/Concat", axis=1),
        helper.make_node("Concat", ["größe_" + "é" * 200], ["y"], doc_string="no matter", axis=1),
    ]
    first, second = listed(helper.make_graph(nodes, "g", [], []))
    assert (first.name, first.inputs, first.outputs) == ("层/Concat", ("größe",), tuple(nodes[0].output))
    assert second.inputs == first.outputs
    assert first.attributes is second.attributes
    assert first.attributes == (nodes[0].attribute[0].SerializeToString(),)


def test_a_name_that_is_no_text() -> None:
    graph = helper.make_graph([helper.make_node("Relu", ["xx"], ["y"])], "g", [], [])
    damaged = onnx.GraphProto.FromString(graph.SerializeToString().replace(b"xx", b"\xff\xfe"))
    with pytest.raises(ModelError, match="not UTF-8"):
        listed(damaged)
