"""``flopwise flops`` on a Caffe network in the conventions of Caffe's tools."""

from __future__ import annotations

import csv
import io
import json

import pytest
from tests.cli.conftest import EXAMPLES, Run

ALEXNET = EXAMPLES / "alexnet.prototxt"

#: The lines of the classic table.
CLASSIC = """
conv1 (96, 3, 11, 11) (1, 96, 55, 55) 34848 105415200 14.552
conv2 (256, 48, 5, 5) (1, 256, 27, 27) 307200 223948800 30.915
conv3 (384, 256, 3, 3) (1, 384, 13, 13) 884736 149520384 20.64
conv4 (384, 192, 3, 3) (1, 384, 13, 13) 663552 112140288 15.48
conv5 (256, 192, 3, 3) (1, 256, 13, 13) 442368 74760192 10.32
fc6 (4096, 9216) (1, 4096) 37748736 37748736 5.211
fc7 (4096, 4096) (1, 4096) 16777216 16777216 2.316
fc8 (1000, 4096) (1, 1000) 4096000 4096000 0.565
Layers num 8
Total number of parameters 60954656
Total number of FLOPs 724406816
""".strip().splitlines()


def test_the_classic_table(run: Run) -> None:
    code, out, err = run("flops", ALEXNET, "-c", "caffe")
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines() if line.strip("─ ")]
    assert lines[2 : 2 + len(CLASSIC)] == CLASSIC
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
