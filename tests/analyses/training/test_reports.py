"""Columns, totals and options of a training step."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from typing import Any

import pytest

import flopwise

MODEL = "examples/tiny_resnet.onnx"


def run(*arguments: str) -> Any:
    command = [sys.executable, "-m", "flopwise", "profile", MODEL, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_table_shows_the_backward_pass_and_its_share() -> None:
    done = run("--train", "--optimizer", "adam", "--by", "op")
    assert done.returncode == 0
    header = next(line for line in done.stdout.splitlines() if line.startswith("operator"))
    assert all(title in header for title in ("backward", "backward %", "saved bytes"))
    for title in ("backward FLOPs", "adam FLOPs", "gradient bytes", "optimizer state bytes", "training memory bytes"):
        assert any(line.startswith(title) for line in done.stdout.splitlines())


def test_a_convention_without_a_backward_pass_is_shown_with_its_macs() -> None:
    shown = flopwise.render(flopwise.profile(MODEL, train=True, convention="onnx-tool"))
    header, total = (next(line for line in shown.splitlines() if line.startswith(word)) for word in ("layer", "Total"))
    assert "backward MACs  backward MACs %" in header
    assert "?" not in total


def test_csv_and_json_agree() -> None:
    rows = list(csv.DictReader(io.StringIO(run("--train", "-f", "csv").stdout)))
    content = json.loads(run("--train", "-f", "json").stdout)
    assert [int(row["backward_macs"]) for row in rows] == [layer["backward_macs"] for layer in content["layers"]]
    assert sum(int(row["backward"]) for row in rows) == content["training"]["backward"]
    assert sum(int(row["saved_bytes"]) for row in rows) == content["training"]["saved_bytes"]


def test_shares_add_up() -> None:
    rows = csv.DictReader(io.StringIO(run("--train", "-f", "csv", "--columns", "name,backward_%").stdout))
    assert sum(float(row["backward%"]) for row in rows) == pytest.approx(100, abs=0.01)  # three digits each


def test_a_column_of_training_needs_training() -> None:
    done = run("--columns", "name,backward")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "add --train" in done.stderr


def test_an_optimizer_needs_training() -> None:
    done = run("--optimizer", "adam")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--train" in done.stderr


@pytest.mark.parametrize("format", ["table", "tree", "markdown", "csv", "json", "latex"])
@pytest.mark.parametrize("by", ["layer", "op", "module", "dtype"])
def test_every_format_takes_a_training_step(format: str, by: str) -> None:
    profile = flopwise.profile(MODEL, train=True, optimizer="sgd")
    assert flopwise.render(profile, format=format, by=by)


def test_an_operator_is_explained_with_its_gradient() -> None:
    from flopwise.report.commands.explain import operator

    assert operator("Softmax")["backward"] == "numel(X) × (2 add + 2 mul): y × (G − Σ G y)"
    assert operator("ArgMax")["backward"] is None


def test_figures_of_inference_stay_what_they_are() -> None:
    plain, trained = flopwise.profile(MODEL).to_dict(), flopwise.profile(MODEL, train=True).to_dict()
    assert plain["totals"] == trained["totals"]
    for before, after in zip(plain["layers"], trained["layers"], strict=True):
        assert before.items() <= after.items()
