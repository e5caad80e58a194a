"""Upper bounds of shapes that the data decide: never smaller than what onnx's reference operators make."""

from __future__ import annotations

from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator
from tests.readers.models import array, ints, model, node, shapes, value

from flopwise.api.profile import profile
from flopwise.api.read import read

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
RANDOM = numpy.random.default_rng(0)

#: A node that makes "y", what it takes, and the largest possible shape.
CASES: dict[str, tuple[onnx.NodeProto, dict[str, Any], tuple[int, ...]]] = {
    "NonZero": (node("NonZero", "x", "y"), {"x": RANDOM.integers(0, 2, (3, 4)).astype("f")}, (2, 12)),
    "Compress": (
        node("Compress", "x c", "y"),
        {"x": RANDOM.random((3, 4), "f"), "c": numpy.array([1, 0, 1, 1, 0], bool)},
        (5,),
    ),
    "Compress along": (
        node("Compress", "x c", "y", axis=-1),
        {"x": RANDOM.random((3, 4), "f"), "c": numpy.array([1, 0, 1], bool)},
        (3, 3),
    ),
    "Unique": (node("Unique", "x", "y"), {"x": RANDOM.integers(0, 5, (3, 4)).astype("f")}, (12,)),
    "Unique along": (node("Unique", "x", "y", axis=1), {"x": numpy.ones((3, 4), "f")}, (3, 4)),
    "NonMaxSuppression": (
        node("NonMaxSuppression", "x c k i s", "y", center_point_box=0),
        {
            "x": RANDOM.random((2, 6, 4), "f"),
            "c": RANDOM.random((2, 3, 6), "f"),
            "k": numpy.array([4]),
            "i": numpy.array([0.5], "f"),
            "s": numpy.array([0.1], "f"),
        },
        (2 * 3 * 6, 3),
    ),
    "TopK": (node("TopK", "x k", "y i"), {"x": RANDOM.random((3, 9), "f"), "k": numpy.array([2])}, (3, 9)),
    "Slice": (
        node("Slice", "x a b", "y"),
        {"x": RANDOM.random((5, 9), "f"), "a": numpy.array([1, 2]), "b": numpy.array([3, 9])},
        (5, 9),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_never_smaller_than_what_comes_out(name: str) -> None:
    made, feeds, most = CASES[name]
    codes = {"f": FLOAT, "i": INT, "b": BOOL}
    net = model([made], [value(n, a.shape, codes[a.dtype.kind]) for n, a in feeds.items()], outputs=["y"], opset=18)
    (found,) = read(net).outputs
    assert (found.shape, found.bound) == (most, True)
    (result,) = ReferenceEvaluator(made, opsets={"": 18}).run(None, feeds)[:1]
    assert len(result.shape) == len(most)
    assert all(a <= b for a, b in zip(result.shape, most, strict=True))
    (exact,) = read(net, feeds).outputs
    assert (exact.shape, exact.bound) == (result.shape, False)


def test_no_boxes_are_asked_for() -> None:
    net = model([node("NonMaxSuppression", "x c", "y")], {"x": (2, 6, 4), "c": (2, 3, 6)})
    assert shapes(read(net))["y"] == (0, 3)


def test_what_follows_from_a_bound_is_a_bound() -> None:
    nodes = [
        node("NonZero", "x", "n"),
        node("Transpose", "n", "t"),
        node("GatherND", "w t", "g"),
        node("MatMul", "g v", "y"),
        node("Relu", "x", "r"),
    ]
    stored = [array("w", numpy.ones((4, 5, 8))), array("v", numpy.ones((8, 3)))]
    counted = profile(model(nodes, {"x": (4, 5)}, stored, outputs=["y", "r"]))
    assert shapes(counted.graph)["y"] == (20, 3)
    assert [t.bound for t in counted.graph.outputs] == [True, False]
    assert counted.exact
    assert counted.total("macs") == 20 * 3 * 8
    assert "upper bounds: 4 tensors are as large as the data say, at most; the first is 'n'" in counted.notes


def test_known_limits_of_a_slice_are_kept() -> None:
    nodes = [node("Slice", "x a b axes", "y")]
    inputs = [value("x", (5, 9)), value("b", (1,), INT)]
    graph = read(model(nodes, inputs, [ints("a", 2), ints("axes", 1)]))
    assert shapes(graph)["y"] == (5, 9)


def test_declared_shapes_are_better_than_bounds() -> None:
    net = model(
        [node("NonZero", "x", "n"), node("Cast", "n", "y", to=FLOAT)], {"x": (4, 5)}, values=[value("n", (2, 7), INT)]
    )
    graph = read(net)
    assert shapes(graph) == {"n": (2, 7), "y": (2, 7)}
    assert not graph.outputs[0].bound
