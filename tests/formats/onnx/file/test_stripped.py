"""Initialisers that were written without their elements."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper
from tests.formats.models import array, fields, ints, kinds, model, node, value

from flopwise.api.read import read
from flopwise.errors import ModelError
from flopwise.formats.onnx.decode import MARK


def hollow(name: str, *dims: int, marked: bool = True) -> onnx.NodeProto:
    """A constant of zeros that takes no room."""
    sparse = onnx.SparseTensorProto(values=array("", []), indices=ints(""), dims=dims)
    made = node("Constant", "", name, sparse_value=sparse)
    if marked:
        made.metadata_props.add(key=MARK)
    return made


@pytest.mark.parametrize("name", ["w", "w" * 500])
def test_marked_constants_are_initialisers(name: str) -> None:
    for net in (model([hollow(name, 6, 5), node("MatMul", f"x {name}", "y")], {"x": (2, 6)}),):
        for given in (net, net.SerializeToString()):
            graph = read(given)
            assert [n.op for n in graph.nodes] == ["MatMul"]
            assert graph.nodes[0].input(1).shape == (6, 5)
            assert kinds(graph)[name] == "weight"
            assert graph.weights[name].array().shape == (6, 5)


def test_other_constants_are_not() -> None:
    graph = read(model([hollow("w", 6, 5, marked=False), node("MatMul", "x w", "y")], {"x": (2, 6)}))
    assert [n.op for n in graph.nodes] == ["Constant", "MatMul"]


def test_in_a_body() -> None:
    body = helper.make_graph([hollow("w", 6, 5), node("MatMul", "x w", "t")], "then", [], [value("t", (2, 5))])
    other = helper.make_graph([hollow("w", 6, 5), node("MatMul", "x w", "f")], "else", [], [value("f", (2, 5))])
    net = model([node("If", "c", "y", "if", then_branch=body, else_branch=other)], {})
    net.graph.input.extend([value("c", (), TensorProto.BOOL), value("x", (2, 6))])
    graph = read(net.SerializeToString())
    assert [n.op for n in graph.nodes] == ["If", "MatMul", "MatMul"]
    assert [w.array().shape for w in graph.weights.values()] == [(6, 5), (6, 5)]


def test_a_name_that_is_no_text() -> None:
    net = model([hollow("w", 6, 5), node("MatMul", "x w", "y")], {"x": (2, 6)})
    data = net.SerializeToString().replace(fields(2, "w"), fields(2, b"\xff"))
    with pytest.raises(ModelError, match="a name is not UTF-8"):
        read(data)
