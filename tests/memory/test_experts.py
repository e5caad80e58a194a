"""Bytes of mixtures of experts: no more experts are read than tokens are routed."""

from __future__ import annotations

import pytest

from flopwise.graph import Node, Tensor
from flopwise.memory.traffic import traffic


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
