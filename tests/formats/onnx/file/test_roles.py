"""What a stored tensor is, by its uses: a weight, a buffer or a constant."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from tests.formats.models import node

from flopwise.formats.kit.program import Node, Operation
from flopwise.formats.kit.stored import kind_of, kind_of_constant, kind_of_filled, uses
from flopwise.operators.inputs import Input
from flopwise.operators.tables import row


def taken(*texts: str) -> list[Input]:
    """Uses written as "Operator place"."""
    names = {"QGemm": "com.microsoft::QGemm"}
    return [row(names.get(op, op)).inputs.input(int(place)) for op, place in (t.split() for t in texts)]


@pytest.mark.parametrize(
    ("dtype", "rank", "where", "expected"),
    [
        # floating point: a weight, unless its places say otherwise
        ("float32", 4, ["Conv 1"], "weight"),
        ("float32", 1, ["Conv 2"], "weight"),
        ("bfloat16", 2, ["MatMul 1"], "weight"),
        ("float8e4m3fn", 2, ["MatMul 1"], "weight"),
        ("float4e2m1", 2, ["DequantizeLinear 0"], "weight"),
        ("complex64", 2, ["Mul 1"], "weight"),
        ("float32", 1, [], "weight"),
        ("float32", 1, ["BatchNormalization 1"], "weight"),
        ("float32", 1, ["BatchNormalization 2"], "weight"),
        ("float32", 1, ["BatchNormalization 3"], "buffer"),
        ("float32", 1, ["BatchNormalization 4", "BatchNormalization 3"], "buffer"),
        ("float32", 1, ["BatchNormalization 3", "Add 1"], "weight"),
        ("float32", 1, ["QuantizeLinear 1", "DequantizeLinear 1"], "buffer"),
        ("float32", 0, ["Mul 1"], "constant"),
        ("float32", 1, ["Clip 1"], "constant"),
        ("float32", 1, ["Resize 2"], "constant"),
        ("float32", 1, ["Clip 1", "Mul 1"], "weight"),
        # narrow integers: quantised weights
        ("int8", 4, ["DequantizeLinear 0"], "weight"),
        ("uint4", 2, ["DequantizeLinear 0"], "weight"),
        ("int8", 4, ["QLinearConv 3"], "weight"),
        ("uint8", 1, ["QuantizeLinear 2"], "buffer"),
        # wide integers count, index and steer shapes
        ("int32", 1, ["DequantizeLinear 0"], "weight"),
        ("int32", 1, ["DequantizeLinear 2"], "buffer"),
        ("int32", 1, ["QLinearConv 8"], "weight"),
        ("int32", 1, ["QGemm 6"], "weight"),
        ("int32", 1, ["QLinearConv 8", "Add 1"], "constant"),
        ("int64", 1, ["Reshape 1"], "constant"),
        ("int64", 2, ["Gather 1"], "constant"),
        ("bool", 2, ["Where 0"], "constant"),
        ("string", 1, [], "constant"),
        (None, 1, [], "constant"),
    ],
)
def test_by_use(dtype: str | None, rank: int, where: list[str], expected: str) -> None:
    assert kind_of(dtype, rank, taken(*where)) == expected


@pytest.mark.parametrize(
    ("dtype", "rank", "elements", "where", "expected"),
    [
        ("float32", 2, 600, ["MatMul 1"], "weight"),
        ("float32", 1, 1, ["Mul 1"], "constant"),
        ("float32", 3, 64, ["LSTM 5"], "constant"),
        ("float32", 3, 64, ["LSTM 1"], "weight"),
        ("int64", 1, 4, ["Reshape 1"], "constant"),
        ("float32", 0, 1, ["QuantizeLinear 1", "DequantizeLinear 1"], "buffer"),
        ("uint8", 0, 1, ["QLinearConv 2"], "buffer"),
        ("float32", 0, 1, ["DequantizeLinear 1", "Mul 1"], "constant"),
    ],
)
def test_constants(dtype: str, rank: int, elements: int, where: list[str], expected: str) -> None:
    assert kind_of_constant(dtype, rank, elements, taken(*where)) == expected


@pytest.mark.parametrize(
    ("dtype", "rank", "where", "expected"),
    [
        ("float32", 4, ["Conv 1"], "weight"),
        ("float32", 1, ["BatchNormalization 4"], "buffer"),
        ("float32", 1, ["BatchNormalization 4", "BatchNormalization 1"], "weight"),
        ("float32", 2, ["Concat 0"], None),
        ("float32", 2, [], None),
        ("float32", 0, ["Mul 1"], None),
        ("int64", 1, ["Add 1"], None),
    ],
)
def test_filled(dtype: str, rank: int, where: list[str], expected: str | None) -> None:
    assert kind_of_filled(dtype, rank, taken(*where)) == expected


NODES: list[tuple[list[onnx.NodeProto], Any]] = [
    ([node("MatMul", "x w", "y")], ["MatMul 1"]),
    ([node("MatMul", "w w", "y")], ["MatMul 0", "MatMul 1"]),
    ([node("MatMul", "x w", "a"), node("Gemm", "a w b", "y")], ["MatMul 1", "Gemm 1"]),
    # operators that change only the form are looked through
    ([node("Transpose", "w", "t"), node("MatMul", "x t", "y")], ["MatMul 1"]),
    ([node("Identity", "w", "t"), node("Cast", "t", "u"), node("Add", "x u", "y")], ["Add 1"]),
    ([node("Identity", "w", "t"), node("Add", "x t", "y"), node("Mul", "t x", "z")], ["Add 1", "Mul 0"]),
    ([node("Reshape", "x w", "y")], ["Reshape 1"]),
    ([node("Transpose", "w", "t")], []),
    ([node("Identity", "w", "")], ["Identity 0"]),
    ([node("Add", "_ w", "y")], ["Add 1"]),
]  # fmt: skip


def listed(nodes: list[onnx.NodeProto]) -> list[Node]:
    """The nodes as the reader has them."""
    return [Node(Operation(n.op_type, n.domain), n.name, tuple(n.input), tuple(n.output)) for n in nodes]


@pytest.mark.parametrize(("nodes", "expected"), NODES)
def test_uses(nodes: list[onnx.NodeProto], expected: list[str]) -> None:
    found = uses(graph := listed(nodes), ["w"], {node.operation for node in graph})
    assert sorted(map(repr, found.get("w", []))) == sorted({repr(use) for use in taken(*expected)})
