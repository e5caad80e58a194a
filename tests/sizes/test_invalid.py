"""Nodes that make no sense, at some of which onnx's own inference ends the process, are told and left without shape."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper
from tests.formats.models import ints, model, node, shapes, value, weight

from flopwise.api.read import read

B = 1 << 40
STORED = [weight("w", 4), ints("i", 0, 1), TensorProto(name="long", data_type=TensorProto.INT64, dims=[1 << 31])]

INVALID: dict[str, tuple[onnx.NodeProto, str]] = {
    "Split, more outputs": (
        node("Split", "x", "y z", "n", num_outputs=B),
        f"does not fit its inputs: {B} parts for 2 outputs",
    ),
    "Split, fewer outputs": (
        node("Split", "x", "y z", "n", num_outputs=1),
        "does not fit its inputs: 1 parts for 2 outputs",
    ),
    "GatherND": (
        node("GatherND", "x i", "y", "n", batch_dims=-(1 << 24)),
        "does not fit its inputs: indices of (2) pick from (2, 4) behind -16777216 axes",
    ),
    "LayerNormalization": (
        node("LayerNormalization", "x w", "y", "n", axis=B),
        f"does not fit its inputs: there is no axis {B} in 2 dimensions",
    ),
    "EyeLike": (node("EyeLike", "_", "y", "n"), "it has no input 0"),
    "RegexFullMatch": (node("RegexFullMatch", "", "y", "n", pattern="a"), "it has no input 0"),
    "Expand": (node("Expand", "x long", "y", "n"), "its input 1 has 2147483648 elements"),
}


@pytest.mark.parametrize("case", INVALID)
def test_told_and_left_without_shape(case: str) -> None:
    invalid, told = INVALID[case]
    net = model([node("Relu", "x", "r"), invalid], {"x": (2, 4)}, STORED, outputs=["y"], opset=20)
    graph = read(net)
    assert len(graph.warnings) == 1
    assert invalid.op_type in graph.warnings[0]
    assert graph.warnings[0].endswith(told)
    assert shapes(graph)["r"] == (2, 4)
    assert shapes(graph)["y"] is None
    assert graph.nodes[1].op == invalid.op_type


@pytest.mark.parametrize("case", INVALID)
def test_in_bodies_and_functions(case: str) -> None:
    invalid, told = INVALID[case]
    outputs = [value(o, None) for o in invalid.output]
    body = helper.make_graph([invalid], "b", [], outputs)
    branch = node("If", "c", " ".join(f"{o}1" for o in invalid.output), then_branch=body, else_branch=body)
    inputs = {"x": (2, 4), "c": ()}
    assert any(told in w for w in read(model([branch], inputs, STORED, opset=20)).warnings)
    function = helper.make_function(
        "my", "F", ["x", "w", "i", "long"], list(invalid.output), [invalid], [helper.make_opsetid("", 20)]
    )
    for opset in (20, 13):
        call = node("F", "x w i long", " ".join(f"{o}1" for o in invalid.output), domain="my")
        net = model([call], inputs, STORED, opset=opset, functions=[function], domains={"my": 1})
        assert any(told in w for w in read(net).warnings)


def test_the_same_operators_as_they_should_be() -> None:
    nodes = [
        node("Split", "x", "a b", num_outputs=2),
        node("GatherND", "x j", "g", batch_dims=1),
        node("LayerNormalization", "x w", "l", axis=-1),
        node("EyeLike", "x", "e"),
        node("Expand", "w s", "y"),
    ]
    graph = read(model(nodes, {"x": (4, 4)}, [*STORED, ints("s", 3, 4), ints_of((4, 1))], opset=20))
    assert graph.warnings == ()
    assert shapes(graph) == {"a": (2, 4), "b": (2, 4), "g": (4,), "l": (4, 4), "e": (4, 4), "y": (3, 4)}


def ints_of(shape: tuple[int, ...]) -> TensorProto:
    return TensorProto(name="j", data_type=TensorProto.INT64, dims=shape, int64_data=[0] * 4)


#: Operators whose windows or settings do not fit, so that an extent behind them is negative, and the axis of it.
SHRINKING: dict[str, tuple[onnx.NodeProto, int]] = {
    "Conv": (node("Conv", "c k", "y"), 3),
    "Conv, dilated": (node("Conv", "c k2", "y", dilations=[1, 9]), 3),
    "MaxPool": (node("MaxPool", "c", "y", kernel_shape=[1, 9]), 3),
    "Pad": (node("Pad", "v computed", "y"), 0),
    "CenterCropPad": (node("CenterCropPad", "v less", "y"), 0),
    "TopK": (node("TopK", "v less", "y", axis=0), 0),
    "Resize": (node("Resize", "v _ less_scale", "y"), 0),
    "Col2Im": (node("Col2Im", "columns less2 two", "y"), 3),
    "AffineGrid": (node("AffineGrid", "theta less4", "y"), 0),
    "Expand": (node("Expand", "one less", "y"), 0),
    "Expand, computed": (node("Expand", "one twice", "y"), 0),
    "Split": (node("Split", "v parts", "y y2"), 0),
    "Split, more parts than elements": (node("Split", "v", "y3 y4 y5 y", num_outputs=4), 0),
    "Multinomial": (node("Multinomial", "two_rows", "y", sample_size=-3), 1),
    "DeformConv": (node("DeformConv", "c k offsets", "y"), 3),
    "STFT": (node("STFT", "signal step2 _ frame", "y"), 1),
}


SCALARS = {"step2": 2, "frame": 40}


@pytest.mark.parametrize("case", SHRINKING)
@pytest.mark.parametrize("inside", [False, True])
def test_slices_of_negative_extents(case: str, inside: bool) -> None:
    maker, axis = SHRINKING[case]
    stored = [ints("at", -1), ints("end", -100), ints("axis", axis), ints("step", -1), ints("less", -3)]
    stored += [ints("less2", -2, -3), ints("less4", -4, -4, -4, -4), ints("two", 2, 2), ints("less_pads", -9, 0)]
    stored += [weight("k", 1, 1, 1, 9), weight("k2", 1, 1, 1, 2)]
    stored.append(helper.make_tensor("less_scale", TensorProto.FLOAT, [1], [-1.5]))
    part = node("Slice", "y at end axis step", "z", "part")
    if inside:
        body = helper.make_graph([part, node("Relu", "z", "b")], "body", [], [value("b", None)])
        part = node("If", "either", "z", then_branch=body, else_branch=body)
    computed = [
        node("Shape", "v", "size"),
        node("Mul", "size less", "twice"),
        node("Concat", "zero twice", "computed", axis=0),
    ]
    stored += [ints("parts", -3, 8), *(helper.make_tensor(n, TensorProto.INT64, [], [k]) for n, k in SCALARS.items())]
    inputs = {
        "one": (1,),
        "two_rows": (2, 3),
        "offsets": (1, 18, 4, 1),
        "signal": (1, 4, 1),
        "v": (5,),
        "c": (1, 1, 4, 4),
        "columns": (5, 5, 1),
        "theta": (1, 2, 3),
        "either": (),
    }
    net = model([*computed, maker, part], inputs, [*stored, ints("zero", 0)], outputs=["z"], opset=20)
    assert shapes(read(net))["z"] in (None, (0,))
