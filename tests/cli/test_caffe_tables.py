"""``flopwise flops`` on a Caffe network in the conventions of Caffe's tools."""

from __future__ import annotations

import csv
import io
import json

import pytest
from tests.cli.conftest import EXAMPLES, Run
from tests.conventions.caffe_nets import ALEXNET_TABLE

ALEXNET = EXAMPLES / "alexnet.prototxt"


def test_the_classic_table(run: Run) -> None:
    code, out, err = run("flops", ALEXNET, "-c", "caffe")
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines() if line.strip("─ ")]
    assert lines[1 : 1 + len(ALEXNET_TABLE)] == ALEXNET_TABLE
    assert run("flops", ALEXNET, "-c", "caffe", "-b", 10).out.count("(10, ") == 8


def test_netscope(run: Run) -> None:
    found = json.loads(run("flops", ALEXNET, "-c", "netscope", "-f", "json").out)
    figures = {key: found[key] for key in ("macc", "comp", "add", "div", "exp", "activation", "param")}
    assert figures == {
        "macc": 726791936,
        "comp": 1768640,
        "add": 478024,
        "div": 955048,
        "exp": 478024,
        "activation": 1926224,
        "param": 60965228,
    }
    assert len(found["layers"]) == 23


def test_convnet_burden(run: Run) -> None:
    out = run("flops", ALEXNET, "-c", "convnet-burden", "--human").out
    assert all(figure in out for figure in ("233 MB", "5 MB", "729 MFLOPS"))


@pytest.mark.parametrize("convention", ["caffe", "netscope", "convnet-burden"])
@pytest.mark.parametrize("format_", ["table", "markdown", "csv", "json", "latex"])
@pytest.mark.parametrize("more", [[], ["--full"], ["--human"], ["--no-header"]])
def test_every_format(run: Run, convention: str, format_: str, more: list[str]) -> None:
    code, out, err = run("flops", EXAMPLES / "tiny_resnet.onnx", "-c", convention, "-f", format_, *more)
    assert (code, err) == (0, "")
    assert convention in out or "--no-header" in more


def test_csv_adds_up(run: Run) -> None:
    text = run("flops", EXAMPLES / "tiny_resnet.onnx", "-c", "netscope", "--full", "-f", "csv").out
    rows = list(csv.DictReader(io.StringIO(text)))
    found = json.loads(run("flops", EXAMPLES / "tiny_resnet.onnx", "-c", "netscope", "-f", "json").out)
    for key in ("macc", "comp", "add", "div", "exp", "activation", "param"):
        assert sum(int(row[key]) for row in rows) == found[key]
