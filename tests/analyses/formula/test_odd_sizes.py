"""Operators that round, clip, step or pad, at sizes down to nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest
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
