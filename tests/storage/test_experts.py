"""Bytes of mixtures of experts: no more experts are read than tokens are routed."""

from __future__ import annotations

from fractions import Fraction

import pytest

from flopwise.graph import Node, Tensor
from flopwise.storage.experts import Experts, experts_of
from flopwise.storage.traffic import traffic


def _tensor(name: str, *shape: int, dtype: str = "float32") -> Tensor:
    return Tensor(name, shape, dtype)


@pytest.mark.parametrize(("rows", "touched"), [(2, 2), (7, 7), (8, 8), (64, 8)])
def test_a_grouped_product_reads_as_many_experts_as_rows_at_most(rows: int, touched: int) -> None:
    inputs = (_tensor("x", rows, 16), _tensor("w", 8, 16, 32), _tensor("offs", 8, dtype="int32"))
    node = Node("aten::_grouped_mm", "experts", inputs, (_tensor("y", rows, 32),))
    assert traffic(node).read == rows * 16 * 4 + touched * 16 * 32 * 4 + 8 * 4
    assert traffic(node).written == rows * 32 * 4


def test_a_group_with_rows_of_its_own_reads_all() -> None:
    inputs = (_tensor("x", 8, 4, 16), _tensor("w", 8, 16, 32))
    node = Node("aten::_grouped_mm", "experts", inputs, (_tensor("y", 8, 4, 32),))
    assert traffic(node).read == (8 * 4 * 16 + 8 * 16 * 32) * 4


@pytest.mark.parametrize(("tokens", "k", "touched"), [(1, 2, 2), (3, 2, 6), (100, 2, 8)])
def test_the_operator_of_onnxruntime(tokens: int, k: int, touched: int) -> None:
    inputs = (_tensor("x", tokens, 16), _tensor("router", tokens, 8), _tensor("w1", 8, 32, 16), None)
    second = (_tensor("w2", 8, 16, 32), None)
    node = Node("com.microsoft::MoE", "experts", (*inputs, *second), (_tensor("y", tokens, 16),), {"k": k})
    assert traffic(node).read == tokens * (16 + 8) * 4 + touched * (32 * 16 * 2) * 4


def test_packed_experts_of_onnxruntime() -> None:
    stacks = [Tensor(name, shape, "uint8", "weight") for name, shape in (("w1", (8, 32, 18)), ("w2", (8, 64, 9)))]
    inputs = (_tensor("x", 3, 64), _tensor("router", 3, 8), stacks[0], None, stacks[1])
    node = Node("com.microsoft::MoEPacked", "experts", inputs, (_tensor("y", 3, 64),), {"k": 2})
    assert traffic(node).read == 3 * (64 + 8) * 4 + 6 * (32 * 18 + 64 * 9)


@pytest.mark.parametrize(
    ("rows", "tokens", "touched", "expected", "active"),
    [
        (2, 1, 2, Fraction(2), Fraction(2, 8)),
        (4, 2, 4, 8 * (1 - Fraction(6, 8) ** 2), Fraction(2, 8)),
        (8, 1, 8, Fraction(8), Fraction(1)),
        (16, 1, 8, Fraction(8), Fraction(1)),
        (21, 3, 8, 8 * (1 - Fraction(1, 8) ** 3), Fraction(7, 8)),
        (0, 0, 0, Fraction(0), Fraction(0)),
        (4_000_000, 2_000_000, 8, Fraction(8), Fraction(2, 8)),
    ],
)
def test_experts_that_tokens_take(rows: int, tokens: int, touched: int, expected: Fraction, active: Fraction) -> None:
    stack = Experts("experts", 8, rows)
    assert stack.touched == touched
    assert stack.expected(tokens) == expected
    assert stack.active(tokens) == active


@pytest.mark.parametrize(
    ("op", "shapes", "stack"),
    [
        ("aten::_grouped_mm", ((6, 16), (8, 16, 32)), Experts("it", 8, 6)),
        ("MatMul", ((6, 16), (8, 16, 32)), None),
        ("aten::_grouped_mm", ((6, 16), (16, 32)), None),
        ("aten::_grouped_mm", (None, (8, 16, 32)), None),
        ("aten::_grouped_mm", ((6, 16), None), None),
        ("aten::_grouped_mm", ((6, 16),), None),
    ],
)
def test_only_a_product_with_a_stack_has_experts(
    op: str, shapes: tuple[tuple[int, ...] | None, ...], stack: Experts | None
) -> None:
    inputs = tuple([Tensor(f"x{place}", shape, "float32") for place, shape in enumerate(shapes)])
    assert experts_of("it", Node(op, "it", inputs, ())) == stack


def test_experts_of_unknown_size_read_nobody_knows_how_much() -> None:
    inputs = (_tensor("x", 6, 16), Tensor("w", None, "float32"))
    assert traffic(Node("aten::_grouped_mm", "experts", inputs, (_tensor("y", 6, 32),))).read is None
