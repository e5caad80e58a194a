"""Stored tensors and their bytes."""

from __future__ import annotations

from pathlib import Path

import flopwise
from flopwise.graph import Graph, Node, Tensor
from flopwise.memory.weights import stored_tensors, weight_bytes_by_dtype

EXAMPLES = Path(__file__).parents[2] / "examples"


def one_layer(*stored: Tensor) -> Graph:
    x, y = Tensor("x", (1, 8), "float32", "input"), Tensor("y", (1, 4), "float32")
    return Graph("one", "hand", "", (x,), (y,), (Node("Mystery", "m", (x, *stored, *stored), (y,)),))


def test_weights_by_type() -> None:
    w, v = Tensor("w", (100,), "int8", "weight"), Tensor("v", (50,), "float32", "buffer")
    u, s = Tensor("u", (50,), "float32", "constant"), Tensor("s", (2,), "int64", "constant")
    graph = one_layer(w, v, u, s)
    assert list(stored_tensors(graph)) == [w, v, u]  # what steers shapes is left out
    assert weight_bytes_by_dtype(graph) == {"float32": 400, "int8": 100}
    assert weight_bytes_by_dtype(one_layer(Tensor("w", None, "int8", "weight"))) == {"int8": None}


def test_they_add_up_to_the_profile() -> None:
    real = flopwise.read(EXAMPLES / "tiny_resnet.onnx")
    assert sum(v or 0 for v in weight_bytes_by_dtype(real).values()) == flopwise.profile(real).total("weight_bytes")
