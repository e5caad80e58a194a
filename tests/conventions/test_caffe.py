"""The per-layer Caffe script: its table, what it lists, and what it leaves out."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from tests.caffe_networks import written
from tests.conventions.caffe_nets import ALEXNET_TABLE, Net, alexnet
from tests.conventions.nodes import Shapes, node, total

import flopwise
from flopwise.conventions.caffe import CAFFE
from flopwise.graph import Graph, Node, Tensor
from flopwise.report.commands.flops import classes_report
from flopwise.report.report import as_text
from flopwise.report.sheet.sheet import Look


def stored(op: str, x: tuple[int, ...], w: tuple[int, ...], y: tuple[int, ...], origin: str = "", **attrs: Any) -> Node:
    """A layer with a weight."""
    inputs = (Tensor("x", x, "float32"), Tensor("w", w, "float32", "weight"))
    return Node(op, "layer", inputs, (Tensor("y", y, "float32"),), attrs, origin=origin)


def lines(graph: Graph, full: bool = False, human: bool = False) -> list[str]:
    """The lines of the report that bear anything, with single spaces."""
    text = as_text(classes_report(flopwise.profile(graph, convention="caffe"), full), look=Look(human))
    return [" ".join(line.split()) for line in text.splitlines() if line.strip("─ ")]


def content(graph: Graph) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(as_text(classes_report(flopwise.profile(graph, convention="caffe")), "json"))
    return found


def test_the_classic_table() -> None:
    table = lines(alexnet())
    assert table[1 : 1 + len(ALEXNET_TABLE)] == ALEXNET_TABLE
    assert table[0].endswith("convention caffe, unit MAC")


def test_every_digit_whatever_is_asked_for() -> None:
    assert lines(alexnet(), full=True) == lines(alexnet())
    assert lines(alexnet(), human=True) == lines(alexnet())


def test_json_and_csv() -> None:
    found = content(alexnet())
    assert (found["layers_num"], found["params"], found["flops"]) == (8, 60954656, 724406816)
    assert found["total"] == found["flops"]
    assert found["layers"][1] == {
        "name": "conv2",
        "filter_shape": [256, 48, 5, 5],
        "output_size": [1, 256, 27, 27],
        "params": 307200,
        "flops": 223948800,
        "total": 223948800,
    }
    text = as_text(classes_report(flopwise.profile(alexnet(), convention="caffe")), "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert sum(int(row["flops"]) for row in rows) == 724406816
    assert rows[0] == {
        "name": "conv1",
        "filter_shape": "96x3x11x11",
        "output_size": "1x96x55x55",
        "params": "34848",
        "flops": "105415200",
        "ratio": "14.5519",
        "convention": "caffe",
        "unit": "MAC",
    }


@pytest.mark.parametrize("format", ["markdown", "latex"])
def test_documents_have_a_line_of_totals(format: str) -> None:
    text = as_text(classes_report(flopwise.profile(alexnet(), convention="caffe")), format)
    assert "(96, 3, 11, 11)" in text
    assert "60954656" in text
    assert "Layers num: 8" in text


def test_the_batch_does_not_count() -> None:
    assert content(alexnet(10))["flops"] == content(alexnet(1))["flops"]
    assert "(10, 96, 55, 55)" in as_text(classes_report(flopwise.profile(alexnet(10), convention="caffe")))


ROWS: list[tuple[Node, int | None]] = [
    (stored("Conv", (2, 8, 9, 9), (16, 8, 3, 3), (2, 16, 7, 7), "Convolution"), 16 * 8 * 9 * 49),
    (stored("Conv", (2, 8, 9, 9), (8, 1, 3, 3), (2, 8, 7, 7), "DepthwiseConvolution", group=8), 8 * 9 * 49),
    (stored("Conv", (2, 8, 9, 9), (8, 1, 3, 3), (2, 8, 7, 7), "ConvolutionDepthwise", group=8), 0),
    (stored("Conv", (2, 8, 9), (16, 8, 3), (2, 16, 7)), 16 * 8 * 3 * 7),
    (stored("Conv", (2, 8, 9, 9, 9), (16, 8, 3, 3, 3), (2, 16, 7, 7, 7)), None),  # a blob of 5 axes has no width
    (stored("Gemm", (2, 8), (16, 8), (2, 16), "InnerProduct", transB=1), 16 * 8),
    (stored("Gemm", (5, 2, 8), (16, 8), (5, 2, 16), "InnerProduct"), 16 * 8 * 16),  # axis 2: 16 passes for a height
    (stored("MatMul", (2, 8), (8, 16), (2, 16)), 16 * 8),
    (stored("MatMul", (5, 2, 8), (8, 16), (5, 2, 16)), None),
    (stored("ConvTranspose", (2, 8, 4, 4), (8, 4, 2, 2), (2, 4, 8, 8), "Deconvolution"), 0),
    (stored("caffe::Embed", (2, 8), (100, 4), (2, 8, 4), "Embed"), None),
]


@pytest.mark.parametrize(("one", "flops"), ROWS, ids=lambda v: f"{v.op} {v.origin}" if isinstance(v, Node) else str(v))
def test_rows(one: Node, flops: int | None) -> None:
    if one.op == "caffe::Embed":
        assert CAFFE.view(one, flopwise.Counts()) == flopwise.Counts()
    else:
        assert total("caffe", one) == flops


@pytest.mark.parametrize("shapes", [([(2, 3), (3, 4)], [(2, 4)])])
def test_a_product_of_two_activations_is_no_layer(shapes: tuple[Shapes, Shapes]) -> None:
    assert total("caffe", node("MatMul", *shapes)) is None
    assert total("caffe", node("Relu", [(2, 3)], [(2, 3)])) == 0


def test_what_is_unknown_stays_unknown() -> None:
    net = Net("mystery", 1, 3, 8, 8)
    net.conv("conv", 4, 3)
    net.add("caffe::Mystery", "mystery", origin="Mystery")
    found = content(net.graph())
    assert found["coverage"]["unknown"] == {"caffe::Mystery": 1}
    text = "\n".join(lines(net.graph()))
    assert "Total number of FLOPs ≥ 3888" in text
    assert "unknown: caffe::Mystery at 'mystery'" in text


def test_shared_weights_count_in_each_layer() -> None:
    net = Net("twins", 1, 3, 8, 8)
    first = net.conv("conv", 4, 3)
    net.add("Conv", "conv_p", (1, 4, 6, 6), net.nodes[0].known_inputs[1:], "Convolution", [net.data])
    found = content(net.graph())
    assert first.dims == (1, 4, 6, 6)
    assert (found["params"], found["layers_num"]) == (2 * 4 * 3 * 9, 2)
    assert flopwise.profile(net.graph()).total("params") == 4 * 3 * 9 + 4


def test_layers_that_own_blobs() -> None:
    net = Net("net", 1, 3, 8, 8)
    net.conv("conv", 4, 3, bias=False)
    statistics = [net.weight(n, 4, kind="buffer") for n in ("mean", "variance")]
    net.add("caffe::BatchNorm", "bn", weights=statistics)
    net.add("caffe::Scale", "scale", weights=[net.weight("gamma", 4)])
    net.relu("relu")
    found = content(net.graph())
    assert found["layers_num"] == 3
    assert [layer["name"] for layer in found["layers"]] == ["conv"]


def test_an_onnx_model() -> None:
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_bvlc_alexnet.onnx"
    found = json.loads(as_text(classes_report(flopwise.profile(light, convention="caffe")), "json"))
    assert (found["layers_num"], found["params"], found["flops"]) == (8, 60954656, 654560384)


def test_nothing_listed() -> None:
    net = Net("nothing", 1, 3, 8, 8)
    net.relu("relu")
    found = content(net.graph())
    assert (found["layers"], found["flops"], found["params"], found["layers_num"]) == ([], 0, 0, 0)
    assert "Total number of FLOPs 0" in lines(net.graph())


#: Network -> shapes to give, weights without bias as the script adds them up, multiply-accumulates of one image.
NETWORKS: dict[str, tuple[dict[str, Any], int, int]] = {
    "bvlc_alexnet": ({}, 60954656, 724406816),
    "bvlc_reference_caffenet": ({}, 60954656, 724406816),
    "bvlc_googlenet": ({}, 6990272, 1582671872),
    "bvlc_googlenet_train_val": ({"data": (1, 3, 224, 224), "label": (1,)}, 13365696, 1591044096),
    "lenet": ({}, 430500, 2293000),
    "mnist_siamese": ({}, 430520, 2293020),
    "mnist_siamese_train_test": ({"pair_data": (1, 2, 28, 28), "sim": (1,)}, 2 * 430520, 4586040),
    "resnet50": ({}, 25502912, 3857973248),
    "mobilenet_v1": ({}, 4209088, 568740352),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_published_networks(tmp_path: Path, name: str) -> None:
    inputs, params, flops = NETWORKS[name]
    profile = flopwise.profile(written(tmp_path, name), inputs or None, convention="caffe")
    found = json.loads(as_text(classes_report(profile), "json"))
    assert (found["params"], found["flops"]) == (params, flops)
