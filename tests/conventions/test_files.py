"""Tools of PyTorch programs on files: what the report says, and the calls that an exporter wrote down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.graphs import sketch

import flopwise
from flopwise.conventions import CONVENTIONS
from flopwise.conventions.calls import functions, layers
from flopwise.graph import Graph
from flopwise.profiles.count import profile_graph
from flopwise.report.commands.profile import render

TINY = "examples/tiny_resnet.onnx"

TOOLS = [name for name, convention in CONVENTIONS.items() if convention.sees == "programs"]


def test_tools_of_programs() -> None:
    names = "fvcore torch ptflops-aten ptflops mmcv thop torchstat torchinfo calflops deepspeed"
    assert names.split() == TOOLS


@pytest.mark.parametrize("convention", TOOLS)
def test_the_first_line_says_that_a_file_is_estimated(convention: str) -> None:
    first = render(flopwise.profile(TINY, convention=convention)).splitlines()[0]
    assert f"an estimate, as {convention} counts PyTorch programs and this is a file" in first


def test_what_sees_operators_is_no_estimate() -> None:
    for convention in CONVENTIONS.keys() - set(TOOLS):
        assert "estimate" not in render(flopwise.profile(TINY, convention=convention)).splitlines()[0]


def folded() -> Graph:
    """A convolution into which batch normalisation was folded, as the exporter on torch.export leaves it."""
    shapes = {"x": (1, 3, 8, 8), "conv1.weight": (4, 3, 3, 3), "folded": (4,), "a": (1, 4, 6, 6), "y": (1, 4, 6, 6)}
    made = sketch(shapes, **{"x": "input", "conv1.weight": "weight", "folded": "weight"})  # type: ignore[arg-type]
    made.node("Conv", "x conv1.weight folded", "a", "conv", ":ResNet bn1:BatchNorm2d")
    made.node("Relu", "a", "y", "act", ":ResNet relu:ReLU")
    return made.graph()


def test_folded_batch_normalisation_counts_where_it_was() -> None:
    graph = folded()
    assert [(layer.path, layer.kind) for layer in layers(graph)] == [
        *(("conv1", "Conv2d"), ("bn1", "BatchNorm2d"), ("relu", "ReLU"))
    ]
    products, elements = 4 * 36 * 27, 4 * 36
    thop = profile_graph(graph, CONVENTIONS["thop"])
    assert thop.total("count") == products + 4 * elements
    assert "1 batch normalisations are folded into convolutions; they are counted where they were" in thop.notes
    assert profile_graph(graph, CONVENTIONS["torchstat"]).total("count") == products + elements * (2 + 1)


def attention() -> Graph:
    """Attention of itself, taken apart: the projection of all three, two products around a softmax, a projection."""
    shapes: dict[str, Any] = {
        "x": (2, 5, 8),
        "t": (5, 2, 8),
        "in": (8, 24),
        "p": (5, 2, 24),
        "q": (2, 4, 5, 2),
        "s": (2, 4, 5, 5),
        "soft": (2, 4, 5, 5),
        "o": (2, 4, 5, 2),
        "at.out_proj.weight": (8, 8),
        "y": (10, 8),
    }
    made = sketch(shapes, x="input", **{"in": "weight", "at.out_proj.weight": "weight"})  # type: ignore[arg-type]
    for op, inputs, output in (
        *(("Transpose", "x", "t"), ("MatMul", "t in", "p"), ("Reshape", "p", "q"), ("MatMul", "q q", "s")),
        *(("Softmax", "s", "soft"), ("MatMul", "soft q", "o"), ("Gemm", "o at.out_proj.weight", "y")),
    ):
        made.node(op, inputs, output, "", ":Model at:MultiheadAttention")
    return made.graph()


def test_the_products_inside_an_attention_are_not_linear_layers() -> None:
    graph = attention()
    (layer,) = layers(graph)
    assert (layer.kind, layer.options["num_heads"], layer.options["batch_first"]) == ("MultiheadAttention", 4, True)
    assert profile_graph(graph, CONVENTIONS["thop"]).total("count") == 0
    assert profile_graph(graph, CONVENTIONS["torchinfo"]).total("count") == 0
    assert {name for node in graph.nodes for name in functions(node)} == {"linear"}
    assert any("1 of them are taken apart" in note for note in profile_graph(graph, CONVENTIONS["thop"]).notes)


@pytest.mark.exports
@pytest.mark.parametrize("convention", ["thop", "torchstat", "torchinfo"])
def test_an_export_counts_as_its_module(convention: str, tmp_path: Path) -> None:
    """What the exporter on torch.export writes: batch normalisation folded, attention taken apart."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    nn = torch.nn
    image = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    encoder = nn.Sequential(nn.Linear(16, 32), nn.TransformerEncoderLayer(32, 4, 64, batch_first=True))
    for module, shape in ((image, (1, 3, 12, 12)), (encoder, (2, 7, 16))):
        module.eval()
        path = tmp_path / "model.onnx"
        torch.onnx.export(module, (torch.randn(shape),), path, dynamo=True, verbose=False)
        of_file, of_module = (flopwise.profile(m, i, convention=convention) for m, i in ((path, None), (module, shape)))
        assert of_file.total("count") == of_module.total("count")
