"""Caffe's own operators: expected counts as plain numbers, and laws between counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from tests.operators.nodes import cost

from flopwise.errors import ShapeError
from flopwise.graph import Shape
from flopwise.operators.counts import Counts

Shapes: TypeAlias = "list[Shape | None]"

ROWS: list[tuple[str, Shapes, Shapes, dict[str, Any], Counts]] = [
    # One layer of an LSTM over 16 frames of 10 videos.
    (
        "LSTM",
        [(16, 10, 4096), (16, 10), (1024, 4096), (1024,), (1024, 256)],
        [(16, 10, 256)],
        {"hidden_size": 256},
        Counts(mac=713_031_680, add=491_520, mul=204_800, div=122_880, exp=122_880, tanh=81_920, bit=122_880),
    ),
    # ResNet-50's first batch norm and its scale.
    (
        "BatchNorm",
        [(1, 64, 112, 112), (64,), (64,), (1,)],
        [(1, 64, 112, 112)],
        {},
        Counts(add=802_880, div=802_817, mul=128, sqrt=64),
    ),
    (
        "Scale",
        [(1, 64, 112, 112), (64,), (64,)],
        [(1, 64, 112, 112)],
        {"bias_term": 1},
        Counts(mul=802_816, add=802_816),
    ),
    ("Power", [(2, 3)], [(2, 3)], {"scale": 0.5, "shift": 1.0}, Counts(mul=6, add=6)),
    ("Power", [(2, 3)], [(2, 3)], {}, Counts()),
    ("Axpy", [(1, 64, 1, 1), (1, 64, 7, 7), (1, 64, 7, 7)], [(1, 64, 7, 7)], {}, Counts(mul=3136, add=3136)),
    (
        "SPP",
        [(2, 3, 9, 8)],
        [(2, 63)],
        {"kernels": [[9, 8], [5, 4], [3, 2]], "bins": [1, 4, 16]},
        Counts(cmp=6 * (72 + 80 + 96)),
    ),
    ("SoftmaxWithLoss", [(4, 10), (4,)], [()], {}, Counts(cmp=44, add=84, exp=40, div=41, log=4)),
    ("EuclideanLoss", [(4, 10), (4, 10)], [()], {}, Counts(add=80, mul=40, div=1)),
    ("Accuracy", [(4, 10), (4,)], [()], {}, Counts(cmp=40, add=4, div=1)),
    ("ROIPooling", [(1, 256, 14, 14), (8, 5)], [(8, 256, 7, 7)], {}, Counts(cmp=8 * 256 * 28 * 28)),
    # SSD300: 8732 boxes, 20 classes and the background, 400 candidates each.
    (
        "DetectionOutput",
        [(1, 34928), (1, 183372), (1, 2, 34928)],
        [(1, 1, 200, 7)],
        {"boxes": 8732, "priors": 8732, "classes": 20, "candidates": 400},
        Counts(cmp=13_022_400, add=6_488_784, mul=1_674_588, div=1_630_928, exp=17_464),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "inputs", "outputs", "attrs", "expected"), ROWS)
def test_row(kind: str, inputs: Shapes, outputs: Shapes, attrs: dict[str, Any], expected: Counts) -> None:
    assert cost(f"caffe::{kind}", inputs, outputs, **attrs) == expected


BATCHED: list[tuple[str, Callable[[int], Shapes], Callable[[int], Shapes], dict[str, Any]]] = [
    ("Power", lambda n: [(n, 3)], lambda n: [(n, 3)], {"scale": 2.0, "shift": 1.0, "power": 3.0}),
    ("Exp", lambda n: [(n, 3)], lambda n: [(n, 3)], {"base": 2.0}),
    ("Log", lambda n: [(n, 3)], lambda n: [(n, 3)], {"base": 2.0, "scale": 2.0}),
    ("Scale", lambda n: [(n, 3), (3,)], lambda n: [(n, 3)], {"bias_term": 1}),
    ("Bias", lambda n: [(n, 3), (3,)], lambda n: [(n, 3)], {}),
    ("Eltwise", lambda n: [(n, 3)] * 3, lambda n: [(n, 3)], {"operation": "SUM", "coeff": [-1, 2, 0.5]}),
    ("Embed", lambda n: [(n,), (9, 4), (4,)], lambda n: [(n, 4)], {"bias_term": 1}),
    ("Reduction", lambda n: [(n, 3, 4)], lambda n: [(n,)], {"operation": "MEAN"}),
    ("StochasticPooling", lambda n: [(n, 3, 8, 8)], lambda n: [(n, 3, 4, 4)], {"kernel_shape": [2, 2]}),
    ("SPP", lambda n: [(n, 3, 8, 8)], lambda n: [(n, 15)], {"kernels": [[8, 8], [4, 4]], "bins": [1, 4]}),
    ("Unpooling", lambda n: [(n, 3, 4, 4)], lambda n: [(n, 3, 8, 8)], {"kernel_shape": [2, 2], "unpool": "AVE"}),
    ("LRNWithinChannel", lambda n: [(n, 3, 8, 8)], lambda n: [(n, 3, 8, 8)], {"size": 3}),
    ("MVN", lambda n: [(n, 3, 8, 8)], lambda n: [(n, 3, 8, 8)], {}),
    ("Normalize", lambda n: [(n, 3, 8, 8), (3,)], lambda n: [(n, 3, 8, 8)], {"across_spatial": 0}),
    ("LSTM", lambda n: [(5, n, 3), (5, n), (n, 2)], lambda n: [(5, n, 4)], {"hidden_size": 4, "static_input": 1}),
    ("RNN", lambda n: [(5, n, 3), (5, n)], lambda n: [(5, n, 4)], {"hidden_size": 4}),
    ("LSTMUnit", lambda n: [(1, n, 4), (1, n, 16), (1, n)], lambda n: [(1, n, 4)] * 2, {}),
    ("ROIPooling", lambda n: [(1, 3, 8, 8), (n, 5)], lambda n: [(n, 3, 2, 2)], {}),
    ("PSROIPooling", lambda n: [(1, 12, 8, 8), (n, 5)], lambda n: [(n, 3, 2, 2)], {}),
    ("Proposal", lambda n: [(n, 18, 4, 4)], lambda n: [(n * 5, 5)], {"anchors": 144, "candidates": 100}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "inputs", "outputs", "attrs"), BATCHED)
def test_doubling_the_batch_doubles_the_counts(kind: str, inputs: Any, outputs: Any, attrs: dict[str, Any]) -> None:
    op = f"caffe::{kind}"
    assert cost(op, inputs(6), outputs(6), **attrs) == cost(op, inputs(3), outputs(3), **attrs) * 2


@pytest.mark.parametrize(("kind", "inputs", "outputs", "attrs"), BATCHED)
def test_symbols_count_like_the_numbers_they_stand_for(
    kind: str, inputs: Any, outputs: Any, attrs: dict[str, Any]
) -> None:
    sympy = pytest.importorskip("sympy")
    n = sympy.Symbol("n", positive=True, integer=True)
    symbolic = cost(f"caffe::{kind}", inputs(n), outputs(n), **attrs)
    number = cost(f"caffe::{kind}", inputs(5), outputs(5), **attrs)
    assert Counts(*(sympy.sympify(v).subs(n, 5) for _, v in symbolic.items())) == number


def test_a_step_of_an_lstm_is_its_products_and_its_unit() -> None:
    """T × N steps, each with two products, three additions of biases and products, and the last state by cont."""
    whole = cost("caffe::LSTM", [(5, 2, 3), (5, 2)], [(5, 2, 4)], hidden_size=4)
    unit = cost("caffe::LSTMUnit", [(1, 2, 4), (1, 2, 16), (1, 2)], [(1, 2, 4)] * 2)
    gates = cost("Gemm", [(10, 3), (16, 3), (16,)], [(10, 16)], transB=1)
    states = cost("Gemm", [(2, 4), (16, 4)], [(2, 16)], transB=1) + cost("Add", [(2, 16)] * 2, [(2, 16)])
    assert whole == gates + (states + unit + cost("Mul", [(2, 4), (2, 1)], [(2, 4)])) * 5


def test_one_sum_under_three_names() -> None:
    shapes: Shapes = [(2, 3, 4)] * 3
    added = cost("Sum", shapes, [(2, 3, 4)])
    assert added == cost("caffe::Eltwise", shapes, [(2, 3, 4)], operation="SUM")
    assert added == cost("caffe::Eltwise", shapes, [(2, 3, 4)], operation="SUM", coeff=[1, -1, 1])


def test_pyramid_is_its_poolings() -> None:
    levels = {"kernels": [[8, 8], [4, 4]], "bins": [1, 4]}
    for method, op in (("MAX", "MaxPool"), ("AVE", "AveragePool")):
        poolings = [cost(op, [(2, 3, 8, 8)], [(2, 3, bins, bins)], kernel_shape=[k, k]) for k, bins in ((8, 1), (4, 2))]
        assert cost("caffe::SPP", [(2, 3, 8, 8)], [(2, 15)], pool=method, **levels) == sum(poolings, Counts())


def test_what_the_rules_need_is_named() -> None:
    for kind, missing in (("LSTM", "hidden_size"), ("SPP", "kernels"), ("LRNWithinChannel", "size")):
        with pytest.raises(ShapeError, match=missing):
            cost(f"caffe::{kind}", [(5, 2, 3, 3)] * 2, [(5, 2, 4)])
