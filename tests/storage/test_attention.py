"""Attentions that a graph computes operator by operator: which products are theirs, and what their masks leave."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.graphs import Sketch, sketch

from flopwise.graph import Graph, Node
from flopwise.storage.attention import unfused_attention


def attention(queries: int, keys: int, width: int = 8, **attrs: int) -> Graph:
    """Two heads: queries times keys, Softmax with the facts about its mask, times values."""
    made = sketch(
        {
            "q": (2, queries, width),
            "k": (2, width, keys),
            "v": (2, keys, width),
            "s": (2, queries, keys),
            "p": (2, queries, keys),
            "y": (2, queries, width),
        }
    )
    made.node("MatMul", "q k", "s")
    made.node("Softmax", "s", "p")
    made.node("MatMul", "p v", "y")
    made.nodes[1] = replace(made.nodes[1], attrs=attrs)
    return made.graph("q k v", "y")


def test_products_before_and_behind_the_softmax() -> None:
    (found,) = unfused_attention(attention(3, 5))
    assert (found.scores, found.sums, found.places) == ((0,), (2,), (0, 2))
    assert (found.pairs, found.left, found.causal) == (2 * 3 * 5, None, None)


@pytest.mark.parametrize(
    ("queries", "keys", "attrs", "left"),
    [
        (4, 4, {"is_causal": 0}, 16),
        (4, 4, {"is_causal": 1}, 4 + 3 + 2 + 1),
        (2, 5, {"is_causal": 1}, 4 + 5),  # the last queries stand beside the last keys
        (4, 4, {"is_causal": 1, "left_window_size": 1}, 1 + 2 + 2 + 2),
        (4, 4, {"is_causal": 1, "left_window_size": 0}, 4),
        (4, 4, {"is_causal": 0, "left_window_size": 1}, 4 + 4 + 3 + 2),
    ],
)
def test_what_a_mask_leaves(queries: int, keys: int, attrs: dict[str, int], left: int) -> None:
    (found,) = unfused_attention(attention(queries, keys, **attrs))
    assert (found.pairs, found.left) == (2 * queries * keys, 2 * left)


@pytest.mark.parametrize("stored", ["k", "v"])
def test_a_product_with_a_weight_is_none_of_attention(stored: str) -> None:
    graph = attention(3, 5)
    tensors = {t.name: replace(t, kind="weight") if t.name == stored else t for t in graph.inputs}

    def with_weight(node: Node) -> Node:
        return replace(node, inputs=tuple([tensors.get(t.name, t) for t in node.known_inputs]))

    assert unfused_attention(replace(graph, nodes=tuple(map(with_weight, graph.nodes)))) == []


def test_of_scores_without_a_shape_nothing_is_known() -> None:
    made = Sketch()
    for name, shape in {"q": (2, 3, 8), "k": (2, 8, 5), "v": (2, 5, 8), "s": None, "p": None, "y": (2, 3, 8)}.items():
        made.tensor(name, shape)
    made.node("MatMul", "q k", "s")
    made.node("Softmax", "s", "p")
    made.node("MatMul", "p v", "y")
    (found,) = unfused_attention(made.graph("q k v", "y"))
    assert (found.places, found.pairs, found.left, found.causal) == ((0, 2), 0, None, None)
