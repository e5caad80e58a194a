"""Weights of narrow types: what they take in a file, wherever their elements lie, and what loads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.formats.models import array, model, node

import flopwise
from flopwise.formats.onnx.read import read_onnx
from flopwise.graph.dtypes import BITS

TYPES = "INT4 UINT4 INT2 UINT2 FLOAT4E2M1 FLOAT8E4M3FN FLOAT8E5M2FNUZ BFLOAT16 FLOAT16 INT8"

#: 15 elements: an odd number of 4-bit and 2-bit ones does not fill its last byte.
SHAPE = (3, 5)


def stored(name: str, form: str) -> tuple[onnx.TensorProto, Any]:
    """A weight of a type in one of the forms in which a file may hold it, and its elements."""
    code = dict(TensorProto.DataType.items()).get(name)
    if code is None:
        pytest.skip(f"onnx {onnx.__version__} has no {name}")
    low = 0 if name.startswith("U") else -1
    values = numpy.random.default_rng(0).integers(low, 2, size=SHAPE)
    content = values.astype(helper.tensor_dtype_to_np_dtype(code))
    if form == "field":
        return helper.make_tensor("w", code, SHAPE, content.astype(numpy.float32).ravel()), content
    return numpy_helper.from_array(content, "w"), content


def net(weight: onnx.TensorProto) -> onnx.ModelProto:
    """The weight, converted, in a matrix product."""
    nodes = [node("Cast", "w", "u", to=TensorProto.FLOAT), node("MatMul", "x u", "y", "product")]
    return model(nodes, {"x": (2, 3)}, [weight], opset=onnx.defs.onnx_opset_version(), ir=onnx.IR_VERSION)


@pytest.mark.parametrize("form", ["raw", "field"])
@pytest.mark.parametrize("name", TYPES.split())
def test_inline(name: str, form: str, tmp_path: Path) -> None:
    weight, content = stored(name, form)
    path = tmp_path / "m.onnx"
    onnx.save(net(weight), path)
    for source in (net(weight), str(path)):
        check(source, name, content)


@pytest.mark.parametrize("name", TYPES.split())
def test_external(name: str, tmp_path: Path) -> None:
    weight, content = stored(name, "raw")
    path = tmp_path / "m.onnx"
    onnx.save(net(weight), path, save_as_external_data=True, location="m.data", size_threshold=0)
    check(str(path), name, content)
    assert (tmp_path / "m.data").stat().st_size >= -(-15 * BITS[name.lower()] // 8)
    (tmp_path / "m.data").unlink()
    assert flopwise.profile(str(path)).total("params") == 15


def check(source: Any, name: str, content: Any) -> None:
    row = flopwise.profile(source).rows[-1]
    assert (row.params, row.macs) == (15, 30)
    assert row.weight_bytes == -(-15 * BITS[name.lower()] // 8)
    graph = read_onnx(source)
    (weight,) = [t for n in graph.nodes for t in n.known_inputs if t.name == "w"]
    assert (weight.dtype, weight.kind) == (name.lower(), "weight")
    loaded = graph.weights["w"].array()
    numpy.testing.assert_array_equal(loaded.astype(numpy.float32), content.astype(numpy.float32))


def test_blocks_of_4_bit_weights() -> None:
    """64 elements of half a byte, a scale of 4 bytes for each block of 16, and a zero point of half a byte."""
    code = TensorProto.UINT4
    weights = [helper.make_tensor("w", code, (32, 2), [7] * 64), helper.make_tensor("z", code, (2, 2), [8] * 4)]
    nodes = [node("DequantizeLinear", "w s z", "u", axis=0, block_size=16), node("MatMul", "x u", "y")]
    scales = array("s", numpy.ones((2, 2)))
    row = flopwise.profile(model(nodes, {"x": (3, 32)}, [*weights, scales], opset=21, ir=10)).rows[-1]
    assert (row.macs, row.params, row.buffers, row.weight_bytes) == (192, 64, 8, 32 + 16 + 2)
