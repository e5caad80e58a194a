"""Models as onnxruntime's own tools quantise them, beside the models that they were made from."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import onnx
import pytest

import flopwise
from flopwise.graph.dtypes import BITS, DTYPES
from flopwise.operators.tables import OPERATORS

pytest.importorskip("onnxruntime.quantization")

EXAMPLES = Path(__file__).parents[1] / "examples"
NETS: dict[str, tuple[tuple[int, ...], dict[str, int]]] = {
    "tiny_resnet": ((1, 3, 64, 64), {}),
    "transformer_block": ((2, 8, 40), {"batch": 2, "sequence": 8}),
}


class Model(NamedTuple):
    """A profile, and the file that it is of."""

    profile: flopwise.Profile
    proto: onnx.ModelProto

    def figures(self, *names: str) -> list[int]:
        return [self.profile.total(name) for name in names]

    def macs(self) -> dict[str, int]:
        """Multiply-accumulates by precision."""
        return {s.name: s.macs for s in self.profile.by("dtype") if s.macs}


def calibration(net: str) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    shape = NETS[net][0]
    (name,) = [i.name for i in onnx.load(EXAMPLES / f"{net}.onnx").graph.input]

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            random = numpy.random.default_rng(0)
            self.batches: Iterator[Any] = iter([{name: random.normal(size=shape).astype(numpy.float32)}])

        def get_next(self) -> Any:
            return next(self.batches, None)

    return Reader()


def static(source: str, target: str, net: str, form: str, per_channel: bool = False) -> None:
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    quantize_static(source, target, calibration(net), QuantFormat[form], per_channel=per_channel, **types)


def dynamic(source: str, target: str, net: str, per_channel: bool = False) -> None:
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(source, target, per_channel=per_channel)


def narrow(source: str, target: str, net: str, **options: Any) -> None:
    """The weights of matrix products in 4 or 8 bits by blocks of 16."""
    quantizer = pytest.importorskip("onnxruntime.quantization.matmul_nbits_quantizer")
    work = quantizer.MatMulNBitsQuantizer(source, block_size=16, **options)
    work.process()
    work.model.save_model_to_file(target)


def narrow_qdq(source: str, target: str, net: str) -> None:
    from onnxruntime.quantization import QuantFormat

    narrow(source, target, net, bits=4, is_symmetric=True, quant_format=QuantFormat.QDQ)


def half(source: str, target: str, net: str) -> None:
    float16 = pytest.importorskip("onnxruntime.transformers.float16")
    onnx.save(float16.convert_float_to_float16(onnx.load(source)), target)


def made(tmp_path: Path, net: str, how: Callable[..., None] | None = None, **options: Any) -> Model:
    logging.getLogger().setLevel(logging.ERROR)
    path = EXAMPLES / f"{net}.onnx"
    if how is not None:
        source, path = path, tmp_path / "quantised.onnx"
        how(str(source), str(path), net, **options)
    return Model(flopwise.profile(str(path), dims=NETS[net][1]), onnx.load(path))


def stored_bytes(model: onnx.ModelProto) -> int:
    """Bytes of the file's tensors, but for 64-bit integers, which steer shapes, and numbers by themselves."""
    total = 0
    for tensor in model.graph.initializer:
        dtype = DTYPES[tensor.data_type]
        if dtype != "int64":
            total += (math.prod(tensor.dims) * BITS[dtype] + 7) // 8
    return total


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("net", NETS)
def test_qdq(net: str, per_channel: bool, tmp_path: Path) -> None:
    whole = made(tmp_path, net)
    quantised = made(tmp_path, net, static, form="QDQ", per_channel=per_channel)
    assert quantised.profile.exact
    assert quantised.figures("macs", "params") == whole.figures("macs", "params")
    by_type = quantised.macs()
    assert sum(by_type.values()) == whole.profile.total("macs")
    products = sum(row.macs or 0 for row in whole.profile.rows if row.node.op in ("Conv", "Gemm", "MatMul"))
    assert sum(macs for name, macs in by_type.items() if name.endswith("(QDQ)")) == products
    assert quantised.profile.total("weight_bytes") < 0.3 * whole.profile.total("weight_bytes")


@pytest.mark.parametrize("net", NETS)
def test_qdq_adds_conversions_and_nothing_else(net: str, tmp_path: Path) -> None:
    """The conversions of activations; those of weights run once. Saturation at 0 takes the place of Relu."""
    whole, quantised = made(tmp_path, net), made(tmp_path, net, static, form="QDQ")
    before, after = ({s.name: s.flops for s in one.profile.by("op") if s.flops} for one in (whole, quantised))
    conversions = {"QuantizeLinear", "DequantizeLinear"}
    assert after.keys() - before.keys() == conversions
    assert before.keys() - after.keys() <= {"Relu"}
    assert all(before[op] == after[op] for op in before.keys() & after.keys())
    converted = [r.node.input(0) for r in quantised.profile.rows if r.node.op in conversions]
    assert {tensor.kind for tensor in converted} == {"input", "activation"}


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("net", NETS)
def test_dynamic(net: str, per_channel: bool, tmp_path: Path) -> None:
    whole, quantised = made(tmp_path, net), made(tmp_path, net, dynamic, per_channel=per_channel)
    assert quantised.profile.exact
    assert quantised.figures("macs", "params") == whole.figures("macs", "params")
    assert quantised.profile.total("weight_bytes") < 0.3 * whole.profile.total("weight_bytes")
    integer = [r for r in quantised.profile.rows if r.node.op in ("MatMulInteger", "ConvInteger")]
    assert quantised.macs()["uint8×int8"] == sum(r.macs or 0 for r in integer)
    assert {op for op, n in Counter(r.node.op for r in integer).items() if n}


