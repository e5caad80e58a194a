"""convnet-burden's figures (albanie/convnet-burden@9c7f31b): each layer's, and those of published networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.caffe_networks import written
from tests.conventions.caffe_nets import Net, alexnet, vgg16

import flopwise
from flopwise.conventions.caffe import memory, operations
from flopwise.graph import Graph, Node, Tensor
from flopwise.report.commands.flops import classes_report
from flopwise.report.report import as_text
from flopwise.report.sheet.sheet import Look

X = (2, 8, 6, 6)
ONE = 8 * 6 * 6


def figures(graph: Graph, full: bool = False) -> dict[str, Any]:
    profile = flopwise.profile(graph, convention="convnet-burden")
    found: dict[str, Any] = json.loads(as_text(classes_report(profile, full), "json"))
    return found


def layer(op: str, x: tuple[int, ...], y: tuple[int, ...], *weights: tuple[int, ...], **attrs: Any) -> Graph:
    """A graph of one layer."""
    stored = [Tensor(f"w{i}", shape, "float32", "weight") for i, shape in enumerate(weights)]
    data, top = Tensor("x", x, "float32", "input"), Tensor("y", y, "float32")
    return Graph("one", "caffe", "", (data,), (top,), (Node(op, "one", (data, *stored), (top,), attrs),), caffe=True)


#: A layer on a batch of two; operations and feature bytes of one image.
ROWS: dict[str, tuple[Graph, int | None, int]] = {
    "convolution": (layer("Conv", X, (2, 4, 4, 4), (4, 4, 3, 3), (4,), group=2), 64 * 36 + 64, 4 * 64),
    "without bias": (layer("Conv", X, (2, 4, 4, 4), (4, 8, 3, 3)), 64 * 72, 4 * 64),
    "deconvolution": (
        layer("ConvTranspose", X, (2, 4, 12, 12), (8, 4, 2, 2), (4,), strides=[2, 2]),
        ONE * 16 + 576,
        4 * 576,
    ),
    "inner product": (layer("Gemm", (2, 288), (2, 10), (10, 288), (10,), transB=1), 2890, 40),
    "relu": (layer("Relu", X, X), 2 * ONE, 0),
    "dropout": (layer("Dropout", X, X), 0, 0),
    "max-pool": (layer("MaxPool", X, (2, 8, 2, 2), kernel_shape=[3, 3], strides=[2, 2]), 2 * 32 * 4, 4 * 32),
    "average-pool": (layer("AveragePool", X, (2, 8, 6, 6), kernel_shape=[3, 3]), 2 * ONE, 4 * ONE),
    "global": (layer("GlobalAveragePool", X, (2, 8, 1, 1)), ONE, 32),
    "lrn": (layer("LRN", X, X, size=5), ONE + (2 + 2 * 8) * 36, 4 * ONE),
    "normalize": (layer("caffe::Normalize", X, X, (8,)), ONE + (2 + 2 * 8) * 36, 4 * ONE),
    "sum": (layer("Sum", X, X), ONE, 4 * ONE),
    "max": (layer("Max", X, X), ONE, 4 * ONE),
    "scale": (layer("caffe::Scale", X, X, (8,)), ONE, 4 * ONE),
    "axpy": (layer("caffe::Axpy", X, X), 2 * ONE, 4 * ONE),
    "interp": (layer("Resize", X, (2, 8, 12, 12)), 4 * 4 * ONE, 16 * ONE),
    "batch norm": (layer("BatchNormalization", X, X, *[(8,)] * 4), 0, 4 * ONE),
    **{op: (layer(op, X, X), 0, 4 * ONE) for op in ("Softmax", "Sigmoid", "Concat", "Reshape", "Transpose")},
    "tanh": (layer("Tanh", X, X), None, 4 * ONE),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str) -> None:
    graph, flops, feature_memory = ROWS[name]
    (found,) = figures(graph, full=True)["layers"]
    assert (found["flops"], found["feature_memory"]) == (flops, feature_memory)


@pytest.mark.parametrize(
    ("graph", "flops", "params", "features"),
    [
        (alexnet(), 728800924, "232.6", "4.8"),
        (alexnet(lrn=False), 727362344, "232.6", "3.0"),
        (alexnet(10), 728800924, "232.6", "4.8"),
        (vgg16(), 15523175400, "527.8", "57.6"),
    ],
    ids=["alexnet", "alexnet without lrn", "a batch of ten", "vgg-vd-16"],
)
def test_published_figures(graph: Graph, flops: int, params: str, features: str) -> None:
    found = figures(graph)
    assert found["flops"] == found["total"] == flops
    assert (f"{found['param_memory'] / 2**20:.1f}", f"{found['feature_memory'] / 2**20:.1f}") == (params, features)


def test_the_short_report() -> None:
    profile = flopwise.profile(alexnet(lrn=False), convention="convnet-burden")
    told = [" ".join(line.split()) for line in as_text(classes_report(profile), look=Look(human=True)).splitlines()]
    assert told[4:7] == [
        "Memory used by params 233 MB",
        "Memory consumed by full feats 3 MB",
        "Estimated total flops 727 MFLOPS",
    ]
    exact = as_text(classes_report(profile))
    assert all(figure in exact for figure in ("243,860,896", "3,130,944", "727,362,344"))


def test_csv_has_a_line_for_each_figure() -> None:
    profile = flopwise.profile(alexnet(), convention="convnet-burden")
    assert as_text(classes_report(profile), "csv").splitlines() == [
        "figure,count,unknown,convention,unit",
        "param_memory,243860896,0,convnet-burden,FLOP",
        "feature_memory,5039040,0,convnet-burden,FLOP",
        "flops,728800924,0,convnet-burden,FLOP",
    ]


def _normalised(between: str | None = None) -> Graph:
    net = Net("net", 2, 3, 8, 8)
    net.add("caffe::BatchNorm", "bn", weights=[net.weight(n, 3, kind="buffer") for n in ("mean", "variance")])
    if between:
        net.add(between, "between")
    net.add("caffe::Scale", "scale", weights=[net.weight("gamma", 3), net.weight("beta", 3)])
    return net.graph()


def test_a_scale_behind_a_batch_norm_is_part_of_it() -> None:
    found = figures(_normalised(), full=True)
    assert found["flops"] == 0
    assert found["feature_memory"] == 4 * 3 * 64
    assert found["param_memory"] == 4 * (6 + 6)
    assert figures(_normalised("Relu"))["flops"] == 3 * 3 * 64


def test_own_rules_win() -> None:
    profile = flopwise.profile(
        _normalised(), convention="convnet-burden", rules={"caffe::Scale": lambda node: flopwise.Counts(mul=10)}
    )
    assert profile.rows[1].count == 5


def test_what_stops_the_tool_is_unknown() -> None:
    net = Net("net", 1, 3, 8, 8)
    net.conv("conv", 4, 3)
    net.add("Tanh", "tanh")
    found = figures(net.graph())
    assert found["coverage"]["unknown"] == {"Tanh": 1}
    assert "≥ 4,032" in as_text(classes_report(flopwise.profile(net.graph(), convention="convnet-burden")))


@pytest.mark.parametrize(
    ("number", "bytes", "flops"),
    [(0, "0 B", "0  FLOPS"), (1023, "1023 B", "1 KFLOPS"), (1024, "1 KB", "1 KFLOPS"), (10**15, "909 TB", "1 PFLOPS")],
)
def test_human(number: int, bytes: str, flops: str) -> None:
    assert memory(number) == bytes
    assert operations(number) == flops


#: Network, its side -> operations, MiB of parameters, MiB of features.
NETWORKS: list[tuple[str, int, int, str, str]] = [
    ("bvlc_reference_caffenet", 224, 723874060, "232.6", "3.4"),
    ("bvlc_googlenet", 224, 1600525816, "26.7", "25.5"),
    ("resnet50", 224, 3884069864, "97.7", "102.6"),
    ("mobilenet_v1", 224, 578876904, "16.2", "38.5"),
]


@pytest.mark.parametrize(("name", "side", "flops", "params", "features"), NETWORKS, ids=[n[0] for n in NETWORKS])
def test_published_networks(tmp_path: Path, name: str, side: int, flops: int, params: str, features: str) -> None:
    path = written(tmp_path, name)
    profile = flopwise.profile(path, {"data": (1, 3, side, side)}, convention="convnet-burden")
    found = json.loads(as_text(classes_report(profile), "json"))
    assert found["flops"] == flops
    assert (f"{found['param_memory'] / 2**20:.1f}", f"{found['feature_memory'] / 2**20:.1f}") == (params, features)
