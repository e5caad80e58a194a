"""``flopwise trace`` on profiles of onnxruntime, one and two of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.cli.conftest import Run

pytest.importorskip("onnxruntime")

import onnx
from tests.analyses.traces.nets import cnn, recorded


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """A model, and its profiles at two levels."""
    model = tmp_path / "cnn.onnx"
    onnx.save(cnn(), model)
    paths = [model]
    for level in ("off", "all"):
        folder = tmp_path / level
        folder.mkdir()
        paths.append(recorded(cnn(), folder, level, runs=5))
    return paths


def test_one_profile(run: Run, files: list[Path]) -> None:
    code, out, err = run("trace", *files[::2], "--strict")
    assert (code, err) == (0, "")
    assert "onnxruntime · run" in out
    assert re.search(r"matched +16 of 16  layers, 100.0 % of matmul and convolution time", out)
    assert "segment" in out


def test_segments_divided_where_asked_for(run: Run, files: list[Path]) -> None:
    content = json.loads(run("trace", *files[::2], "-f", "json", "--split", "macs").out)
    assert content["trace"]["split"] == "macs"
    assert all(row["time_ns"] for row in content["rows"] if row["op"] == "Conv")
    assert "segments split by MACs: an estimate" in run("trace", *files[::2], "--split", "macs").out


def test_two_profiles(run: Run, files: list[Path]) -> None:
    code, out, err = run("trace", *files, "--fail-on", "time<0%")
    assert code == (1 if err else 0)
    assert "node_conv_1+2" in out
    assert re.search(r"total +[\d,.]+ µs +before, [\d,.]+ µs after: [+-]?[\d.]+ %", out)
    content = json.loads(run("trace", *files, "-f", "json").out)
    changes = content["changes"]
    assert sum(c["more_ns"] for c in changes) == content["after"]["covered_ns"] - content["before"]["covered_ns"]
    alone = json.loads(run("trace", *files[1:], "-f", "json").out)  # by operator and shape
    assert alone["before"]["covered_ns"] == content["before"]["covered_ns"]
    assert {c["verdict"] for c in alone["changes"]} >= {"added", "gone"}
    assert run("trace", *files, "--top", "2", "-f", "csv").out.count("\n") == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--phase", "backward"), "no layer has time in a backward pass of step run"),
        (("--fail-on", "time>5%"), "--fail-on compares two traces: give the other one as well"),
        (("{other}", "--strict"), "--strict is of one trace"),
        (("{other}", "--by", "step"), "two traces are compared by layer, op, module, kernel, not by step"),
        (("{other}", "--by", "op", "--depth", "1"), "depth is of modules, not of lines by op"),
        (("{other}", "--sort", "time"), "a comparison has its own columns, largest difference first"),
        (("{other}", "-f", "perfetto"), "this report cannot be written as perfetto; choose table, markdown, csv, json"),
        (("{other}", "--fail-on", "speed>5%"), "unknown figure 'speed'"),
    ],
)
def test_refusals(run: Run, files: list[Path], arguments: tuple[str, ...], message: str) -> None:
    given = [argument.format(other=files[2]) for argument in arguments]
    code, out, err = run("trace", *files[:2], *given)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
