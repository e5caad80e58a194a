"""Models whose small sizes follow other rules than their large ones, and heads on several scales."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper
from tests.analyses.formula.models import Net

import flopwise


def pooled() -> bytes:
    """A pooling whose window may be larger than its input."""
    net = Net()
    return net.model(net.op("MaxPool", "x", kernel_shape=[3], strides=[2]), x=[1, 1, "W"])


def narrow() -> bytes:
    """Like SqueezeNet: a convolution without padding, and three poolings by 2 that round down."""
    net = Net()
    x = net.op("Conv", "image", net.weight(16, 3, 3, 3), kernel_shape=[3, 3], strides=[2, 2])
    for level in range(3):
        x = net.op("MaxPool", net.op("Relu", x), kernel_shape=[3, 3], strides=[2, 2])
        x = net.conv(x, 16 << level, 32 << level, 3)
    return net.model(net.op("GlobalAveragePool", x), image=[1, 3, "H", "W"])


def head() -> bytes:
    """Anchors on two scales one after the other, and one softmax over all of them."""
    net, parts = Net(), []
    x = net.conv("image", 3, 8, 3, 8)
    for _ in range(2):
        x = net.conv(x, 8, 8, 3, 2 if parts else 1)
        scores = net.op("Transpose", net.conv(x, 8, 12, 3), perm=[0, 2, 3, 1])
        parts.append(net.reshape(scores, net.extent("image", 0), -1, 4))
    return net.model(net.op("Softmax", net.op("Concat", *parts, axis=1), axis=-1), image=["N", 3, "H", "W"])


@pytest.mark.parametrize("width", [0, 1, 2, 3, 4, 5, 6, 7, 100, 101])
def test_a_window_larger_than_its_input(width: int) -> None:
    model = pooled()
    formula = flopwise.formula(model)
    try:
        expected = flopwise.profile(model, dims={"W": width}).total("count")
    except flopwise.FlopwiseError:
        with pytest.raises(flopwise.InputError):
            formula.at(W=width)
    else:
        assert formula.at(W=width)["count"] == expected


@pytest.mark.parametrize(("height", "width"), [(307, 25), (307, 15), (224, 224), (63, 31), (25, 307), (299, 23)])
def test_chained_windows(height: int, width: int) -> None:
    model = narrow()
    formula = flopwise.formula(model)
    try:
        expected = flopwise.profile(model, dims={"H": height, "W": width})
    except flopwise.InputError:
        assert min(height, width) == 15  # less than the windows take one after the other
        with pytest.raises(flopwise.InputError):
            formula.at(H=height, W=width)
        return
    at = formula.at(H=height, W=width)
    assert all(at[figure] == getattr(expected.sum, figure) for figure in at)


@pytest.mark.parametrize("point", [{"N": 1, "H": 300, "W": 300}, {"N": 1, "H": 8, "W": 9}, {"N": 7, "H": 65, "W": 127}])
def test_heads_on_several_scales(point: dict[str, int]) -> None:
    model = head()
    formula = flopwise.formula(model)
    assert formula.exact
    assert formula.conditions == ()
    expected = flopwise.profile(model, dims=point)
    at = formula.at(**point)
    assert all(at[figure] == getattr(expected.sum, figure) for figure in at)


def test_an_if_without_a_body() -> None:
    net = Net()
    broken = net.op("If", "x", then_branch="nothing")
    formula = flopwise.formula(net.model(net.op("Relu", broken), x=["N", 3]))
    assert not formula.exact


def test_a_loop_without_a_count() -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["k"]), helper.make_node("Identity", ["i"], ["o"])],
        "body",
        [onnx.ValueInfoProto(name=name) for name in "ic"],
        [onnx.ValueInfoProto(name=name) for name in "ko"],
    )
    net = Net()
    made = net.op("Loop", "x", body=body)
    formula = flopwise.formula(net.model(net.op("Relu", made), x=["N", 3]))
    with pytest.raises(flopwise.InputError, match="a size for"):
        formula.at(N=2)  # what it runs is unknown
