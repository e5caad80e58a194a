"""Parts of a model that repeat are found, counted and wired alike."""

from __future__ import annotations

from typing import Any

import pytest
from tests.report.html.models import transformer
from tests.report.html.test_page import chain, tensor

import flopwise
from flopwise.graph import Graph, Node
from flopwise.report.html.model import page_data
from flopwise.report.structure import OFTEN


def repeats(graph: Graph) -> list[tuple[str, str, int]]:
    """Name, parts and period of what repeats, from the page's data."""
    groups = page_data(flopwise.profile(graph))["groups"]
    return [(name, kind, form - 1) for name, kind, _, form in groups if form > 1]


def test_blocks_that_are_alike_stand_together() -> None:
    assert repeats(transformer(12)) == [("12 × Block", "0 … 11", 1)]


def test_a_block_of_another_size_stands_alone() -> None:
    assert repeats(transformer(9, wide_at=4)) == [("4 × Block", "0 … 3", 1), ("4 × Block", "5 … 8", 1)]


def test_layers_without_modules_fold_into_periods() -> None:
    nodes: list[Node] = []
    for i in range(40):
        weights = (tensor(f"w{i}", 8, 8, kind="weight"),) if i % 2 == 0 else ()
        op = "MatMul" if weights else "Relu"
        nodes.append(Node(op, f"n{i}", (tensor(f"t{i}", 1, 8), *weights), (tensor(f"t{i + 1}", 1, 8),)))
    graph = Graph("flat", "hand", "", (tensor("t0", 1, 8),), (tensor("t40", 1, 8),), tuple(nodes))
    assert repeats(graph) == [("20 × (MatMul, Relu)", "n0 … n39", 2)]


@pytest.mark.parametrize(("many", "folded"), [(OFTEN - 1, 0), (OFTEN, 1)])
def test_a_few_small_layers_stay_as_they_are(many: int, folded: int) -> None:
    assert len(repeats(chain([f"n{i}" for i in range(many)]))) == folded


def test_parts_that_are_wired_in_another_way_stand_apart() -> None:
    """Three layers each: in the first blocks the third takes the second, in the last ones the first."""

    def node(op: str, name: str, *inputs: Any) -> Node:
        return Node(op, name, tuple(tensor(i, 4) for i in inputs), (tensor(name, 4),))

    nodes: list[Node] = []
    before = "x"
    for b in range(6):
        nodes += [
            node("Relu", f"b{b}/a", before),
            node("Tanh", f"b{b}/b", f"b{b}/a"),
            node("Add", f"b{b}/c", f"b{b}/b" if b < 3 else f"b{b}/a", before),
        ]
        before = f"b{b}/c"
    graph = Graph("wires", "hand", "", (tensor("x", 4),), (tensor(before, 4),), tuple(nodes))
    assert [name for name, _, _ in repeats(graph)] == ["3 × b0 … b2", "3 × b3 … b5"]


def test_a_projection_with_its_reshape_is_no_block() -> None:
    """Keys and values of an attention are two products, though they are alike."""

    def node(op: str, name: str, *inputs: Any) -> Node:
        return Node(op, name, inputs, (tensor(name, 4, 4),))

    x = tensor("x", 4, 4)
    nodes = [
        made
        for way in ("key", "value")
        for made in (
            node("MatMul", way, x, tensor(f"{way}.weight", 4, 4, kind="weight")),
            node("Reshape", f"{way}.reshape", tensor(way, 4, 4)),
            node("Transpose", f"{way}.transpose", tensor(f"{way}.reshape", 4, 4)),
        )
    ]
    graph = Graph("attention", "hand", "", (x,), tuple(node.outputs[0] for node in nodes[2::3]), tuple(nodes))
    assert repeats(graph) == []


def test_every_layer_keeps_its_own_figures() -> None:
    profile = flopwise.profile(transformer(12))
    layers = page_data(profile)["layers"]
    macs = dict(zip(layers["name"], layers["macs"], strict=True))
    assert [macs[row.name] for row in profile.rows] == [row.macs for row in profile.rows]
