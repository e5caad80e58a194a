"""Places of scales and zero points, beside the names that onnx and onnxruntime give these inputs."""

from __future__ import annotations

import re

import onnx
import onnx.defs
import pytest
from tests.formats.models import array, kinds, model, node

import flopwise
from flopwise.operators.tables import ROWS, row

#: A name of a scale or a zero point.
NAME = re.compile(r"(^|_)(scales?|zero_points?|absmax)(_|$)|^scale[ABY]$")

#: Inputs of that name that are trained: the scale of a normalisation or of a gate.
TRAINED = {
    "BatchNormalization",
    "BranchwiseRMSNorm",
    "EngramGate",
    "GatedRMSNorm",
    "GroupNormalization",
    "HyperConnectionLowRankMix",
    "InstanceNormalization",
    "LayerNormalization",
    "LinearAttentionGate",
    "RMSNormRotary",
    "RMSNormalization",
    "ScaledSiLU",
    "SimplifiedLayerNormalization",
    "SkipGroupNorm",
}
NORMS = {("QOrderedLayerNormalization", "scale"), ("MatMulNBitsQkv", "norm_scale"), ("MatMulNBitsMlp", "norm_scale")}
NOT_STORED = {"Upsample", "Resize", "TorchEmbedding"}


#: Operators with biases that are stored in 32 bits.
BIASED = [op for op, row in ROWS.items() if any(one.wide_bias for one in row.inputs.first)]


def scales(op: str, number: int) -> frozenset[int]:
    """Places of scales and zero points among the first so many inputs."""
    return frozenset(i for i, one in row(op).inputs.places(number) if one.role in ("scale", "zero point"))


def named(op: str, names: list[str]) -> frozenset[int]:
    """Places of scales and zero points by their names."""
    if op in TRAINED | NOT_STORED:
        return frozenset()
    return frozenset(i for i, name in enumerate(names) if NAME.search(name) and (op, name) not in NORMS)


def test_places_of_onnx() -> None:
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            names = [i.name for i in schema.inputs]
            assert scales(schema.name, len(names)) == named(schema.name, names)


def test_places_of_onnxruntime() -> None:
    runtime = pytest.importorskip("onnxruntime")
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    seen = set()
    for schema in get_all_operator_schema():
        if schema.domain.startswith("com.m") and schema.name != "QLinearConcat":
            names = [i.name for i in schema.inputs]
            op = f"{schema.domain}::{schema.name}"
            assert scales(op, len(names)) == named(schema.name, names), op
            seen.add(op)
    if tuple(map(int, runtime.__version__.split(".")[:2])) >= (1, 32):  # older ones have fewer
        scaled = {op for op in ROWS if op.startswith("com.m") and scales(op, 30)}
        assert scaled - seen == {"com.microsoft::QLinearConcat"}


def test_concatenation_of_quantised_tensors() -> None:
    assert scales("com.microsoft::QLinearConcat", 9) == {0, 1, 3, 4, 6, 7}


@pytest.mark.parametrize("op", BIASED)
def test_bias_is_no_scale(op: str) -> None:
    assert all(one.role == "data" for one in row(op).inputs.first if one.wide_bias)


def test_what_multiplies_a_scale_that_is_found_anew_is_a_scale() -> None:
    """Dynamic quantisation: the scale of the weights is multiplied by that of the activations."""
    nodes = [
        node("DynamicQuantizeLinear", "x", "q s z"),
        node("MatMulInteger", "q w z wz", "i"),
        node("Cast", "i", "f", to=onnx.TensorProto.FLOAT),
        node("Mul", "s ws", "scale"),
        node("Mul", "f scale", "d"),
        node("Mul", "d gain", "y"),
    ]
    stored = [
        array("w", [[1] * 5] * 4, "int8"),
        array("wz", [0] * 5, "int8"),
        array("ws", [0.5] * 5),
        array("gain", [2.0] * 5),
    ]
    for names in ("s ws", "ws s"):
        nodes[3].input[:] = names.split()
        counted = flopwise.profile(model(nodes, {"x": (2, 4)}, stored))
        found = kinds(counted.graph)
        assert [found[n] for n in ("w", "wz", "ws", "gain")] == ["weight", "buffer", "buffer", "weight"]
        assert (counted.total("params"), counted.total("buffers")) == (25, 10)


def test_a_scale_in_a_constant_is_a_buffer_as_well() -> None:
    def dequantized(constant: bool) -> onnx.ModelProto:
        scale = array("s", 0.5)
        nodes = [node("DequantizeLinear", "w s", "u"), node("MatMul", "x u", "y")]
        first = [node("Constant", "", "s", value=scale)] if constant else []
        return model(
            [*first, *nodes], {"x": (2, 3)}, [array("w", [[1] * 5] * 3, "int8"), *([] if constant else [scale])]
        )

    for constant in (False, True):
        counted = flopwise.profile(dequantized(constant))
        assert [counted.total(f) for f in ("params", "buffers", "weight_bytes")] == [15, 1, 19]


@pytest.mark.parametrize(
    ("op", "inputs", "weights", "buffers"),
    [
        ("QLinearConv", "x s z w s z s z b", {"w", "b"}, {"s", "z"}),
        ("QLinearMatMul", "x s z w s z s z", {"w"}, {"s", "z"}),
        ("ConvInteger", "x w z z", {"w"}, {"z"}),
        ("MatMulInteger", "x w z z", {"w"}, {"z"}),
        ("com.microsoft::QGemm", "x s z w s z b s z", {"w", "b"}, {"s", "z"}),
        ("com.microsoft::QLinearAdd", "x s z w s z s z", {"w"}, {"s", "z"}),
        ("com.microsoft::QLinearConcat", "s z x s z w s z", {"w"}, {"s", "z"}),
        ("com.microsoft::MatMulIntegerToFloat", "x w s s z z f", {"w", "f"}, {"s", "z"}),
        ("com.microsoft::DynamicQuantizeMatMul", "f x s z f", {"f"}, {"s", "z"}),
        ("com.microsoft::MatMulNBits", "f w s z", {"f", "w"}, {"s", "z"}),
    ],
)
def test_kinds(op: str, inputs: str, weights: set[str], buffers: set[str]) -> None:
    domain, _, name = op.rpartition("::")
    stored = {
        "w": array("w", [[1, 2], [3, 4]], "int8"),
        "b": array("b", [1, 2], "int32"),
        "f": array("f", [1, 2]),
        "s": array("s", 0.5),
        "z": array("z", 3, "uint8"),
    }
    used = [stored[n] for n in dict.fromkeys(inputs.split()) if n != "x"]
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, (2, 2))
    net = model([node(name, inputs, "y", domain=domain)], [x], used, domains={"com.microsoft": 1})
    found = kinds(flopwise.profile(net).graph)
    assert {n for n, kind in found.items() if kind == "weight"} == weights
    assert {n for n, kind in found.items() if kind == "buffer"} == buffers
