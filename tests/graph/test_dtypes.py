"""Element types: their widths beside the bytes that onnx stores, and their names."""

from __future__ import annotations

import math

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.graphs import sketch

from flopwise.conventions import get
from flopwise.errors import InputError
from flopwise.graph import Graph, Node, Tensor
from flopwise.graph.dtypes import BITS, canonical, has_width, is_float
from flopwise.profiles.count import profile_graph

#: Names of ONNX's element types -> their codes in the installed version.
CODES = {name.lower(): code for name, code in TensorProto.DataType.items() if name not in ("UNDEFINED", "STRING")}
SPELT = {"float": "float32", "double": "float64"}


@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 7), (0, 4)])
def test_bytes_are_those_that_onnx_stores(name: str, shape: tuple[int, ...]) -> None:
    """An odd number of 4-bit elements fills its last byte by half, and takes it all."""
    try:
        stored = numpy_helper.from_array(numpy.zeros(shape, helper.tensor_dtype_to_np_dtype(CODES[name])))
    except (KeyError, TypeError, ValueError) as error:
        pytest.skip(f"onnx {onnx.__version__}: {error}")
    ours = Tensor("t", shape, SPELT.get(name, name))
    assert ours.nbytes == len(stored.raw_data)
    assert ours.numel == math.prod(shape)


def test_every_type_of_onnx_has_a_width() -> None:
    assert {SPELT.get(name, name) for name in CODES} <= BITS.keys()
    assert all(BITS[name] > 0 for name in BITS if has_width(name))


def test_packed_types() -> None:
    widths = {4: ("int4", "uint4", "float4e2m1"), 2: ("int2", "uint2"), 6: ("float6e2m3", "float6e3m2")}
    for bits, names in widths.items():
        for name in names:
            assert Tensor("t", (1000,), name).nbytes == 1000 * bits // 8


@pytest.mark.parametrize("name", BITS)
def test_floating_point(name: str) -> None:
    assert is_float(name) == name.startswith(("float", "bfloat"))
    assert canonical(name.upper()) == name


def test_unknown_name() -> None:
    with pytest.raises(InputError, match="unknown element type 'int5'"):
        canonical("int5")


# Strings have no width: their bytes are unknown, and not zero.


def texts() -> Graph:
    made = sketch({"x": (4,), "y": (4,)}, x="input")
    made.tensor("s", (4,), dtype="string")
    made.node("Relu", "x", "y", "act")
    made.node("ai.onnx.ml::LabelEncoder", "y", "s", "names")
    return made.graph(outputs="s")


def test_strings_have_no_bytes() -> None:
    assert not Tensor("s", (4,), "string").sized
    assert not Tensor("s", None, None, items=(Tensor("a", (1,), "float32"), Tensor("b", (1,), "string"))).sized
    assert Tensor("s", None, None, items=(Tensor("a", (1,), "float32"),)).sized
    assert not Tensor("s", None, "float32").sized
    assert Tensor("s", (4,), None).sized


def test_bytes_of_strings_are_unknown() -> None:
    counted = profile_graph(texts(), get("flops"))
    relu, names = counted.rows
    assert (relu.activations, relu.output_bytes) == (4, 16)
    assert (names.activations, names.output_bytes, names.input_bytes) == (4, None, 16)
    assert counted.peak_activation_bytes is None
    assert "unknown bytes: 1 tensor holds strings, the first is 's'; bytes are lower bounds" in counted.notes


def test_a_string_that_goes_in_is_told_as_well() -> None:
    graph = Graph("g", "", "", (Tensor("s", (2,), "string", "input"),), (), ())
    counted = profile_graph(graph, get("flops"))
    assert any(note.startswith("unknown bytes") for note in counted.notes)
    assert counted.peak_activation_bytes is None
    node = Node("ai.onnx.ml::LabelEncoder", "n", graph.inputs, (Tensor("y", (2,), "int64"),))
    row = profile_graph(Graph("g", "", "", graph.inputs, (), (node,)), get("flops")).rows[0]
    assert (row.input_bytes, row.output_bytes) == (None, 16)
