"""Upper bounds of shapes that the data decide: never smaller than what onnx's reference operators make."""

from __future__ import annotations

from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from tests.formats.models import array, ints, model, node, shapes, value, weight

from flopwise.api.profile import profile
from flopwise.api.read import read
from flopwise.api.shapes import write_shapes

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
    assert (counted.bounded, counted.exact) == (("nonzero_1", "transpose_1", "gathernd_1", "matmul_1"), False)
    assert counted.total("macs") == 20 * 3 * 8
    assert "upper bounds: the data decide how large 4 tensors are; the first is 'n'" in counted.notes


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


#: x -> NonZero -> Transpose: at most 16 x 1.
CHOSEN = [node("NonZero", "x", "i"), node("Transpose", "i", "t", perm=[1, 0]), node("Shape", "t", "s")]


def rows_expanded(*arithmetic: onnx.NodeProto) -> list[onnx.NodeProto]:
    """As many copies of a row of 64 as elements differ from zero, multiplied by a weight of 64 x 64."""
    return [
        *CHOSEN,
        node("Gather", "s zero", "n", axis=0),
        *arithmetic,
        node("Concat", "n width", "to", axis=0),
        node("Expand", "row to", "e"),
        node("MatMul", "e w", "y"),
    ]


STORED = [ints("zero", 0), ints("one", 1), ints("width", 64), weight("row", 1, 64), weight("w", 64, 64)]


def test_a_bound_goes_with_the_value_through_shape_arithmetic_and_folding() -> None:
    made = profile(model(rows_expanded(), {"x": (16,)}, STORED))
    assert made.total("macs") == 65_536
    (product,) = [r for r in made.rows if r.node.op == "MatMul"]
    assert product.node.output().shape == (16, 64)
    assert product.node.output().bound
    assert any("upper bounds" in note for note in made.notes)
    listed = [r.node.op for r in made.rows]
    assert {"Shape", "Gather", "Concat", "Expand"} <= set(listed)  # nothing of it is folded


def test_a_bound_is_never_written(tmp_path: Any) -> None:
    net = model(rows_expanded(), {"x": (16,)}, STORED)
    path = str(tmp_path / "m.onnx")
    write_shapes(net, path)
    onnx_model = onnx.load(path)
    written = {v.name: v.type.tensor_type.shape for v in (*onnx_model.graph.value_info, *onnx_model.graph.output)}
    assert [d.dim_value for d in written["y"].dim] == [0, 64]
    assert [d.dim_value for d in written["t"].dim] == [0, 1]
    feeds = {"x": numpy.array([0, 1] * 8, "f")}
    assert ReferenceEvaluator(onnx_model).run(None, feeds)[0].shape == (8, 64)


def of_values(chain: list[onnx.NodeProto], *stored: onnx.TensorProto, x: int = 16) -> Any:
    """The tensor y of a model that takes one of 0 to 16 x 1 further."""
    return {
        t.name: t
        for n in read(model([*CHOSEN, *chain], {"x": (x,)}, [*STORED, *stored])).nodes
        for t in n.known_outputs
    }["y"]


SIX = [ints("six", 6), ints("minus", -1), ints("two", 2)]


@pytest.mark.parametrize(
    ("name", "chain", "expected", "bound"),
    [
        ("the certain axis", [node("Gather", "s one", "n"), node("ConstantOfShape", "n", "y")], (1,), False),
        ("the other axis", [node("Gather", "s zero", "n"), node("ConstantOfShape", "n", "y")], (16,), True),
        (
            "what is left of six grows as the other falls",
            [
                node("Gather", "s zero", "n"),
                node("Sub", "six n", "d"),
                node("Max", "d zero", "m"),
                node("Expand", "one m", "y"),
            ],
            (6,),
            True,
        ),
        (
            "a quotient",
            [node("Gather", "s zero", "n"), node("Div", "six n", "d"), node("ConstantOfShape", "d", "y")],
            (6,),
            True,
        ),
        (
            "a product of differences",
            [
                node("Gather", "s zero", "n"),
                node("Sub", "n six", "d"),
                node("Mul", "d d", "m"),
                node("ConstantOfShape", "m", "y"),
            ],
            (100,),
            True,
        ),
        (
            "a certain comparison",
            [
                node("Equal", "s minus", "e"),
                node("Where", "e one s", "p"),
                node("Gather", "p one", "n"),
                node("ConstantOfShape", "n", "y"),
            ],
            (1,),
            False,
        ),
        (
            "a comparison that the data decide",
            [
                node("Gather", "s zero", "n"),
                node("Less", "n six", "e"),
                node("Where", "e two n", "p"),
                node("ConstantOfShape", "p", "y"),
            ],
            (16,),
            True,
        ),
        ("a range", [node("Size", "t", "n"), node("Range", "start n step", "y")], (16,), True),
        (
            "a product of all",
            [node("ReduceProd", "s", "n", keepdims=1), node("ConstantOfShape", "n", "y")],
            (16,),
            True,
        ),
        ("a slice up to it", [node("Gather", "s zero", "n"), node("Slice", "long zero n", "y")], (16,), True),
        (
            "as many of the best",
            [node("Gather", "s zero", "n"), node("Min", "n six", "k"), node("TopK", "long k", "y _")],
            (6,),
            True,
        ),
    ],
)
def test_arithmetic_on_bounds(name: str, chain: list[onnx.NodeProto], expected: tuple[int, ...], bound: bool) -> None:
    steps = [array("start", 0, numpy.int64), array("step", 1, numpy.int64), weight("long", 100)]
    tensor = of_values(chain, *SIX, *steps)
    assert (tensor.shape, tensor.bound) == (expected, bound)


def test_axes_that_are_certain_stay_certain() -> None:
    nodes = [*CHOSEN, node("Cast", "t", "f", to=FLOAT), node("MatMul", "f line", "y"), node("Transpose", "y", "z")]
    graph = read(model(nodes, {"x": (16,)}, [weight("line", 1, 5)]))
    made = {t.name: t for n in graph.nodes for t in n.known_outputs}
    assert (made["z"].shape, made["z"].bound) == ((5, 16), True)
    again = [*nodes, node("Shape", "z", "zs"), node("Gather", "zs first", "n"), node("ConstantOfShape", "n", "c")]
    graph = read(model(again, {"x": (16,)}, [weight("line", 1, 5), ints("first", 0)]))
    made = {t.name: t for n in graph.nodes for t in n.known_outputs}
    assert (made["c"].shape, made["c"].bound) == ((5,), False)


def test_a_loop_as_long_as_a_bound() -> None:
    body = helper.make_graph(
        [node("Identity", "c", "g"), node("Relu", "a", "b")],
        "body",
        [value("i", (), INT), value("c", (), BOOL), value("a", (4,))],
        [value("g", (), BOOL), value("b", (4,))],
    )
    nodes = [*CHOSEN, node("Gather", "s first", "n"), node("Loop", "n _ v", "y", "loop", body=body)]
    graph = read(model(nodes, {"x": (16,), "v": (4,)}, [array("first", 0, numpy.int64)]))
    assert any("runs at most 16 times" in w for w in graph.warnings)


def test_sequences_as_long_as_a_bound() -> None:
    nodes = [
        *CHOSEN,
        node("SplitToSequence", "t", "q"),
        node("SequenceLength", "q", "n"),
        node("Unsqueeze", "n zero", "u"),
    ]
    graph = read(model([*nodes, node("ConstantOfShape", "u", "y")], {"x": (16,)}, STORED))
    made = {t.name: t for n in graph.nodes for t in n.known_outputs}
    assert (made["y"].shape, made["y"].bound) == ((16,), True)
