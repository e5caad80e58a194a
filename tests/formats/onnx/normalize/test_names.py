"""Models of every age, operator set, domain and with local functions give the same graph."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from tests.formats.models import array, conv_net, ints, model, node, shapes, value, weight

from flopwise.api.profile import profile
from flopwise.api.read import read
from flopwise.errors import ModelError

NEWEST = onnx.defs.onnx_opset_version()


def net(opset: int, ir: int = 8) -> onnx.ModelProto:
    """A network that is spelled in the same way in every operator set from 7 on."""
    nodes = [
        node("Conv", "x w", "c", kernel_shape=[3, 3]),
        node("Relu", "c", "r"),
        node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "p", "f"),
        node("Gemm", "f v b", "g", transB=1),
        node("Softmax", "g", "y"),
    ]
    stored = [weight("w", 8, 3, 3, 3), weight("v", 10, 72), weight("b", 10)]
    inputs = {"x": (1, 3, 8, 8)}
    if ir < 4:  # initialisers had to be inputs as well
        return model(nodes, {**inputs, **{t.name: tuple(t.dims) for t in stored}}, stored, opset=opset, ir=ir)
    return model(nodes, inputs, stored, opset=opset, ir=ir)


@pytest.mark.parametrize("opset", range(7, NEWEST + 1))
def test_every_operator_set(opset: int) -> None:
    graph = read(net(opset))
    assert shapes(graph) == {
        "c": (1, 8, 6, 6),
        "r": (1, 8, 6, 6),
        "p": (1, 8, 3, 3),
        "f": (1, 72),
        "g": (1, 10),
        "y": (1, 10),
    }
    assert {n.version for n in graph.nodes} == {opset}
    assert graph.warnings == ()


@pytest.mark.parametrize("ir", range(3, 12))
def test_every_ir_version(ir: int) -> None:
    graph = read(net(9, ir))
    assert [t.name for t in graph.inputs] == ["x"]
    assert profile(graph).total("params") == 216 + 720 + 10
    assert graph.warnings == ()


def test_a_newer_operator_set_than_is_known() -> None:
    graph = read(net(NEWEST + 3))
    assert graph.warnings == (
        f"operator set {NEWEST + 3} is newer than flopwise knows; read as {NEWEST}",
    )  # fmt: skip
    assert shapes(graph)["y"] == (1, 10)


def test_the_long_name_of_the_standard_domain() -> None:
    body = helper.make_graph([node("Relu", "y", "o", domain="ai.onnx")], "b", [], [value("o", None)])
    for imports in ({"ai.onnx": 13}, {"": 13}, {"ai.onnx": 13, "": 13}):
        long = net(13)
        del long.opset_import[:]
        long.opset_import.extend(helper.make_opsetid(d, v) for d, v in imports.items())
        for some in long.graph.node:
            some.domain = "ai.onnx"
        long.graph.node.append(node("If", "cond", "z", domain="ai.onnx", then_branch=body, else_branch=body))
        long.graph.input.append(value("cond", (), TensorProto.BOOL))
        graph = read(long)
        assert [n.op for n in graph.nodes] == [
            "Conv",
            "Relu",
            "MaxPool",
            "Flatten",
            "Gemm",
            "Softmax",
            "If",
            "Relu",
            "Relu",
        ]
        assert {n.version for n in graph.nodes} == {13}
        assert shapes(graph)["z"] == (1, 10)


def test_other_domains_keep_theirs() -> None:
    custom = model(
        [node("Thing", "x", "a", domain="com.example"), node("Scaler", "a", "y", domain="ai.onnx.ml", scale=[2.0])],
        {"x": (1, 3)},
        domains={"com.example": 4, "ai.onnx.ml": 99},
    )
    assert [(n.op, n.version) for n in read(custom).nodes] == [("com.example::Thing", 4), ("ai.onnx.ml::Scaler", 99)]


def test_a_model_of_other_domains_alone() -> None:
    custom = model([node("Thing", "x", "y", domain="my")], {"x": (1,)})
    del custom.opset_import[:]
    custom.opset_import.add(domain="my", version=1)
    assert [n.op for n in read(custom).nodes] == ["my::Thing"]


def test_a_domain_that_is_not_imported() -> None:
    custom = model(
        [node("Relu", "x", "a"), node("Thing", "a", "b", domain="my"), node("Relu", "a", "y")], {"x": (2, 3)}
    )
    graph = read(custom)
    assert shapes(graph)["y"] == (2, 3)
    assert graph.warnings == ()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda m: m.ClearField("opset_import"), "names no operator set version; the file is truncated or not an ONNX"),
        (lambda m: m.opset_import[0].ClearField("version"), "operator set version 0 does not exist"),
        (lambda m: setattr(m.opset_import[0], "version", -1), "operator set version -1 does not exist"),
        (lambda m: m.graph.Clear(), "the graph is empty"),
        (lambda m: m.graph.node[0].ClearField("op_type"), "node 'conv' names no operator; the file is damaged"),
    ],
)
def test_what_is_missing(change: Any, told: str) -> None:
    broken = conv_net()
    change(broken)
    with pytest.raises(ModelError, match=f"g: {told}|<bytes>: {told}|<ModelProto>: {told}"):
        read(broken)


@pytest.mark.parametrize("place", ["conv", "Conv", "conv.w", "x"])
def test_names_that_are_not_utf8(place: str) -> None:
    data = conv_net().SerializeToString().replace(place.encode(), b"\xff" * len(place))
    with pytest.raises(ModelError, match="a name is not UTF-8"):
        read(data)


def test_symbols_that_are_not_utf8() -> None:
    open_net = model([node("Relu", "x", "y")], {"x": ("SYMBOL", 3)})
    with pytest.raises(ModelError, match="a name is not UTF-8"):
        read(open_net.SerializeToString().replace(b"SYMBOL", b"\xffYMBOL"), (1, 3))


# --- local functions ---


def functions(opset: int) -> list[onnx.FunctionProto]:
    """Outer calls Inner; Inner scales by a constant of its own."""
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("my", 1)]
    constant = node("Constant", "", "k", value=array("k", range(200)))
    inner = helper.make_function("my", "Inner", ["a"], ["b"], [constant, node("Mul", "a k", "b", "scale")], imports)
    outer = helper.make_function(
        "my",
        "Outer",
        ["a", "w"],
        ["c"],
        [
            node("MatMul", "a w", "m", "mm"),
            node("Inner", "m", "i", "call", domain="my"),
            node("Relu", "i", "c", "relu"),
        ],
        imports,
    )
    return [inner, outer]


def calls(opset: int, model_opset: int, times: int = 2) -> onnx.ModelProto:
    nodes = [node("Outer", f"t{i} w", f"t{i + 1}", f"layer{i}", domain="my") for i in range(times)]
    return model(
        nodes,
        {"t0": (3, 200)},
        [weight("w", 200, 200)],
        opset=model_opset,
        functions=functions(opset),
        domains={"my": 1},
    )


@pytest.mark.parametrize("serialised", [False, True])
def test_functions_are_put_in_place_of_their_calls(serialised: bool) -> None:
    whole = calls(17, 17)
    graph = read(whole.SerializeToString() if serialised else whole)
    ops = [n.op for n in graph.nodes if n.op != "Constant"]
    assert ops == ["MatMul", "Mul", "Relu"] * 2
    assert graph.outputs[0].shape == (3, 200)
    counted = profile(graph)
    assert counted.total("macs") == 2 * 3 * 200 * 200
    assert counted.unknown == {}
    assert counted.total("params") == 200 * 200 + 200  # the constant of the function is one tensor, used twice
    loaded = {name: w.array().shape for name, w in graph.weights.items()}
    assert sorted(loaded.values()) == [(200,), (200, 200)]


def test_functions_of_another_operator_set_keep_it() -> None:
    nodes = [node("MatMul", "a w", "m", "mm"), node("Relu", "m", "c", "relu")]
    layer = helper.make_function("my", "Layer", ["a", "w"], ["c"], nodes, [helper.make_opsetid("", 11)])
    calls = [node("Layer", f"t{i} w", f"t{i + 1}", domain="my") for i in range(2)]
    net = model(calls, {"t0": (3, 200)}, [weight("w", 200, 200)], functions=[layer], domains={"my": 1})
    graph = read(net)
    assert [n.op for n in graph.nodes] == ["MatMul", "Relu"] * 2
    assert {n.version for n in graph.nodes} == {11}
    assert profile(graph).total("macs") == 2 * 3 * 200 * 200
    assert graph.warnings == ()


def test_a_function_that_calls_itself() -> None:
    imports = [helper.make_opsetid("my", 1)]
    again = helper.make_function("my", "F", ["a"], ["b"], [node("F", "a", "b", domain="my")], imports)
    net = model([node("F", "x", "y", domain="my")], {"x": (1,)}, functions=[again], domains={"my": 1})
    with pytest.raises(ModelError, match="g: function my::F calls itself, directly or through others"):
        read(net)


def test_attributes_of_functions_are_filled_in() -> None:
    concat = node("Concat", "a a", "b")
    concat.attribute.add(name="axis", type=onnx.AttributeProto.INT, ref_attr_name="axis")
    function = helper.make_function("my", "Twice", ["a"], ["b"], [concat], [helper.make_opsetid("", 17)], ["axis"])
    net = model([node("Twice", "x", "y", domain="my", axis=1)], {"x": (2, 3)}, functions=[function], domains={"my": 1})
    for source in (net, net.SerializeToString()):
        assert shapes(read(source))["y"] == (2, 6)


def test_constants_that_steer_shapes_inside_functions() -> None:
    flat = [node("Constant", "", "t", value=ints("t", 0, -1)), node("Reshape", "a t", "b")]
    function = helper.make_function("my", "Flat", ["a"], ["b"], flat, [helper.make_opsetid("", 17)])
    net = model([node("Flat", "x", "y", domain="my")], {"x": (2, 3, 4)}, functions=[function], domains={"my": 1})
    assert shapes(read(net))["y"] == (2, 12)


@pytest.mark.parametrize(
    ("late", "shape"),
    [
        ({"value_int": 12}, (12,)),
        ({"value_ints": [3, 4]}, (3, 4)),
        ({"value_float": 12.0}, (12,)),
        ({"value_floats": [3.0, 4.0]}, (3, 4)),
    ],
)
@pytest.mark.parametrize("opset", [7, 11])
@pytest.mark.parametrize("place", ["graph", "body", "function"])
def test_constants_of_later_operator_sets(late: dict[str, Any], shape: tuple[int, ...], opset: int, place: str) -> None:
    nodes = [
        node("Constant", "", "c", **late),
        node("Cast", "c", "s", to=TensorProto.INT64),
        node("Reshape", "a s", "b"),
    ]
    if len(shape) == 1:
        nodes[1:2] = [node("Cast", "c", "i", to=TensorProto.INT64), node("Unsqueeze", "i", "s", axes=[0])]
    if place == "graph":
        net = model([node("Relu", "x", "a"), *nodes, node("Relu", "b", "y")], {"x": (2, 6)}, opset=opset)
    elif place == "function":
        function = helper.make_function("my", "F", ["a"], ["b"], nodes, [helper.make_opsetid("", opset)])
        call = [node("F", "x", "y", domain="my")]
        net = model(call, {"x": (2, 6)}, functions=[function], domains={"my": 1}, opset=opset)
    else:
        inside = helper.make_graph([node("Relu", "x", "a"), *nodes], "g", [], [value("b", None)])
        net = model([node("If", "yes", "y", then_branch=inside, else_branch=inside)], {"x": (2, 6)}, opset=opset)
        net.graph.initializer.append(array("yes", True, bool))
    graph = read(net.SerializeToString())
    assert graph.outputs[0].shape == shape
    assert graph.warnings == ()


def test_a_value_of_another_type_is_left_alone() -> None:
    net = model([node("Constant", "", "c", value_ints=1.5), node("Relu", "x", "y")], {"x": (2, 6)}, opset=11)
    assert shapes(read(net))["y"] == (2, 6)
