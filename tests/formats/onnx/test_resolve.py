"""Shapes of whole models: what is inferred, what the file says, and what is told when the two part."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper, shape_inference
from tests.formats.models import LIGHT, array, conv_net, ints, model, node, shapes, value, weight

from flopwise.api.read import read
from flopwise.errors import ModelError


@pytest.mark.parametrize("path", sorted(LIGHT.glob("*.onnx")), ids=lambda p: p.stem)
def test_every_shape_of_the_light_models(path: object) -> None:
    graph = read(path)
    inferred = shape_inference.infer_shapes(onnx.load(path), data_prop=True).graph
    expected = {
        v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim)
        for v in (*inferred.value_info, *inferred.output)
    }
    found = shapes(graph)
    assert not [name for name, shape in found.items() if shape is None]
    assert {name: found[name] for name in expected} == expected
    assert graph.warnings == ()


CUSTOM = [node("Relu", "x", "a"), node("Thing", "a", "b", "thing", domain="my"), node("Relu", "b", "y")]


def test_the_file_fills_in_what_cannot_be_inferred() -> None:
    said = value("b", (1, 7))
    net = model(CUSTOM, {"x": (1, 3)}, values=[said], domains={"my": 1})
    assert shapes(read(net)) == {"a": (1, 3), "b": (1, 7), "y": (1, 7)}
    # For another input the file's shapes say nothing.
    assert shapes(read(net, (2, 3))) == {"a": (2, 3), "b": None, "y": None}


def test_the_file_fills_in_once_its_symbols_are_bound() -> None:
    net = model(CUSTOM, {"x": ("N", 3)}, values=[value("b", ("N", 7))], domains={"my": 1})
    assert shapes(read(net, batch_size=4))["y"] == (4, 7)
    assert shapes(read(net, (5, 3)))["y"] == (5, 7)


def test_a_contradiction_is_told_and_names_the_node() -> None:
    net = conv_net()
    net.graph.value_info.append(value("c", (1, 64, 30, 30)))
    net.graph.output[0].CopyFrom(value("y", (1, 10)))
    assert read(net).warnings == (
        "the file says that 'c' has shape (1, 64, 30, 30), but Conv 'conv' gives (1, 64, 32, 32); the latter is used",
        "the file says that 'y' has shape (1, 10), but Gemm 'fc' gives (1, 1000); the latter is used",
    )
    assert shapes(read(net))["c"] == (1, 64, 32, 32)
    assert read(net, {"x": (1, 3, 16, 16)}).warnings == ()
    assert read(net, batch_size=2).warnings == ()


def test_an_agreement_is_not_told() -> None:
    net = conv_net()
    net.graph.value_info.extend([value("c", (1, 64, 32, 32)), value("r", ("N", 64, None, 32)), value("p", None)])
    assert read(net).warnings == ()


def test_many_contradictions_are_told_in_short() -> None:
    nodes = [node("Relu", f"t{i}", f"t{i + 1}") for i in range(12)]
    net = model(nodes, {"t0": (2,)}, values=[value(f"t{i}", (3,)) for i in range(1, 12)])
    warnings = read(net).warnings
    assert len(warnings) == 6
    assert warnings[-1] == "6 more shapes in the file contradict their operators"


def test_operators_that_do_not_fit_are_told() -> None:
    net = model([node("MatMul", "x w", "a", "mm"), node("Relu", "a", "y")], {"x": (2, 3)}, [weight("w", 4, 5)])
    graph = read(net)
    assert shapes(graph) == {"a": None, "y": None}
    (warning,) = graph.warnings
    assert warning.startswith("MatMul 'mm' does not fit its inputs: ")
    assert "\n" not in warning


def test_many_that_do_not_fit_are_told_in_short() -> None:
    net = model([node("MatMul", "x w", f"a{i}") for i in range(9)], {"x": (2, 3)}, [weight("w", 4, 5)])
    assert read(net).warnings[-1] == "4 more operators do not fit their inputs"


ABSURD = 1 << 62


@pytest.mark.parametrize(
    ("net", "told"),
    [
        (
            model([node("Relu", "x", "y")], {"x": (ABSURD, 2)}),
            r"tensor 'x' of shape \(4611686018427387904, 2\) has more",
        ),
        (
            model([node("Relu", "x", "y")], {"x": [2] * 1000}),
            r"tensor 'x' of shape \(2, 2, 2, 2, 2, 2, 2, 2, ...\) has",
        ),
        (
            model(
                [node("MatMul", "x w", "y")],
                {"x": (1 << 40, 2)},
                [TensorProto(name="w", data_type=1, dims=(2, 1 << 40))],
            ),
            "tensor 'y' of shape .* has more elements than any memory can hold",
        ),
        (
            model([node("Relu", "w", "y")], {}, [TensorProto(name="w", data_type=1, dims=(ABSURD, ABSURD))]),
            "tensor 'w' of shape",
        ),
        (model([node("Expand", "x s", "y")], {"x": (1,)}, [ints("s", ABSURD, ABSURD)]), "tensor 'y' of shape"),
    ],
)
def test_what_no_memory_can_hold(net: onnx.ModelProto, told: str) -> None:
    with pytest.raises(ModelError, match=told):
        read(net)


def test_large_is_not_absurd() -> None:
    net = model([node("Relu", "x", "y")], {"x": (ABSURD, 1)})
    assert shapes(read(net))["y"] == (ABSURD, 1)
    net = model([node("Relu", "x", "y")], {"x": (ABSURD, ABSURD, 0)})
    assert shapes(read(net))["y"] == (ABSURD, ABSURD, 0)


@pytest.mark.parametrize("length", [2**31 + 8, 2**33 + 1, 2**53 + 1, 2**62 + 1])
def test_axes_that_onnx_computes_in_too_few_bits(length: int) -> None:
    half = -(-length // 2)
    net = model(
        [
            node("Split", "x", "a b", num_outputs=2),
            node("Split", "x lengths", "c d"),
            node("Slice", "x one end", "e"),
            node("Slice", "x minus begin zero two", "f"),
            node("Relu", "b", "g"),
        ],
        {"x": (length,)},
        [
            array("lengths", [length - 3, 3], "int64"),
            *(ints("one", 1), ints("end", 2**63 - 1), ints("minus", -1), ints("begin", -(2**63))),
            *(ints("zero", 0), ints("two", -2)),
        ],
        opset=18,
    )
    made = shapes(read(net))
    assert [made[name] for name in "abcdefg"] == [
        *((half,), (length - half,), (length - 3,), (3,)),
        *((length - 1,), (half,), (length - half,)),
    ]


def test_parts_of_a_long_axis_that_do_not_fit_are_told() -> None:
    net = model([node("Split", "x lengths", "c d")], {"x": (2**32 + 8,)}, [ints("lengths", 4, 4)], opset=18)
    graph = read(net)
    assert shapes(graph) == {"c": None, "d": None}
    assert "axis 0 of (4294967304) is split into (4, 4)" in graph.warnings[0]


def test_control_flow() -> None:
    """A condition and a trip count that the file states, and bodies that take tensors from around them."""
    body = helper.make_graph([node("Relu", "a", "o")], "b", [], [value("o", None)])
    step = helper.make_graph(
        [node("Identity", "c", "d"), node("Relu", "s", "t"), node("Relu", "a", "u")],
        "step",
        [value("i", (), TensorProto.INT64), value("c", (), TensorProto.BOOL), value("s", None)],
        [value("d", (), TensorProto.BOOL), value("t", None), value("u", None)],
    )
    net = model(
        [
            node("Relu", "x", "a"),
            node("If", "cond", "b", "if", then_branch=body, else_branch=body),
            node("Loop", "trips _ b", "l scan", "loop", body=step),
            node("Relu", "b", "y"),
        ],
        [value("x", (2, 3))],
        [array("cond", True, bool), array("trips", 5, "int64")],
    )
    graph = read(net)
    assert [n.op for n in graph.nodes] == ["Relu", "If", "Relu", "Loop", "Identity", "Relu", "Relu", "Relu"]
    inner = {"if/then_branch/o": (2, 3), "loop/body/d": (), "loop/body/t": (2, 3), "loop/body/u": (2, 3)}
    assert shapes(graph) == {"a": (2, 3), "b": (2, 3), "l": (2, 3), "scan": (5, 2, 3), "y": (2, 3), **inner}
    assert [n.times for n in graph.nodes] == [1, 1, 1, 1, 5, 5, 5, 1]
    assert graph.warnings == ()


def test_control_flow_behind_shape_arithmetic() -> None:
    """Where onnx stops at the first unknown shape, the second walk looks into the body again."""
    body = helper.make_graph([node("Relu", "r", "o")], "b", [], [value("o", None)])
    net = model(
        [
            node("Shape", "x", "s"),
            node("Cast", "s", "f", to=TensorProto.FLOAT),
            node("Mul", "f half", "h"),
            node("Cast", "h", "i", to=TensorProto.INT64),
            node("ConstantOfShape", "i", "r"),
            node("If", "c", "y", then_branch=body, else_branch=body),
        ],
        [value("x", (4, 6)), value("c", (), TensorProto.BOOL)],
        [array("half", [0.5, 0.5])],
    )
    assert shapes(read(net))["y"] == (2, 3)


def test_a_model_may_be_nothing_but_weights() -> None:
    net = model([node("Identity", "w", "y")], {}, [weight("w", 3, 4)])
    assert shapes(read(net)) == {"y": (3, 4)}
    assert read(net).inputs == ()
