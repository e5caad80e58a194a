"""Netscope's figures (dgschwend/netscope@8ae36d8): what its code gives for each layer, and its published totals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.caffe_networks import written
from tests.conventions.caffe_nets import Net, alexnet, vgg16

import flopwise
from flopwise.conventions.caffe import collapse, human
from flopwise.graph import Graph, Node, Tensor
from flopwise.report.commands.flops import classes_report
from flopwise.report.report import as_text

FIGURES = ("macc", "comp", "add", "div", "exp", "activation", "param")
X = (2, 8, 6, 6)
N = 2 * 8 * 6 * 6


def figures(graph: Graph, full: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        as_text(classes_report(flopwise.profile(graph, convention="netscope"), full), "json")
    )
    return found


def layer(op: str, x: tuple[int, ...], y: tuple[int, ...], *weights: tuple[int, ...], **attrs: Any) -> Graph:
    """A graph of one layer."""
    stored = [Tensor(f"w{i}", shape, "float32", "weight") for i, shape in enumerate(weights)]
    data, top = Tensor("x", x, "float32", "input"), Tensor("y", y, "float32")
    return Graph("one", "caffe", "", (data,), (top,), (Node(op, "one", (data, *stored), (top,), attrs),), caffe=True)


#: A layer, and macc, comp, add, div, exp, activation, param; a dash before it would be unknown.
ROWS: dict[str, tuple[Graph, tuple[int | None, ...]]] = {
    "convolution": (
        layer("Conv", X, (2, 4, 4, 4), (4, 4, 3, 3), (4,), group=2),
        (2 * 4 * 16 * 36, 0, 0, 0, 0, 128, 4 * 4 * 9 + 4),
    ),
    "without bias": (layer("Conv", X, (2, 4, 4, 4), (4, 8, 3, 3)), (2 * 4 * 16 * 72, 0, 0, 0, 0, 128, 288)),
    "in 3-D": (layer("Conv", (1, 2, 4, 4, 4), (1, 3, 4, 4, 4), (3, 2, 1, 1, 1)), (None,) * 7),
    "deconvolution": (
        # 11 x 11 from 6 x 6, kernel 3, stride 2: thinned by 3/2 twice, no group and no bias
        layer("ConvTranspose", X, (2, 4, 11, 11), (8, 2, 3, 3), (4,), group=2, strides=[2, 2], pads=[1, 1, 1, 1]),
        (2 * 4 * 121 * 8 * 9 // 4, 0, 0, 0, 0, 2 * 4 * 121, 8 * 4 * 9),
    ),
    "inner product": (layer("Gemm", (2, 288), (2, 10), (10, 288), (10,), transB=1), (5760, 0, 0, 0, 0, 20, 2890)),
    "max-pool": (
        layer("MaxPool", X, (2, 8, 3, 3), kernel_shape=[2, 2], strides=[2, 2]),
        (0, N, 0, 0, 0, N // 4, 0),
    ),
    "average-pool": (layer("AveragePool", X, (2, 8, 3, 3), kernel_shape=[2, 2]), (0, 0, N, 0, 0, N // 4, 0)),
    "global": (layer("GlobalAveragePool", X, (2, 8, 1, 1)), (0, 0, N, 0, 0, 16, 0)),
    "global max": (layer("GlobalMaxPool", X, (2, 8, 1, 1)), (0, N, 0, 0, 0, 16, 0)),
    "batch norm": (layer("caffe::BatchNorm", X, X, (8,), (8,), (1,)), (0, 0, N, N, 0, N, 16)),
    "onnx batch norm": (layer("BatchNormalization", X, X, *[(8,)] * 4), (0, 0, N, N, 0, N, 16)),
    "scale": (layer("caffe::Scale", X, X, (8,), (8,)), (N, 0, 0, 0, 0, N, 0)),
    "lrn": (layer("LRN", X, X, size=5), (5 * N, 0, N, 2 * N, N, N, 2)),
    "normalize": (layer("caffe::Normalize", X, X, (8,)), (N, 0, N, 2 * N, N, N, 2)),
    **{op: (layer(op, X, X), (0, N, 0, 0, 0, N, 0)) for op in ("Relu", "LeakyRelu", "Elu", "Clip", "Dropout")},
    "prelu": (layer("PRelu", X, X, (8,)), (0, N, 0, 0, 0, N, 0)),
    "softmax": (layer("Softmax", (2, 10), (2, 10)), (0, 0, 20, 20, 20, 20, 0)),
    "softmax loss": (layer("caffe::SoftmaxWithLoss", (2, 10), ()), (0, 0, 20, 20, 20, 20, 0)),
    **{op: (layer(op, X, X), (0, 0, N, 0, 0, N, 0)) for op in ("Sum", "Mul", "Max", "caffe::Eltwise")},
    **{op: (layer(op, X, X), (0, 0, 0, 0, 0, N, 0)) for op in ("Concat", "Flatten", "caffe::Crop")},
    **{op: (layer(op, X, X), (0,) * 7) for op in ("Reshape", "Transpose", "caffe::PriorBox", "caffe::Accuracy")},
    "power": (layer("caffe::Power", X, X, scale=2.0, shift=1.0, power=1.0), (288, 0, 288, 0, 0, 288, 0)),
    "square": (layer("caffe::Power", X, X, power=2.0), (0, 0, 0, 0, 288, 288, 0)),
    "regions": (layer("caffe::ROIPooling", X, (5, 8, 2, 2)), (5, 5 * 288, 5, 5, 0, 160, 0)),
    "sigmoid": (layer("Sigmoid", X, X), (None,) * 7),
    "axpy": (layer("caffe::Axpy", X, X), (None,) * 7),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str) -> None:
    graph, expected = ROWS[name]
    (found,) = figures(graph, full=True)["layers"]
    assert tuple(found[key] for key in FIGURES) == expected


def test_vgg16_as_published() -> None:
    found = figures(vgg16(10))
    assert tuple(found[key] for key in FIGURES) == (154702643200, 196853760, 10000, 10000, 10000, 286519840, 138357544)
    assert found["total"] == found["macc"]


def test_the_batch_multiplies() -> None:
    one, ten = figures(alexnet(1)), figures(alexnet(10))
    assert all(ten[key] == 10 * one[key] for key in FIGURES[:-1])
    assert ten["param"] == one["param"] == 60965224 + 2 * 2


def test_neighbours_collapse() -> None:
    names = ["conv1/conv", "pool1", "inc/1x1", "inc/relu", "inc/3x3", "fc", "inc/out", "conv10", "conv1/relu"]
    assert collapse(names) == [
        ("conv1/conv", 1),
        ("pool1", 1),
        ("inc", 3),
        ("fc", 1),
        ("inc/out", 1),
        ("conv1", 2),  # the tool compares "conv1" with the beginning of "conv10"
    ]


def test_the_summary_adds_up_to_the_details() -> None:
    net = Net("net", 1, 3, 8, 8)
    for name in ("a/conv1", "a/conv2", "b/conv1"):
        net.conv(name, 4, 3)
        net.relu(f"{name}_relu")
    summary, details = figures(net.graph()), figures(net.graph(), full=True)
    assert [(line["name"], line["type"]) for line in summary["layers"]] == [
        ("a", "submodule(3)"),
        ("b", "submodule(1)"),
    ]
    for key in FIGURES:
        total = sum(line[key] for line in details["layers"])
        assert summary[key] == details[key] == sum(line[key] for line in summary["layers"]) == total
    text = as_text(classes_report(flopwise.profile(net.graph(), convention="netscope")))
    assert [line.split()[:2] for line in text.splitlines()[4:6]] == [["a", "submodule(3)"], ["b", "submodule(1)"]]


def test_what_stops_the_tool_is_unknown() -> None:
    net = Net("net", 1, 3, 8, 8)
    net.conv("block/conv", 4, 3)
    net.add("Sigmoid", "block/sigmoid")
    found = figures(net.graph())
    assert found["coverage"]["unknown"] == {"Sigmoid": 1}
    text = as_text(classes_report(flopwise.profile(net.graph(), convention="netscope")))
    assert "≥ 3,888" in text.splitlines()[4]
    assert text.splitlines()[6].startswith("Total")
    assert "≥ 3,888" in text.splitlines()[6]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (1000, "1000"),
        (1001, "1k"),
        (1500, "1.5k"),
        (3868560384, "3.87G"),
        (999999, "1000k"),
        (2 * 10**15, "2000T"),
    ],
)
def test_human(number: int, text: str) -> None:
    assert human(number) == text


#: Network, input shape -> figures that netscope shows for its preset of the same network.
PRESETS: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = [
    ("resnet50", (1, 3, 224, 224), (3868560384, 10888192, 16207848, 10588136, 1000, 46567376, 25557096)),
    ("bvlc_googlenet", (10, 3, 227, 227), (16040427520, 161073760, 8829200, 16644880, 8327440, 100641120, 6998556)),
]


@pytest.mark.parametrize(("name", "shape", "expected"), PRESETS, ids=[name for name, _, _ in PRESETS])
def test_presets(tmp_path: Path, name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    profile = flopwise.profile(written(tmp_path, name), {"data": shape}, convention="netscope")
    found = json.loads(as_text(classes_report(profile), "json"))
    assert tuple(found[key] for key in FIGURES) == expected
