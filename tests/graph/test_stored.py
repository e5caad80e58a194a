"""Stored tensors travel: a copy of a graph, in another process too, reads the same elements."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import flopwise
from flopwise.graph import StoredTensor


def _onnx(folder: Path, external: bool) -> Path:
    arrays = {"w": numpy.arange(12, dtype=numpy.float32).reshape(3, 4), "h": numpy.ones((4, 4), numpy.float16)}
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    tensors.append(helper.make_tensor("n", TensorProto.INT4, [4], [1, 2, 3, 4]))
    tensors.append(helper.make_tensor("s", TensorProto.INT64, [2], [4, 4]))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Constant", [], ["c"], value_floats=[1.0, 2.0, 3.0, 4.0]),
        helper.make_node("Add", ["y", "c"], ["z"]),
        helper.make_node("ConstantOfShape", ["s"], ["k"]),
        helper.make_node("MatMul", ["z", "k"], ["out"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, d]) for n, d in (("x", 3), ("out", 4))]
    model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors))
    onnx.save_model(model, folder / "m.onnx", save_as_external_data=external, location="w.bin", size_threshold=0)
    return folder / "m.onnx"


def _same(graph: flopwise.Graph) -> None:
    assert graph.weights
    for other in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph)):
        for name, tensor in graph.weights.items():
            numpy.testing.assert_array_equal(other.weights[name].array(), tensor.array())
            assert other.weights[name] == tensor


@pytest.mark.parametrize("external", [False, True])
def test_onnx(tmp_path: Path, external: bool) -> None:
    _same(flopwise.read(_onnx(tmp_path, external)))


@pytest.mark.parametrize("save", [numpy.savez, numpy.savez_compressed])
def test_numpy(tmp_path: Path, save: object) -> None:
    turned = numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3))
    save(tmp_path / "a.npz", a=turned, b=numpy.arange(5, dtype=">i4"), c=numpy.array([True, False]))  # type: ignore[operator]
    _same(flopwise.read(tmp_path / "a.npz"))


def test_of_an_array_and_of_nothing() -> None:
    assert StoredTensor("a", (0,), "float32", 0).array().shape == (0,)
    with pytest.raises(flopwise.ModelError, match="has 0 elements"):
        StoredTensor("a", (2,), "float32", 8).array()