@pytest.mark.parametrize("net", NETS)
def test_half(net: str, tmp_path: Path) -> None:
    whole, halved = made(tmp_path, net), made(tmp_path, net, half)
    assert halved.figures("macs", "flops", "params", "buffers") == whole.figures("macs", "flops", "params", "buffers")
    assert halved.macs() == {"float16": whole.profile.total("macs")}
    assert 2 * halved.profile.total("weight_bytes") == whole.profile.total("weight_bytes")


def test_4_bits_in_qdq(tmp_path: Path) -> None:
    net = "transformer_block"
    whole, quantised = made(tmp_path, net), made(tmp_path, net, narrow_qdq)
    assert quantised.figures("macs", "flops", "params") == whole.figures("macs", "flops", "params")
    stored = sum(r.macs or 0 for r in whole.profile.rows if r.node.op == "MatMul" and r.params)
    assert quantised.macs() == {"float32×int4": stored, "float32": whole.profile.total("macs") - stored}


NARROW = {
    "4 bits": {"bits": 4, "is_symmetric": True},
    "4 bits and zero points": {"bits": 4, "is_symmetric": False},
    "8 bits and zero points": {"bits": 8, "is_symmetric": False},
}


@pytest.mark.parametrize("name", NARROW)
def test_bits_in_bytes(name: str, tmp_path: Path) -> None:
    """MatMulNBits keeps weights in bytes, as many as before; the last block of a column need not be full."""
    net, options = "transformer_block", NARROW[name]
    whole, quantised = made(tmp_path, net), made(tmp_path, net, narrow, **options)
    assert quantised.profile.total("params") == whole.profile.total("params")
    blocks = sum(math.prod(t.dims[:2]) for t in quantised.proto.graph.initializer if len(t.dims) == 3)
    assert quantised.profile.total("buffers") == blocks * (1 if options["is_symmetric"] else 2)
    precisions = {s.name for s in quantised.profile.by("dtype")}
    assert f"float32×int{options['bits']}" in precisions


@pytest.mark.skipif("com.microsoft::MatMulNBits" not in OPERATORS, reason="no rule for it")
@pytest.mark.parametrize("name", NARROW)
def test_work_on_bits_in_bytes(name: str, tmp_path: Path) -> None:
    net, options = "transformer_block", NARROW[name]
    whole, quantised = made(tmp_path, net), made(tmp_path, net, narrow, **options)
    stored = sum(r.macs or 0 for r in whole.profile.rows if r.node.op == "MatMul" and r.params)
    expected = {f"float32×int{options['bits']}": stored, "float32": whole.profile.total("macs") - stored}
    assert quantised.macs() == expected


@pytest.mark.skipif("com.microsoft::QLinearAdd" not in OPERATORS, reason="no rule for it")
@pytest.mark.parametrize("net", NETS)
def test_qoperators(net: str, tmp_path: Path) -> None:
    whole, quantised = made(tmp_path, net), made(tmp_path, net, static, form="QOperator")
    assert quantised.profile.exact
    assert quantised.figures("macs", "params") == whole.figures("macs", "params")


@pytest.mark.parametrize("net", NETS)
def test_parameters_of_qoperators(net: str, tmp_path: Path) -> None:
    whole, quantised = made(tmp_path, net), made(tmp_path, net, static, form="QOperator")
    assert quantised.profile.total("params") == whole.profile.total("params")


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize(
    ("how", "options"),
    [
        (static, {"form": "QDQ"}),
        (static, {"form": "QOperator"}),
        (dynamic, {}),
        (narrow_qdq, {}),
        (narrow, NARROW["4 bits"]),
    ],
)
def test_bytes_are_those_of_the_file(net: str, how: Any, options: Any, tmp_path: Path) -> None:
    quantised = made(tmp_path, net, how, **options)
    scalars = sum(4 for t in quantised.proto.graph.initializer if not t.dims and DTYPES[t.data_type] == "float32")
    difference = stored_bytes(quantised.proto) - quantised.profile.total("weight_bytes")
    assert 0 <= difference <= scalars


@pytest.mark.parametrize("net", NETS)
def test_onnx_tool_agrees_row_by_row(net: str, tmp_path: Path) -> None:
    """Its convention, on conversions and on the products between them."""
    tool = pytest.importorskip("onnx_tool")
    quantised = made(tmp_path, net, static, form="QDQ")
    (name,) = [i.name for i in quantised.proto.graph.input]
    graph = tool.Model(str(tmp_path / "quantised.onnx"), {"verbose": False}).graph
    graph.graph_reorder_nodes()
    graph.shape_infer({name: numpy.ones(NETS[net][0], numpy.float32)})
    graph.profile()
    theirs = {n.name: int(n.macs[0]) for n in graph.nodemap.values() if n.op_type not in tool.NoMacsOps}
    ours = flopwise.profile(str(tmp_path / "quantised.onnx"), dims=NETS[net][1], convention="onnx-tool")
    assert {row.name: row.count for row in ours.rows} == theirs
