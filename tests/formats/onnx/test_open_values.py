"""Shapes that the value of an input decides: what follows all the same, and how to give the value."""

from __future__ import annotations

import pytest
from onnx import TensorProto
from tests.formats.models import array, ints, model, node, shapes, value, weight

import flopwise
from flopwise.api.read import read
from flopwise.errors import InputError

INT = TensorProto.INT64


def test_one_open_extent_follows_from_the_number_of_elements() -> None:
    nodes = [
        node("Unsqueeze", "length zero", "u"),
        node("Concat", "u eight copy", "to", axis=0),
        node("Reshape", "x to", "r"),
        node("MatMul", "r w", "y"),
    ]
    stored = [ints("zero", 0), ints("eight", 8), ints("copy", 0), weight("w", 5, 3)]
    graph = read(model(nodes, [value("x", (3, 1, 5)), value("length", (), INT)], stored))
    assert shapes(graph)["r"] is None  # 15 elements are no whole number of 8 x 5
    graph = read(model(nodes, [value("x", (4, 4, 5)), value("length", (), INT)], stored))
    assert shapes(graph)["y"] == (2, 8, 3)
    assert flopwise.profile(graph).exact


def test_two_open_extents_do_not() -> None:
    nodes = [node("Reshape", "x to", "y")]
    graph = read(model(nodes, [value("x", (4, 4)), value("to", (2,), INT)]))
    assert shapes(graph)["y"] is None
    assert graph.warnings == ("the shape of 'y' depends on the value of 'to': give the value: -i to:i64:2:5,5",)


def test_the_value_is_asked_for() -> None:
    nodes = [
        node("Cast", "length", "n", to=INT),
        node("Range", "start n step", "r"),
        node("Cast", "r", "f", to=TensorProto.FLOAT),
        node("Mul", "f f", "y"),
    ]
    stored = [array("start", 0, "int64"), array("step", 1, "int64")]
    net = model(nodes, [value("length", (), TensorProto.INT32)], stored)
    graph = read(net)
    assert graph.warnings == ("the shape of 'r' depends on the value of 'length': give the value: -i length:i32::5",)
    assert shapes(read(net, ["length:i32::5"]))["y"] == (5,)


def test_a_size_that_the_model_cannot_take_is_an_error() -> None:
    net = model([node("MatMul", "x w", "y", "product")], {"x": ("n", "k")}, [weight("w", 6, 4)])
    assert shapes(read(net, {"x": (2, 6)}))["y"] == (2, 4)
    with pytest.raises(InputError, match="the input shapes are impossible: MatMul 'product' does not fit its inputs"):
        read(net, {"x": (2, 7)})
    fixed = model([node("MatMul", "x w", "y", "product")], {"x": (2, 7)}, [weight("w", 6, 4)])
    profile = flopwise.profile(fixed)
    assert not profile.exact
    assert profile.rows[0].unknown
    assert any("MatMul 'product' does not fit its inputs" in note for note in profile.notes)
