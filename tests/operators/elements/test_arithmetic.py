"""Shape arithmetic: what exporters compute shapes with, and what must not be computed."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from tests.formats.models import array, ints, model, node, shapes, value, weight
from tests.work import calls_at_most

from flopwise.api.read import read
from flopwise.errors import ModelError
from flopwise.sizes import facts, run


def scalar(name: str, content: int) -> onnx.TensorProto:
    return array(name, content, numpy.int64)


def made(nodes: list[onnx.NodeProto], *stored: onnx.TensorProto, x: Any = (2, 3, 8, 10), opset: int = 17) -> Any:
    graph = read(model(nodes, {"x": x}, stored, opset=opset))
    assert graph.warnings == ()
    return shapes(graph)["y"]


FLAT = (2, 240)


@pytest.mark.parametrize(
    ("name", "nodes", "stored", "expected"),
    [
        (
            "view(x.size(0), -1)",
            [
                node("Shape", "x", "s"),
                node("Gather", "s zero", "n"),
                node("Unsqueeze", "n axis", "u"),
                node("Concat", "u rest", "t", axis=0),
                node("Reshape", "x t", "y"),
            ],
            [scalar("zero", 0), ints("axis", 0), ints("rest", -1)],
            FLAT,
        ),
        (
            "through floating point, where onnx stops",
            [
                node("Shape", "x", "s"),
                node("Cast", "s", "f", to=TensorProto.FLOAT),
                node("Mul", "f scales", "m"),
                node("Floor", "m", "g"),
                node("Cast", "g", "i", to=TensorProto.INT64),
                node("Resize", "x _ _ i", "y"),
            ],
            [array("scales", [1, 1, 0.5, 2])],
            (2, 3, 4, 20),
        ),
        (
            "expand as Hugging Face writes it",
            [
                node("ConstantOfShape", "one", "ones", value=ints("v", 1)),
                node("Mul", "ones minus", "m"),
                node("Equal", "wish m", "e"),
                node("Where", "e ones wish", "t"),
                node("Expand", "row t", "r"),
                node("Shape", "r", "s"),
                node("ConstantOfShape", "s", "z"),
                node("Add", "x z", "y"),
            ],
            [ints("one", 4), scalar("minus", -1), ints("wish", 2, -1, 8, -1), weight("row", 1, 10)],
            (2, 3, 8, 10),
        ),
        (
            "a range as long as a dimension",
            [
                node("Shape", "x", "s", start=3),
                node("Squeeze", "s", "n"),
                node("Range", "zero n one", "r"),
                node("Cast", "r", "f", to=TensorProto.FLOAT),
                node("Add", "x f", "y"),
            ],
            [scalar("zero", 0), scalar("one", 1)],
            (2, 3, 8, 10),
        ),
        (
            "from the end, cut by the rank",
            [node("Shape", "x", "s", start=-2, end=9), node("ConstantOfShape", "s", "y")],
            [],
            (8, 10),
        ),
        (
            "number of elements",
            [node("Size", "x", "n"), node("Unsqueeze", "n axis", "u"), node("ConstantOfShape", "u", "y")],
            [ints("axis", 0)],
            (480,),
        ),
        (
            "halves of a dimension",
            [
                node("Shape", "x", "s"),
                node("Slice", "s a b", "c"),
                node("ReduceProd", "c", "p", keepdims=1),
                node("Div", "p four", "q"),
                node("Concat", "q four", "t", axis=0),
                node("Slice", "s zero two", "front"),
                node("Concat", "front t", "u", axis=0),
                node("Reshape", "x u", "y"),
            ],
            [ints("a", 2), ints("b", 9), ints("four", 4), ints("zero", 0), ints("two", 2)],
            (2, 3, 20, 4),
        ),
        (
            "lists in attributes",
            [node("Constant", "", "t", value_ints=[6, -1]), node("Reshape", "x t", "y")],
            [],
            (6, 80),
        ),
        (
            "tiled and padded",
            [
                node("Shape", "x", "s"),
                node("Tile", "s two", "t"),
                node("Slice", "t a b", "p"),
                node("Pad", "x p", "y"),
            ],
            [ints("two", 2), ints("a", 0), ints("b", 8)],
            (6, 9, 24, 30),
        ),
    ],
)
def test_shape_arithmetic(
    name: str, nodes: list[onnx.NodeProto], stored: list[onnx.TensorProto], expected: Any
) -> None:
    assert made(nodes, *stored) == expected


def test_operators_that_are_functions_of_others() -> None:
    """GreaterOrEqual has no rule of its own in operator set 12, but a body."""
    nodes = [
        node("Shape", "x", "s"),
        node("Cast", "s", "f", to=TensorProto.FLOAT),
        node("Cast", "f", "i", to=TensorProto.INT64),
        node("ConstantOfShape", "i", "z"),
        node("GreaterOrEqual", "z x", "y"),
    ]
    assert made(nodes, opset=12) == (2, 3, 8, 10)


def test_what_depends_on_data_stays_open() -> None:
    random = read(model([node("RandomUniform", "", "r", shape=[2]), node("Expand", "x r", "y")], {"x": (1,)}))
    assert shapes(random)["y"] is None


def test_values_of_known_content_are_known() -> None:
    nodes = [
        node("NonZero", "mask", "n"),
        node("Transpose", "n", "t"),
        node("Squeeze", "t one", "i"),
        node("Gather", "x i", "y", axis=1),
    ]
    assert made(nodes, array("mask", [1, 0, 1], bool), ints("one", 1)) == (2, 2, 8, 10)


def test_the_mask_of_an_old_dropout() -> None:
    net = model([node("Dropout", "x", "d m"), node("Relu", "d", "y")], {"x": (2, 3)}, opset=7)
    assert shapes(read(net)) == {"d": (2, 3), "m": (2, 3), "y": (2, 3)}


B = 1 << 62
GIANT: dict[str, tuple[list[onnx.NodeProto], list[onnx.TensorProto]]] = {
    "ConstantOfShape": ([node("ConstantOfShape", "a", "t")], [ints("a", 1 << 20, 1 << 20)]),
    "Expand": ([node("Expand", "v a", "t")], [ints("v", 1), ints("a", 1 << 40)]),
    "Tile": ([node("Tile", "v a", "t")], [ints("v", 1), ints("a", 1 << 40)]),
    "Tile to nothing": ([node("Tile", "v a", "t")], [array("v", [[1]], numpy.int64), ints("a", 1 << 40, 0)]),
    "Tile around": ([node("Tile", "v a", "t")], [ints("v", 1, 1, 1, 1), ints("a", B)]),
    "Pad": ([node("Pad", "v a", "t")], [ints("v", 1), ints("a", 1 << 40, 0)]),
    "Range": (
        [node("Range", "a b c", "t")],
        [scalar("a", 0), scalar("b", 1 << 40), scalar("c", 1)],
    ),
    "Range around": (
        [node("Range", "a b c", "t")],
        [scalar("a", -B), scalar("b", B), scalar("c", 1 << 20)],
    ),
    "Range of nothing": ([node("Range", "a b c", "t")], [scalar("a", 0), scalar("b", 9), scalar("c", 0)]),
    "OneHot": ([node("OneHot", "v a w", "t")], [ints("v", 0), scalar("a", 1 << 40), ints("w", 0, 1)]),
    "Split": (
        [node("Split", "v", "t u", num_outputs=1 << 40)],
        [ints("v", 1, 2)],
    ),
    "Resize": ([node("Resize", "v _ a", "t")], [array("v", [1, 2]), array("a", [1e12])]),
    "AveragePool": (
        [node("AveragePool", "v", "t", kernel_shape=[2], strides=[1 << 40], pads=[1 << 41, 1 << 41])],
        [array("v", [[[1, 2]]])],
    ),
    "Einsum": (
        [node("Einsum", "v v v v v v", "t", equation="a,b,c,d,e,f->")],
        [ints("v", *range(1000))],
    ),
    "of a shape": (
        [node("Expand", "v a", "e"), node("Shape", "e", "s"), node("Expand", "v s", "t")],
        [ints("v", 1), ints("a", 1 << 40)],
    ),
    "size": ([node("Expand", "v a", "e"), node("Size", "e", "t")], [ints("v", 1), ints("a", B)]),
    "Upsample": ([node("Slice", "v a b _ a", "t")], [ints("v", 1), ints("a", 0), ints("b", B)]),
}


@pytest.mark.parametrize("case", GIANT)
def test_nothing_giant_is_computed(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, stored = GIANT[case]
    largest = 0
    constant = facts.Facts.constant

    def watched(self: facts.Facts, plain: facts.Fact, elements: tuple[Any, ...]) -> facts.Fact:
        nonlocal largest
        largest = max(largest, len(elements))
        return constant(self, plain, elements)

    monkeypatch.setattr(facts.Facts, "constant", watched)
    # An unresolved shape at the end makes the second walk happen; a shape that the file gives opens another way in.
    extra = [node("NonZero", "x", "n"), node("Relu", "x", "y")]
    opset = 18 if case == "Split" else 17
    with calls_at_most(3_000_000):
        for said in ([], [value("t", (2,), TensorProto.INT64)]):
            with contextlib.suppress(ModelError):  # no memory can hold it
                read(model([*nodes, *extra], {"x": (1,)}, stored, opset=opset, values=said))
    assert largest <= facts.LARGEST_VALUE


def test_values_take_only_so_much_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ROOM", 10_000)
    steps = [node("Add", f"t{i} t0", f"t{i + 1}") for i in range(50)]
    nodes = [*steps, node("NonZero", "x", "n"), node("Gather", "t50 zero", "g"), node("Expand", "x g", "y")]
    stored = [array("t0", [1] * 1024, numpy.int64), ints("zero", 0)]
    assert shapes(read(model(nodes, {"x": (1,)}, stored)))["y"] is None
    monkeypatch.setattr(run, "ROOM", 1 << 20)
    assert shapes(read(model(nodes, {"x": (1,)}, stored)))["y"] == (51,)


@pytest.mark.parametrize(
    "tensor",
    [
        TensorProto(name="a", data_type=TensorProto.INT64, dims=[3], int64_data=[1]),
        TensorProto(name="a", data_type=TensorProto.INT64, dims=[3]),
        TensorProto(name="a", data_type=TensorProto.INT64, dims=[3], float_data=[1, 2, 3]),
        TensorProto(name="a", data_type=TensorProto.STRING, dims=[1], string_data=[b"\xff"]),
        TensorProto(name="a", data_type=TensorProto.INT4, dims=[3], int32_data=[1]),
    ],
)
def test_contents_that_are_not_what_they_should_be(tensor: TensorProto) -> None:
    for nodes, stored in (
        ([node("ConstantOfShape", "a", "y")], [tensor]),
        ([node("Constant", "", "a", value=tensor), node("ConstantOfShape", "a", "y")], []),
    ):
        assert shapes(read(model(nodes, {"x": (1,)}, stored)))["y"] is None


def test_values_in_every_type() -> None:
    for dtype in ("int8", "uint8", "int32", "float16", "float64", "bool", "uint64"):
        nodes = [node("Cast", "a", "i", to=TensorProto.INT64), node("ConstantOfShape", "i", "y")]
        stored = numpy_helper.from_array(numpy.ones(3, dtype), "a")
        assert made(nodes, stored, x=(1,)) == (1, 1, 1)
