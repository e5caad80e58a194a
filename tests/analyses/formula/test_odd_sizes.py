"""Operators that round, clip, step or pad, at sizes down to nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest
from onnx import TensorProto, helper
from tests.analyses.formula.models import Net

import flopwise

FAR = 2**62


def conv(**attributes: object) -> Callable[[Net], str]:
    return lambda net: net.op("Conv", "x", net.weight(4, 3, 3, 3), kernel_shape=[3, 3], **attributes)


def pool(op: str, **attributes: object) -> Callable[[Net], str]:
    return lambda net: net.op(op, "x", **attributes)


def part(starts: list[int], ends: list[int], axes: list[int], steps: list[int]) -> Callable[[Net], str]:
    return lambda net: net.op("Slice", "x", *(net.values(*values) for values in (starts, ends, axes, steps)))


def resized(*scales: float) -> Callable[[Net], str]:
    return lambda net: net.op("Resize", "x", "", net.values(1, 1, *scales, dtype=numpy.float32), mode="nearest")


MODELS: dict[str, Callable[[Net], str]] = {
    "same upper": conv(auto_pad="SAME_UPPER", strides=[2, 3]),
    "same lower": conv(auto_pad="SAME_LOWER", strides=[3, 2]),
    "dilated": conv(dilations=[2, 3], pads=[1, 0, 2, 1]),
    "strided": conv(strides=[5, 4]),
    "ceil": pool("MaxPool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "ceil padded": pool("MaxPool", kernel_shape=[3, 2], strides=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1),
    "average": pool("AveragePool", kernel_shape=[5, 2], strides=[2, 1], pads=[2, 0, 2, 1]),
    "every second": part([0, 1], [FAR, FAR], [2, 3], [2, 2]),
    "clamped": part([3, -7], [20, FAR], [2, 3], [1, 3]),
    "last ones": part([-5, 0], [FAR, -2], [2, 3], [1, 1]),
    "backwards": part([-1, FAR], [-FAR, -FAR], [2, 3], [-1, -2]),
    "larger": resized(1.5, 2.0),
    "smaller": resized(0.5, 0.25),
    "by seven tenths": resized(0.7, 0.3),
    "cut": lambda net: net.op("Pad", "x", net.values(0, 0, -1, 2, 0, 0, -2, -1)),
    "transposed": lambda net: net.op(
        "ConvTranspose", "x", net.weight(3, 4, 3, 3), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 2]
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_values_are_those_of_profiles(name: str) -> None:
    net = Net()
    model = net.model(net.op("Tanh", MODELS[name](net)), x=["N", 3, "H", "W"])
    formula = flopwise.formula(model)
    assert formula.exact
    answered = 0
    for height, width in [(h, w) for h in (0, 1, 2, 3, 5, 8, 19, 20, 21, 64, 333) for w in (1, 2, 6, 7, 40, 257)]:
        point = {"N": 1 + height % 2, "H": height, "W": width}
        try:
            at = formula.at(**point)
        except flopwise.InputError:
            continue
        profile = flopwise.profile(model, dims=point)
        assert at == {figure: getattr(profile.sum, figure) for figure in at}, point
        answered += 1
    assert answered > 30


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(
    "settings",
    [
        {"auto_pad": "SAME_UPPER", "kernel_shape": [1], "strides": [3]},
        {"auto_pad": "SAME_LOWER", "kernel_shape": [2], "strides": [3], "ceil_mode": 1},
        {"auto_pad": "VALID", "ceil_mode": 1, "kernel_shape": [2], "strides": [3]},
        {"ceil_mode": 1, "kernel_shape": [2], "strides": [2], "pads": [1, 1]},
        {"ceil_mode": 1, "kernel_shape": [3], "strides": [4], "pads": [2, 1], "dilations": [2]},
    ],
)
def test_no_window_starts_behind_the_image(op: str, settings: dict[str, object]) -> None:
    net = Net()
    data = bytes(net.model(net.op(op, "x", **settings), x=["N", 4, "T"], opset=19))
    formula = flopwise.formula(data)
    assert formula.exact
    assert not any("T" in condition and op not in condition for condition in formula.conditions)
    answered = 0
    for length in (*range(13), 105, 111):
        try:
            expected = flopwise.profile(data, dims={"N": 2, "T": length})
        except flopwise.FlopwiseError:
            continue
        if not expected.unresolved:
            assert formula.at(N=2, T=length)["output_bytes"] == expected.total("output_bytes"), length
            answered += 1
    assert answered > 12


@pytest.mark.parametrize("way", ["Round", "Floor", "Ceil"])
@pytest.mark.parametrize("scale", [0.25, 0.5, 1.5, 0.3, 0.7])
def test_sizes_rounded_in_floating_point(way: str, scale: float) -> None:
    net = Net()
    scaled = net.op("Mul", net.op("Cast", net.extent("x", 0), to=1), net.values(scale, dtype=numpy.float32))
    size = net.op("Cast", net.op(way, scaled), to=7)
    model = net.model(net.op("Relu", net.op("Slice", "x", net.values(0), size)), x=["T"])
    formula = flopwise.formula(model)
    assert formula.exact
    for length in (*range(60), 1009, 65537, 16_777_217, 33_554_439):
        assert formula.at(T=length)["count"] == flopwise.profile(model, dims={"T": length}).total("count"), length


def named(net: Net) -> str:
    """A Reshape to extents in another order: 0 in the target is the extent that stands there."""
    target = net.op("Concat", net.op("Shape", "x", start=1), net.op("Shape", "x", end=1), axis=0)
    return net.op("Reshape", "x", target)


def less(net: Net) -> str:
    """A Reshape to an extent less 3: -1 in the target is what is left."""
    size = net.op("Sub", net.extent("x", 0), net.values(3))
    return net.reshape(net.op("Slice", "x", net.values(0), size), size, -1)


@pytest.mark.parametrize("reshaped", [named, less])
def test_a_target_of_nothing_is_no_size(reshaped: Callable[[Net], str]) -> None:
    net = Net()
    model = net.model(net.op("Relu", reshaped(net)), x=["N", 4, "T"])
    formula = flopwise.formula(model)
    refused = 0
    for count, length in [(n, t) for n in range(5) for t in range(4)]:
        try:
            profile = flopwise.profile(model, dims={"N": count, "T": length})
            expected = None if profile.unresolved else profile.total("count")
        except flopwise.FlopwiseError:
            expected = None
        if expected is None:
            with pytest.raises(flopwise.InputError):
                formula.at(N=count, T=length)
            refused += 1
        else:
            assert formula.at(N=count, T=length)["count"] == expected
    assert refused


def counting(op: str, limit: int, step: int = 0, more: int = 0) -> Callable[[Net], bytes]:
    """A Loop that a condition on its turn, or on a number that it counts with, may end before the trip count does."""

    def build(net: Net) -> bytes:
        number = "turn" if not step else "counted"
        nodes = [helper.make_node("Relu", ["x"], ["made"], name="work")]
        nodes += [helper.make_node("Add", ["before", net.values(step, scalar=True)], ["counted"])] if step else []
        last = "trips" if not limit else net.values(limit, scalar=True)
        nodes.append(helper.make_node(op, [number, last] if "Less" in op else [last, number], ["goes_on"]))
        kinds = {"turn": TensorProto.INT64, "on": TensorProto.BOOL, **({"before": TensorProto.INT64} if step else {})}
        outputs = {"goes_on": TensorProto.BOOL, **({"counted": TensorProto.INT64} if step else {})}
        made = [helper.make_tensor_value_info(name, kind, []) for name, kind in outputs.items()]
        made.append(helper.make_tensor_value_info("made", TensorProto.FLOAT, None))
        body = helper.make_graph(
            nodes, "body", [helper.make_tensor_value_info(name, kind, []) for name, kind in kinds.items()], made
        )
        trips = net.op("Add", net.op("Squeeze", net.extent("x", 0)), net.values(more, scalar=True))
        net.nodes.append(helper.make_node("Identity", [trips], ["trips"]))
        starts = [net.values(1, scalar=True)] if step else []
        made = net.op("Loop", "trips", "", *starts, outputs=1 + bool(step), body=body)
        return net.model(net.op("Exp", made if isinstance(made, str) else made[-1]), x=["T"])

    return build


@pytest.mark.parametrize(
    "build",
    [
        counting("Less", 100),
        counting("LessOrEqual", 7),
        counting("Greater", 40, step=3),
        counting("GreaterOrEqual", 41, step=2),
        counting("Less", 0, step=2, more=5),
        counting("Less", 0, more=2),
    ],
)
def test_loops_that_a_condition_ends(build: Callable[[Net], bytes]) -> None:
    model = build(Net())
    formula = flopwise.formula(model)
    assert formula.exact
    for length in (0, 1, 2, 3, 6, 7, 8, 9, 12, 13, 14, 20, 21, 99, 100, 101, 102, 103, 500, 1009):
        expected = flopwise.profile(model, dims={"T": length}).total("count")
        assert formula.at(T=length)["count"] == expected, length


def split(net: Net, *parts: int, scalar: bool = False, **attributes: int) -> str:
    """Slices of x as a sequence: of these sizes, of one size, or of 1."""
    cut = [net.values(*parts, scalar=scalar)] if parts else []
    return str(net.op("SplitToSequence", "x", *cut, **attributes))


def picked(sequence: Callable[[Net], str], place: int) -> Callable[[Net], str]:
    return lambda net: net.op("SequenceAt", sequence(net), net.values(place, scalar=True))


def joined(sequence: Callable[[Net], str], **attributes: int) -> Callable[[Net], str]:
    return lambda net: net.op("ConcatFromSequence", sequence(net), **attributes)


def together(net: Net) -> str:
    """Two tensors and one more before them, without the last."""
    held = net.op("SequenceConstruct", "x", net.op("Concat", "x", "x", axis=1))
    held = net.op("SequenceInsert", held, net.op("Relu", "x"), net.values(0, scalar=True))
    return str(net.op("SequenceErase", held))


@pytest.mark.parametrize(
    "build",
    [
        picked(lambda net: split(net, axis=0, keepdims=0), 0),
        picked(lambda net: split(net, axis=1), -1),
        picked(lambda net: split(net, 3, scalar=True, axis=1), 0),
        picked(lambda net: split(net, 3, scalar=True, axis=1), 2),
        picked(lambda net: split(net, 3, scalar=True, axis=1), -1),
        picked(lambda net: split(net, 4, 2, axis=2), 1),
        picked(together, 0),
        joined(together, axis=0),
        joined(lambda net: split(net, axis=0, keepdims=0), axis=0, new_axis=1),
        joined(lambda net: split(net, axis=1), axis=0),
        joined(lambda net: split(net, 4, scalar=True, axis=1), axis=1),
    ],
)
def test_members_of_sequences(build: Callable[[Net], str]) -> None:
    net = Net()
    model = net.model(net.op("Exp", build(net)), x=["N", "T", 6])
    formula = flopwise.formula(model)
    assert formula.exact
    answered = 0
    for count, length in [(n, t) for n in (0, 1, 2, 5, 30) for t in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 100, 1009)]:
        try:
            profile = flopwise.profile(model, dims={"N": count, "T": length})
        except flopwise.FlopwiseError:
            continue
        if not profile.unresolved:
            at = formula.at(N=count, T=length)
            assert at == {figure: getattr(profile.sum, figure) for figure in at}, (count, length)
            answered += 1
    assert answered > 10
