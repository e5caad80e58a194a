"""Node data for Model Explorer: every figure lands on a node of the graph that its ONNX adapter draws."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.report.html.test_page import chain, tensor

import flopwise
from flopwise.cli import main
from flopwise.graph import Graph, Node
from flopwise.report.viewers.model_explorer import render

RESNET = "examples/tiny_resnet.onnx"


def test_each_layer_has_its_count() -> None:
    profile = flopwise.profile(RESNET, convention="macs")
    data = json.loads(render(profile))
    assert data["name"] == "MACs"
    assert data["results"] == {row.name: {"value": row.count} for row in profile.rows}
    assert [stop["stop"] for stop in data["gradient"]] == [0.0, 0.35, 1.0]


def test_what_is_unknown_is_a_question_mark() -> None:
    data = json.loads(render(flopwise.profile("examples/custom_op.onnx")))
    assert data["results"]["/spline/Spline"] == {"value": "?"}


def test_missing_and_taken_names_are_those_of_the_adapter() -> None:
    data = json.loads(render(flopwise.profile(chain(["a", "", "a", "", "node"]))))
    assert list(data["results"]) == ["a", "node", "a_1", "node_1", "node_2"]


def test_operators_that_are_no_layers_still_take_their_name() -> None:
    made = Node("Constant", "", (), (tensor("c", 1, 8),))
    rest = chain(["", ""])
    graph = Graph("g", "hand", "", rest.inputs, rest.outputs, (made, *rest.nodes))
    assert list(json.loads(render(flopwise.profile(graph)))["results"]) == ["node_1", "node_2"]


@pytest.mark.parametrize("path", [RESNET, "examples/custom_op.onnx", "examples/transformer_block.onnx"])
def test_the_adapter_knows_every_node(path: str) -> None:
    adapter = pytest.importorskip("model_explorer_onnx.main")
    shown = {node.id for node in adapter.ONNXAdapter().convert(path, {})["graphs"][0].nodes}
    dims = {"batch": 1, "sequence": 8} if "transformer" in path else None
    assert set(json.loads(render(flopwise.profile(path, dims=dims)))["results"]) <= shown


def test_the_command_line_writes_it_beside_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, other = tmp_path / "data.json", tmp_path / "netron.json"
    assert main(["profile", RESNET, "--model-explorer", str(out), "--netron", str(other)]) == 0
    assert "tiny_resnet" in capsys.readouterr().out
    assert json.loads(out.read_text()) == json.loads(render(flopwise.profile(RESNET)))
    assert json.loads(other.read_text())["signature"] == "netron:attachment"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([RESNET, "--model-explorer", "x.txt"], "end in .json"),
        (["examples", "--model-explorer", "x.json"], "directory"),
        ([RESNET, "--model-explorer", "x.json", "-o", "x.json"], "name the same file"),
        ([RESNET, "--model-explorer", "x.json", "--netron", "x.json"], "name the same file"),
    ],
)
def test_places_in_the_way_are_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not Path("x.json").exists()
