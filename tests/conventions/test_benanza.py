"""Benanza's formulas (rai-project/dlperf@88ce3475, pkg/layer), its names, types and short numbers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conventions.nodes import Shapes, node, total, view

from flopwise.conventions import benanza
from flopwise.graph import Graph
from flopwise.operators.counts import Counts
from flopwise.profiles.count import profile_graph

X = (2, 8, 6, 6)
N = 2 * 8 * 6 * 6

#: Operator, input shapes, output shapes, attributes, classes, total.
ROWS: list[tuple[str, Shapes, Shapes, dict[str, Any], Counts | None, int | None]] = [
    # AlexNet's layers, batch 1.
    ("Conv", [(1, 3, 224, 224), (96, 3, 11, 11), (96,)], [(1, 96, 54, 54)], {}, Counts(mac=101616768), 203233536),
    (
        "Conv",
        [(1, 96, 26, 26), (256, 48, 5, 5), (256,)],
        [(1, 256, 26, 26)],
        {"group": 2},
        Counts(mac=207667200),
        415334400,
    ),
    ("Relu", [(1, 96, 54, 54)], [(1, 96, 54, 54)], {}, Counts(mac=279936, cmp=279936), 839808),
    (
        "LRN",
        [(1, 96, 54, 54)],
        [(1, 96, 54, 54)],
        {"size": 5},
        Counts(mac=279936, add=279936, div=559872, exp=279936),
        1679616,
    ),
    ("MaxPool", [(1, 96, 54, 54)], [(1, 96, 26, 26)], {"kernel_shape": [3, 3]}, Counts(cmp=584064), 584064),
    ("Gemm", [(1, 9216), (4096, 9216), (4096,)], [(1, 4096)], {"transB": 1}, Counts(mac=37748736, add=4096), 75501568),
    ("Dropout", [(1, 4096)], [(1, 4096), (1, 4096)], {}, Counts(cmp=4096), 4096),
    ("Softmax", [(1, 1000)], [(1, 1000)], {}, Counts(add=1000, div=1000, exp=1000), 3000),
    # A dilated 3x3 kernel of DUC: (2 × 6 + 1)² times the work of its 1x1 footprint.
    (
        "Conv",
        [(1, 2048, 160, 160), (19, 2048, 3, 3), (19,)],
        [(1, 19, 160, 160)],
        {"dilations": [6, 6]},
        Counts(mac=2048 * 19 * 160 * 160 * 13 * 13),
        2 * 2048 * 19 * 160 * 160 * 169,
    ),
    ("Conv", [(1, 3, 9), (4, 3, 3)], [(1, 4, 7)], {}, None, None),
    ("Conv", [(1, 3, 9, 9, 9), (4, 3, 3, 3, 3)], [(1, 4, 7, 7, 7)], {}, None, None),
    ("Gemm", [(5, 3), (5, 7)], [(3, 7)], {"transA": 1, "beta": 0.0}, Counts(mac=105, add=21), 231),
    ("MatMul", [(3, 5), (5, 7)], [(3, 7)], {}, Counts(mac=105, add=21), 231),
    ("MatMul", [(2, 3, 5), (2, 5, 7)], [(2, 3, 7)], {}, Counts(mac=2 * 3 * 5, add=2 * 5), 70),
    ("MatMul", [(5,), (5, 7)], [(7,)], {}, None, None),
    ("LeakyRelu", [X], [X], {}, Counts(mac=N, cmp=N), 3 * N),
    ("PRelu", [X, (8, 1, 1)], [X], {}, Counts(mac=N, cmp=N), 3 * N),
    ("BatchNormalization", [X, (8,), (8,), (8,), (8,)], [X], {}, Counts(add=N, div=N), 2 * N),
    ("AveragePool", [X], [(2, 8, 3, 3)], {"kernel_shape": [2, 2]}, Counts(add=N), N),
    ("AveragePool", [(2, 8, 6)], [(2, 8, 3)], {"kernel_shape": [2]}, None, None),
    ("MaxPool", [X], [(2, 8, 3, 3)], {"kernel_shape": [2, 2], "auto_pad": "VALID"}, None, None),
    ("GlobalAveragePool", [X], [(2, 8, 1, 1)], {}, Counts(), 0),
    ("GlobalMaxPool", [X], [(2, 8, 1, 1)], {}, Counts(), 0),
    ("GlobalMaxPool", [(2, 8, 6)], [(2, 8, 1)], {}, None, None),
    ("Add", [X, X], [X], {}, Counts(add=N), N),
    ("Add", [(8, 1, 1), X], [X], {}, Counts(add=8), 8),
    ("Sub", [X, X], [X], {}, Counts(add=N), N),
    ("Sum", [X, X, X], [X], {}, Counts(add=2 * N), 2 * N),
    ("Min", [X, X, X], [X], {}, Counts(cmp=2 * N), 2 * N),
    ("Max", [X, X], [X], {}, None, None),
    ("Mul", [X, X], [X], {}, Counts(mac=N), 2 * N),
    ("Div", [X, X], [X], {}, Counts(mac=N), 2 * N),
    ("Add", [(), ()], [()], {}, Counts(), 0),
    ("Exp", [X], [X], {}, Counts(mac=N), 2 * N),
    ("Scale", [X], [X], {}, Counts(mac=N), 2 * N),
    ("ImageScaler", [X], [X], {}, Counts(mac=N), 2 * N),
    ("ReduceMin", [X], [(2, 8, 6, 1)], {"axes": [3]}, Counts(mac=N), 2 * N),
    ("ReduceMin", [(2, 8)], [(2, 1)], {"axes": [1]}, None, None),
    ("Squeeze", [(2, 8, 1, 1)], [(2, 8)], {}, Counts(cmp=16), 16),
    ("Unsqueeze", [(8,)], [(8, 1, 1)], {}, Counts(cmp=8), 8),
    ("TopK", [(2, 9), (1,)], [(2, 3), (2, 3)], {}, Counts(cmp=18), 18),
    *((op, [X], [X], {}, Counts(), 0) for op in ("Identity", "Cast", "Clip", "Concat", "Flatten", "Gather", "Slice")),
    *((op, [X], [X], {}, Counts(), 0) for op in ("Reshape", "Shape", "Transpose", "Constant", "ConstantOfShape")),
    *((op, [X], [X], {}, None, None) for op in ("Sigmoid", "Tanh", "Sqrt", "Not", "Pow", "Pad", "Split", "Where")),
]


@pytest.mark.parametrize(("op", "inputs", "outputs", "attrs", "classes", "count"), ROWS)
def test_rows(
    op: str, inputs: Shapes, outputs: Shapes, attrs: dict[str, Any], classes: Counts | None, count: int | None
) -> None:
    one = node(op, inputs, outputs, attrs)
    assert view("benanza", one) == classes
    assert total("benanza", one) == count


def test_one_entry_per_output() -> None:
    for outputs, entries in (([X, X], 2), ([X], 1)):
        dropout = node("Dropout", [X], outputs)
        model = Graph("g", "hand", "", (), (), (dropout,))
        assert len(profile_graph(model, benanza.CONVENTION).rows) == entries


def test_layer_names() -> None:
    conv = {"kernel_shape": [1, 1]}
    nodes = [
        node("Conv", [X], [X], conv),
        node("Conv", [X], [X], {**conv, "group": 2}),
        node("Conv", [X], [X], conv, name="head"),
        node("Conv", [X], [X], {**conv, "group": 1}),
        node("MaxPool", [X], [X]),
        node("Conv", [X], [X], conv),
    ]
    assert benanza.layer_names(nodes) == ["conv_1", "conv2_2", "head", "conv4_1", "maxpool_1", "conv_5"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 Flops"),
        (9, "9 Flops"),
        (10, "10 Flop"),
        (999, "999 Flop"),
        (1000, "1.0 kFlop"),
        (9949, "9.9 kFlop"),
        (12288, "12 kFlop"),
        (839808, "840 kFlop"),
        (1679616, "1.7 MFlop"),
        (203233536, "203 MFlop"),
        (1314692000, "1.3 GFlop"),
        (69_900_000_000_000, "70 TFlop"),
        (5 * 10**18, "5.0 EFlop"),
        (5 * 10**22, "50000 EFlop"),
    ],
)
def test_human(number: int, text: str) -> None:
    assert benanza.human(number) == text
