"""onnxruntime's operators, whose shapes come from their rows, and bodies of control flow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from onnx import TensorProto, helper
from tests.analyses.formula.models import Net

import flopwise

MICROSOFT = "com.microsoft"


def encoder() -> bytes:
    """Fused attention, skip normalisation and a fused activation."""
    net = Net()
    x = net.op("Attention", "x", net.weight(16, 48), net.weight(48), domain=MICROSOFT, num_heads=2)
    x = net.op("SkipLayerNormalization", x, "x", net.weight(16), net.weight(16), domain=MICROSOFT)
    x = net.op("BiasGelu", net.linear(x, 16, 64), net.weight(64), domain=MICROSOFT)
    return net.model(net.linear(x, 64, 16), x=["batch", "seq", 16])


def cached() -> bytes:
    """Attention over a cache that grows by the new keys, and a product with packed weights."""
    net = Net()
    q, k, v = (net.linear("x", 16, 16) for _ in range(3))
    y, *_ = net.op(
        "MultiHeadAttention", q, k, v, "", "", "", "past_key", "past_value", domain=MICROSOFT, num_heads=2, outputs=3
    )
    y = net.op("MatMulNBits", y, net.weight(8, 1, 8), net.weight(8), domain=MICROSOFT, K=16, N=8, bits=4, block_size=16)
    cache: list[int | str] = ["batch", 2, "past", 8]
    return net.model(net.op("Mul", y, y), x=["batch", "seq", 16], past_key=cache, past_value=cache)


def image() -> bytes:
    """A fused convolution, channels last, and a product of transposed factors."""
    net = Net()
    x = net.op("FusedConv", "image", net.weight(8, 3, 3, 3), domain=MICROSOFT, activation="Relu", strides=[2, 2])
    x = net.reshape(x, net.extent("image", 0), 8, -1)
    return net.model(net.op("FusedMatMul", x, x, domain=MICROSOFT, transB=1), image=["N", 3, "H", "W"])


def scanned() -> bytes:
    """A state that is carried along an axis."""
    net = Net()
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Add", ["state", "part"], ["next"]), helper.make_node("Tanh", ["next"], ["out"])],
        "body",
        [value(name, TensorProto.FLOAT, None) for name in ("state", "part")],
        [value(name, TensorProto.FLOAT, None) for name in ("next", "out")],
    )
    _, y = net.op("Scan", "start", "x", body=body, num_scan_inputs=1, outputs=2)
    return net.model(net.op("Relu", y), start=["batch", 8], x=["steps", "batch", 8])


@pytest.mark.parametrize("make", [encoder, cached, image, scanned])
def test_values_are_those_of_profiles(make: Callable[[], bytes]) -> None:
    model = make()
    formula = flopwise.formula(model)
    assert formula.exact
    for place in (3, 5, 18, 131):
        point = {d.name: d.size(place + i) for i, d in enumerate(formula.domains)}
        profile = flopwise.profile(model, dims=point)
        at = formula.at(**point)
        assert at == {figure: getattr(profile.sum, figure) for figure in at}, point
