"""Pairs of queries and keys that causal masks and windows leave: equal to asking every pair."""

from __future__ import annotations

import random

import numpy
import pytest

from flopwise import Counts
from flopwise.graph import Node, Tensor
from flopwise.operators.masks import pairs_within
from flopwise.operators.tables import count, needed


def _allowed(queries: int, keys: int, offset: int, left: int | None, right: int | None) -> numpy.ndarray:
    i, j = numpy.arange(queries)[:, None] + offset, numpy.arange(keys)
    lower = True if left is None else j >= i - left
    upper = True if right is None else j <= i + right
    return numpy.broadcast_to(lower & upper if left is not None or right is not None else True, (queries, keys))


def test_pairs_are_those_of_a_thousand_random_windows() -> None:
    chance = random.Random(0)
    for _ in range(1000):
        queries, keys, offset = chance.randint(0, 12), chance.randint(0, 12), chance.randint(-5, 12)
        left, right = chance.choice([None, *range(8)]), chance.choice([None, *range(8)])
        expected = _allowed(queries, keys, offset, left, right).sum()
        assert pairs_within(queries, keys, offset, left, right) == expected, (queries, keys, offset, left, right)


def _node(op: str, inputs: list[tuple[int, ...] | None], outputs: list[tuple[int, ...]], **attrs: int) -> Node:
    made = [None if s is None else Tensor(f"x{i}", s, "float32") for i, s in enumerate(inputs)]
    return Node(
        op, "attention", tuple(made), tuple(Tensor(f"y{i}", s, "float32") for i, s in enumerate(outputs)), attrs
    )


@pytest.mark.parametrize(
    ("attrs", "past", "left", "right"),
    [
        ({"is_causal": 1}, 0, None, 0),
        ({"is_causal": 1}, 5, None, 0),
        ({"left_window_size": 2}, 3, 2, None),
        ({"left_window_size": 2, "right_window_size": 1}, 3, 2, 1),
        ({"is_causal": 1, "left_window_size": 2}, 3, 2, 0),
        ({}, 0, None, None),
    ],
)
def test_onnx_attention(attrs: dict[str, int], past: int, left: int | None, right: int | None) -> None:
    cache = [None, (2, 3, past, 8), (2, 3, past, 8)] if past else []
    node = _node("Attention", [(2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 8), *cache], [(2, 3, 4, 8)], **attrs)
    pairs = 2 * 3 * int(_allowed(4, 6 + past, past, left, right).sum())
    left_over, executed = needed(node), count(node)
    assert left_over is not None
    assert executed is not None
    assert left_over.mac == pairs * 16
    assert left_over.exp == pairs
    assert executed.mac == 2 * 3 * 4 * (6 + past) * 16


@pytest.mark.parametrize(("window", "past"), [(-1, 0), (-1, 7), (3, 7), (3, 0)])
def test_grouped_attention_of_onnxruntime(window: int, past: int) -> None:
    inputs = [(2, 4, 32), (2, 4, 16), (2, 4, 16), (2, 2, past, 8), (2, 2, past, 8)]
    outputs = [(2, 4, 32), (2, 2, past + 4, 8), (2, 2, past + 4, 8)]
    attrs = {"num_heads": 4, "kv_num_heads": 2, "local_window_size": window}
    node = _node("com.microsoft::GroupQueryAttention", inputs, outputs, **attrs)
    pairs = 2 * 4 * int(_allowed(4, 4 + past, past, window - 1 if window > 0 else None, 0).sum())
    left_over = needed(node)
    assert left_over is not None
    assert left_over.mac == pairs * 16


def test_other_operators_have_no_masks_and_rules_of_the_user_win() -> None:
    product = _node("MatMul", [(2, 3), (3, 4)], [(2, 4)])
    assert needed(product) is None
    attention = _node("Attention", [(1, 1, 2, 8)] * 3, [(1, 1, 2, 8)], is_causal=1)
    assert needed(attention, {"Attention": lambda node: Counts(mac=1)}) is None
