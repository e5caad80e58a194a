"""Parameters, buffers and constants of whole models: each counted once, wherever the file keeps it."""

from __future__ import annotations

import numpy
import onnx
import pytest
from onnx import TensorProto
from tests.formats.models import array, conv_net, ints, kinds, model, node, value, weight

from flopwise.api.profile import profile
from flopwise.api.read import read
from flopwise.errors import ModelError
from flopwise.profiles.profile import Profile


def owners(counted: Profile) -> dict[str, int]:
    """Parameters by the layer that owns them."""
    return {row.name: row.params for row in counted.rows if row.params}


def test_a_network() -> None:
    counted = profile(conv_net())
    assert owners(counted) == {"conv": 64 * 27 + 64, "bn": 128, "fc": 65_000}
    assert counted.total("buffers") == 128
    assert counted.total("weight_bytes") == 4 * (counted.total("params") + 128)


def test_a_weight_that_is_used_twice() -> None:
    nodes = [node("MatMul", "x w", "a", "one"), node("MatMul", "a w", "y", "two")]
    counted = profile(model(nodes, {"x": (2, 10)}, [weight("w", 10, 10)]))
    assert owners(counted) == {"one": 100}
    assert counted.total("macs") == 2 * 2 * 100


@pytest.mark.parametrize(
    "shared",
    [
        [node("Identity", "w", "v")],
        [node("Transpose", "w", "v", perm=[1, 0])],
        [node("Cast", "w", "u", to=TensorProto.FLOAT16), node("Cast", "u", "v", to=TensorProto.FLOAT)],
        [node("Reshape", "w s", "v")],
    ],
)
@pytest.mark.parametrize("first", ["w", "v"])
def test_a_weight_that_is_used_in_two_forms(shared: list[onnx.NodeProto], first: str) -> None:
    second = "v" if first == "w" else "w"
    nodes = [*shared, node("MatMul", f"x {first}", "a", "one"), node("MatMul", f"a {second}", "y", "two")]
    counted = profile(model(nodes, {"x": (2, 10)}, [weight("w", 10, 10), ints("s", 10, 10)]))
    assert owners(counted) == {"one": 100}
    assert counted.total("macs") == 2 * 2 * 100
    assert counted.total("weight_bytes") == 400
    unfolded = profile(model(nodes, {"x": (2, 10)}, [weight("w", 10, 10), ints("s", 10, 10)]), fold=False)
    assert unfolded.total("params") == 100


def test_weights_in_constants() -> None:
    nodes = [
        node("Constant", "", "w", value=weight("other name", 10, 10)),
        node("Constant", "", "small", value=array("s", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])),
        node("Constant", "", "scale", value=array("s", 0.5)),
        node("Constant", "", "one", value=array("s", [[2.0]])),
        node("Constant", "", "shape", value=ints("s", 2, 10)),
        node("MatMul", "x w", "a"),
        node("Add", "a small", "b"),
        node("Mul", "b scale", "c"),
        node("Mul", "c one", "d"),
        node("Reshape", "d shape", "y"),
    ]
    graph = read(model(nodes, {"x": (2, 10)}))
    assert {k: v for k, v in kinds(graph).items() if v != "activation"} == {
        "x": "input",
        "w": "weight",
        "small": "weight",
        "scale": "constant",
        "one": "constant",
        "shape": "constant",
    }
    assert profile(graph).total("params") == 110
    assert {k: load.shape for k, load in graph.weights.items()} == {
        "w": (10, 10),
        "small": (10,),
        "scale": (),
        "one": (1, 1),
        "shape": (2,),
    }


