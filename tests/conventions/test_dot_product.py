"""2 n − 1 per dot product, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conventions.nodes import Shapes, node, total

X = (2, 8, 6, 6)
N = 2 * 8 * 6 * 6

#: Operator, input shapes, output shapes, attributes, opset, total.
ROWS: list[tuple[str, Shapes, Shapes, dict[str, Any], int, int | None]] = [
    ("Conv", [X, (4, 8, 3, 3)], [(2, 4, 4, 4)], {}, 0, 2 * 4 * 4 * 4 * (2 * 72 - 1)),
    ("Conv", [X, (4, 8, 3, 3), (4,)], [(2, 4, 4, 4)], {}, 0, 2 * 4 * 4 * 4 * 2 * 72),
    ("Conv", [X, (8, 1, 3, 3)], [(2, 8, 4, 4)], {"group": 8}, 0, 2 * 8 * 4 * 4 * 17),
    ("Gemm", [(2, 5), (7, 5), (7,)], [(2, 7)], {"transB": 1}, 0, 2 * 7 * 9),
    ("Gemm", [(2, 5), (5, 7)], [(2, 7)], {"alpha": 0.5}, 0, 2 * 7 * 9),
    ("MatMul", [(3, 2, 5), (5, 7)], [(3, 2, 7)], {}, 0, 3 * 2 * 7 * 9),
    ("MatMul", [(2, 0), (0, 7)], [(2, 7)], {}, 0, 0),
    ("Relu", [X], [X], {}, 0, N),
    ("LeakyRelu", [X], [X], {}, 0, N),
    ("PRelu", [X, (8, 1, 1)], [X], {}, 0, N),
    ("Tanh", [X], [X], {}, 0, 5 * N),
    ("Sigmoid", [X], [X], {}, 0, 4 * N),
    ("MaxPool", [X], [(2, 8, 3, 3)], {"kernel_shape": [2, 2]}, 0, 144),
    ("GlobalMaxPool", [X], [(2, 8, 1, 1)], {}, 0, 16),
    ("AveragePool", [X], [(2, 8, 3, 3)], {"kernel_shape": [2, 2]}, 0, 144 * 5),
    ("GlobalAveragePool", [X], [(2, 8, 1, 1)], {}, 0, 16 * 37),
    ("BatchNormalization", [X, (8,), (8,), (8,), (8,)], [X], {}, 0, 4 * N),
    ("Softmax", [(2, 10)], [(2, 10)], {}, 0, 2 * 29),
    ("Softmax", [(2, 3, 10)], [(2, 3, 10)], {"axis": 1}, 13, 20 * 8),
    ("Softmax", [(2, 3, 10)], [(2, 3, 10)], {}, 11, 2 * 89),
    ("Softmax", [(2, 3, 10)], [(2, 3, 10)], {"axis": 2}, 11, 6 * 29),
    ("Dropout", [X], [X], {}, 0, 0),
    # What the text does not name counts as in flops.
    ("Add", [X, X], [X], {}, 0, N),
    ("Reshape", [X, (2,)], [(2, 288)], {}, 0, 0),
    ("ConvTranspose", [(1, 4, 3, 3), (4, 2, 2, 2)], [(1, 2, 6, 6)], {}, 0, 2 * 36 * 8),
    ("acme::Mystery", [X], [X], {}, 0, None),
]


@pytest.mark.parametrize(("op", "inputs", "outputs", "attrs", "version", "count"), ROWS)
def test_rows(op: str, inputs: Shapes, outputs: Shapes, attrs: dict[str, Any], version: int, count: int | None) -> None:
    assert total("dot-product", node(op, inputs, outputs, attrs, version)) == count
