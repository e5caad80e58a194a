"""Quantised operators: counts by type, and laws beside their floating-point twins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.operators.nodes import cost

from flopwise.graph import Node, Shape, Tensor
from flopwise.operators.counts import Counts
from flopwise.operators.tables import count


def converted(op: str, inner: str, outer: str, zero: bool = True, **attrs: Any) -> Counts | None:
    """What it costs to convert 12 elements between two types."""
    parameters = (Tensor("scale", (), "float32"), Tensor("zero", (), outer if op == "QuantizeLinear" else inner))
    node = Node(op, "n", (Tensor("x", (3, 4), inner), *parameters[: 1 + zero]), (Tensor("y", (3, 4), outer),), attrs)
    return count(node)


@pytest.mark.parametrize(
    ("dtype", "zero", "attrs", "expected"),
    [
        ("uint8", True, {}, Counts(div=12, add=12, cmp=36)),
        ("int4", False, {}, Counts(div=12, cmp=36)),
        ("int2", True, {}, Counts(div=12, add=12, cmp=36)),
        ("uint16", True, {"block_size": 2, "axis": 1}, Counts(div=12, add=12, cmp=36)),
        # the zero point of a narrow float is 0 and only names the type
        ("float8e4m3fn", True, {}, Counts(div=12, cmp=24)),
        ("float8e5m2", True, {"saturate": 0}, Counts(div=12)),
        ("float4e2m1", False, {}, Counts(div=12, cmp=24)),
        ("float4e2m1", False, {"saturate": 0}, Counts(div=12, cmp=24)),
    ],
)
def test_quantize(dtype: str, zero: bool, attrs: dict[str, Any], expected: Counts) -> None:
    assert converted("QuantizeLinear", "float32", dtype, zero, **attrs) == expected


@pytest.mark.parametrize(
    ("dtype", "zero", "expected"),
    [
        ("int8", True, Counts(mul=12, add=12)),
        ("int32", False, Counts(mul=12)),
        ("uint4", True, Counts(mul=12, add=12)),
        ("float8e4m3fnuz", True, Counts(mul=12)),
        ("float4e2m1", False, Counts(mul=12)),
    ],
)
def test_dequantize(dtype: str, zero: bool, expected: Counts) -> None:
    assert converted("DequantizeLinear", dtype, "float16", zero) == expected


LAYER: list[Shape | None] = [(1, 8, 6, 6), (), (), (4, 8, 3, 3), (), (), (), ()]

TWINS: list[tuple[str, Sequence[Shape | None], str, Sequence[Shape | None], Shape]] = [
    ("ConvInteger", [(1, 8, 6, 6), (4, 8, 3, 3)], "Conv", [(1, 8, 6, 6), (4, 8, 3, 3)], (1, 4, 4, 4)),
    ("QLinearConv", [*LAYER, (4,)], "Conv", [(1, 8, 6, 6), (4, 8, 3, 3), (4,)], (1, 4, 4, 4)),
    ("MatMulInteger", [(8, 1, 3, 4), (5, 4, 2)], "MatMul", [(8, 1, 3, 4), (5, 4, 2)], (8, 5, 3, 2)),
    ("QLinearMatMul", [(3, 4), (), (), (4, 5), (), (), (), ()], "MatMul", [(3, 4), (4, 5)], (3, 5)),
]


@pytest.mark.parametrize(("op", "inputs", "twin", "floating", "output"), TWINS)
def test_products_are_those_of_the_floating_point_twin(
    op: str, inputs: Any, twin: str, floating: Any, output: Shape
) -> None:
    assert cost(op, inputs, [output]).mac == cost(twin, floating, [output]).mac
    if op.endswith("Integer"):
        assert cost(op, inputs, [output]) == cost(twin, floating, [output])


def test_what_one_quantised_layer_adds() -> None:
    """Zero points off 288 and 288 elements, a bias on 64 sums, and 64 sums to 8 bits by one ratio of scales."""
    assert cost("QLinearConv", [*LAYER, (4,)], [(1, 4, 4, 4)]) == Counts(
        mac=64 * 72, add=288 + 288 + 64 + 64, mul=64 + 1, cmp=64 * 3, div=1
    )


def test_each_channel_has_its_ratio_of_scales() -> None:
    whole = cost("QLinearConv", LAYER, [(1, 4, 4, 4)])
    per_channel = cost("QLinearConv", [*LAYER[:4], (4,), (4,), (), ()], [(1, 4, 4, 4)])
    assert per_channel == whole + Counts(mul=3, div=3)
    product = [(3, 4), (3,), (3,), (4, 5), (5,), (5,), (), ()]
    per_tensor = [(3, 4), (), (), (4, 5), (), (), (), ()]
    assert cost("QLinearMatMul", product, [(3, 5)]) == cost("QLinearMatMul", per_tensor, [(3, 5)]) + Counts(
        mul=14, div=14
    )


BATCHED: list[tuple[str, Callable[[Any], list[Shape | None]], Callable[[Any], Shape]]] = [
    ("QuantizeLinear", lambda n: [(n, 8), (), ()], lambda n: (n, 8)),
    ("DequantizeLinear", lambda n: [(n, 8), ()], lambda n: (n, 8)),
    ("ConvInteger", lambda n: [(n, 3, 9, 9), (8, 3, 3, 3), ()], lambda n: (n, 8, 7, 7)),
    ("MatMulInteger", lambda n: [(n, 4, 5), (5, 7), ()], lambda n: (n, 4, 7)),
]


@pytest.mark.parametrize(("op", "inputs", "output"), BATCHED)
def test_doubling_the_batch_doubles_the_counts(op: str, inputs: Any, output: Any) -> None:
    assert cost(op, inputs(6), [output(6)]) == cost(op, inputs(3), [output(3)]) * 2


def test_symbols_count_like_the_numbers_they_stand_for() -> None:
    sympy = pytest.importorskip("sympy")
    n = sympy.Symbol("n", positive=True, integer=True)

    def layer(n: Any) -> Counts:
        return cost("QLinearMatMul", [(n, 4), (n,), (n,), (4, 5), (5,), (5,), (), ()], [(n, 5)])

    assert Counts(*(sympy.sympify(v).subs(n, 7) for v in layer(n))) == layer(7)