def test_weights_whose_values_the_file_does_not_keep() -> None:
    nodes = [
        node("ConstantOfShape", "s", "w"),
        node("ConstantOfShape", "b", "bias"),
        node("Shape", "x", "xs"),
        node("ConstantOfShape", "xs", "zeros"),
        node("Gemm", "x w bias", "g"),
        node("ConstantOfShape", "b", "mean"),
        node("Unsqueeze", "g axes", "u"),
        node("BatchNormalization", "u bias bias mean mean", "n"),
        node("MatMul", "x zeros", "m"),
        node("Squeeze", "n axes", "y"),
    ]
    stored = [ints("s", 7, 7), ints("b", 7), ints("axes", 2)]
    graph = read(model(nodes, {"x": (7, 7)}, stored, outputs=["y", "m"]))
    found = kinds(graph)
    assert {k: found[k] for k in ("w", "bias", "mean", "zeros")} == {
        "w": "weight",
        "bias": "weight",
        "mean": "buffer",
        "zeros": "activation",
    }
    counted = profile(graph)
    assert (counted.total("params"), counted.total("buffers")) == (49 + 7, 7)
    assert graph.weights["w"].array().tolist() == numpy.zeros((7, 7)).tolist()


def test_a_filled_tensor_takes_no_memory() -> None:
    nodes = [node("ConstantOfShape", "s", "w"), node("MatMul", "x w", "y")]
    graph = read(model(nodes, {"x": (1, 1 << 30)}, [ints("s", 1 << 30, 1 << 30)]))
    assert profile(graph).total("params") == 1 << 60
    assert graph.weights["w"].array().shape == (1 << 30, 1 << 30)
    graph = read(model(nodes, {"x": (1, 1 << 31)}, [ints("s", 1 << 31, 1 << 31)]))
    with pytest.raises(ModelError, match="cannot be made"):
        graph.weights["w"].array()


def test_initialisers_among_the_inputs_are_no_inputs() -> None:
    stored = [weight("w", 10, 10)]
    net = model([node("MatMul", "x w", "y")], {"x": (2, 10), "w": (10, 10)}, stored, ir=3)
    assert [t.name for t in read(net).inputs] == ["x"]
    assert profile(net).total("params") == 100


def test_an_input_called_like_something_inside_a_body() -> None:
    from onnx import helper

    body = helper.make_graph([node("Relu", "x", "o")], "b", [], [value("o", None)], [weight("cond", 300)])
    net = model([node("If", "cond", "y", then_branch=body, else_branch=body)], [value("x", (3,)), value("cond", ())])
    graph = read(net.SerializeToString())
    assert [t.name for t in graph.inputs] == ["x", "cond"]
    assert kinds(graph)["cond"] == "input"


def test_quantised_weights() -> None:
    nodes = [
        node("QuantizeLinear", "x xs xz", "xq"),
        node("DequantizeLinear", "xq xs xz", "xd"),
        node("DequantizeLinear", "w ws wz", "wd", axis=0),
        node("DequantizeLinear", "b bs bz", "bd", axis=0),
        node("Conv", "xd wd bd", "y", "conv"),
    ]
    stored = [
        *(array(n, 0.1) for n in ("xs",)),
        array("xz", 0, numpy.uint8),
        array("w", numpy.zeros((8, 3, 3, 3)), numpy.int8),
        *(array(n, [0.1] * 8) for n in ("ws", "bs")),
        array("wz", [0] * 8, numpy.int8),
        array("b", [0] * 8, numpy.int32),
        array("bz", [0] * 8, numpy.int32),
    ]
    counted = profile(model(nodes, {"x": (1, 3, 8, 8)}, stored))
    assert counted.total("params") == 216 + 8
    assert counted.total("buffers") == 8 * 4 + 2
    assert {r.name: r.params for r in counted.rows if r.params} == {"conv": 224}


def test_unused_weights_are_not_counted_but_can_be_loaded() -> None:
    net = model([node("Relu", "x", "y")], {"x": (1,)}, [weight("w", 3)])
    assert profile(net).total("params") == 0
    assert read(net).weights["w"].array().shape == (3,)


def test_the_same_name_in_a_constant_and_in_its_tensor() -> None:
    """Names inside attributes mean nothing, so equal ones do not make two constants one."""
    nodes = [
        node("Constant", "", "a", value=weight("same", 10)),
        node("Constant", "", "b", value=weight("same", 10)),
        node("Constant", "", "c", value=weight("same", 200)),
        node("Constant", "", "d", value=weight("same", 200)),
        node("Sum", "x a b", "s"),
        node("Sum", "z c d", "y"),
    ]
    net = model(nodes, {"x": (10,), "z": (200,)}, outputs=["s", "y"])
    for source in (net, net.SerializeToString()):
        assert profile(source).total("params") == 420
