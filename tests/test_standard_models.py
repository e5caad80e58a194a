"""Operators of the standard beyond networks, from a file to the report."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

import flopwise
from flopwise.operators.counts import Counts

_FLOAT = TensorProto.FLOAT


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, list[int]]],
    outputs: dict[str, int],
    **opsets: int,
) -> onnx.ModelProto:
    """A model of some nodes; opsets by domain, ``main`` the standard's."""
    graph = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
    )
    versions = [helper.make_opsetid("" if d == "main" else d, v) for d, v in (opsets or {"main": 20}).items()]
    return helper.make_model(graph, opset_imports=versions, ir_version=10)


def counts(made: onnx.ModelProto, **options: Any) -> dict[str, Counts | None]:
    """The canonical operations of each row, by operator."""
    return {row.node.op: row.counts for row in flopwise.profile(made, **options).rows}


def test_trees_are_counted_from_their_attributes() -> None:
    tree = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_values=[0.5, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=[1.0, 2.0],
    )
    made = model([tree], {"x": (_FLOAT, [10, 4])}, {"y": _FLOAT}, **{"ai.onnx.ml": 3})
    profile = flopwise.profile(made)
    assert [row.counts for row in profile.rows] == [Counts(cmp=10, add=20)]
    assert any("depends on the data: ai.onnx.ml::TreeEnsembleRegressor" in note for note in profile.notes)


def test_window_of_a_constant_size_is_folded_and_spectrum_is_not() -> None:
    nodes = [
        helper.make_node("Constant", [], ["size"], value_int=8),
        helper.make_node("Constant", [], ["step"], value_int=4),
        helper.make_node("HannWindow", ["size"], ["window"]),
        helper.make_node("STFT", ["x", "step", "window"], ["y"]),
    ]
    made = model(nodes, {"x": (_FLOAT, [2, 32, 1])}, {"y": _FLOAT})
    assert counts(made) == {"STFT": Counts(mul=14 * (24 + 8), add=14 * 36)}
    assert counts(made, fold=False)["HannWindow"] == Counts(mul=34, add=18, trig=16, div=1)


def test_random_numbers_are_drawn_in_every_inference() -> None:
    made = model([helper.make_node("RandomUniform", [], ["y"], shape=[2, 3], low=1.0, high=3.0)], {}, {"y": _FLOAT})
    assert counts(made) == {"RandomUniform": Counts(mul=6, add=6)}


def test_sequences_hand_their_members_on() -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0),
    ]
    made = model(nodes, {"x": (_FLOAT, [2, 3])}, {"y": _FLOAT})
    assert set(counts(made).values()) == {Counts()}


@pytest.mark.parametrize(
    ("domain", "op", "reason"),
    [
        ("", "ATen", "stands for any operator of PyTorch's ATen library, and ONNX never specified them"),
        ("ai.onnx.preview.training", "Gradient", "runs the backward pass of the part of the model between"),
    ],
)
def test_what_is_unknown_on_purpose_says_why(domain: str, op: str, reason: str) -> None:
    node = helper.make_node(op, ["x"], ["y"], "odd", domain=domain, xs=["x"], y="y")
    opsets = {"main": 20, **({domain: 1} if domain else {})}
    profile = flopwise.profile(model([node], {"x": (_FLOAT, [2, 3])}, {"y": _FLOAT}, **opsets))
    assert [row.missing for row in profile.rows] == ["rule"]
    assert any(note.startswith("unknown: ") and reason in note for note in profile.notes)
