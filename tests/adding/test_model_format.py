"""The section "A model format" of ``adding.md``, carried out: a graph as JSON, asked by several commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.adding.page import built


def _run(package: Path, *arguments: str, code: int = 0) -> str:
    """What the command line of a copied package prints; where it fails, its one line of error."""
    environment = {**os.environ, "PYTHONPATH": str(package)}
    command = [sys.executable, "-m", "flopwise", *arguments]
    run = subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == code, run.stderr
    return run.stderr if code else run.stdout


def _json_graph(values: list[float]) -> str:
    nodes = [
        {"op": "product", "name": "fc", "inputs": ["x", "w"], "outputs": ["y"]},
        {"op": "softmax", "name": "sm", "inputs": ["y"], "outputs": ["z"], "options": {"axis": 1}},
    ]
    stored = {"w": {"shape": [3, 2], "values": values}}
    return json.dumps({"inputs": {"x": ["N", 3]}, "outputs": ["z"], "stored": stored, "nodes": nodes})


def test_the_section_works(tmp_path: Path) -> None:
    package = built("A model format", tmp_path)
    models = tmp_path / "models"
    models.mkdir()
    (models / "net.graph.json").write_text(_json_graph([1.0, 0.0, 0.0, 2.0, 0.0, 3.0]))

    profile = json.loads(_run(package, "profile", "models/net.graph.json", "-b", "5", "-f", "json"))
    assert profile["model"]["format"] == "json-graph"
    assert (profile["totals"]["macs"], profile["totals"]["params"]) == (30, 6)
    weights = json.loads(_run(package, "weights", "models/net.graph.json", "-f", "json"))
    (layer,) = weights["entries"]
    assert (layer["name"], layer["length"], layer["zeros"], layer["max"]) == ("fc", 6, 3, 3.0)
    sparsity = json.loads(_run(package, "sparsity", "models", "--dim", "N=5", "-f", "json"))
    assert sparsity["totals"]["zeros"] == 3
    (models / "other.graph.json").write_text(_json_graph([1.0] * 6))
    both = json.loads(_run(package, "profile", "models", "--dim", "N=5", "-f", "json"))
    assert [one["totals"]["macs"] for one in both["models"]] == [30, 30]
    assert "N" in _run(package, "formula", "models/net.graph.json")
    assert "N" in _run(package, "profile", "models/net.graph.json", code=2)  # which is open

    (models / "text").write_text("hello")
    assert ".graph.json" in _run(package, "profile", "models/text", code=2)
    assert "graphs as JSON" in _run(package, "shapes", "models/net.graph.json", "-o", "y.onnx", code=2)
    (models / "net.graph.json").write_text("{}")
    error = _run(package, "profile", "models/net.graph.json", code=2)
    assert "net.graph.json: truncated or damaged graph as JSON (KeyError: 'stored')" in error
    folder = package / "flopwise" / "formats" / "json_graph"
    assert sum(len(file.read_text().splitlines()) for file in folder.glob("*.py")) <= 80
