"""The modules around a node, as PyTorch's exporters write them down."""

from __future__ import annotations

import onnx
import pytest
from tests.formats.models import model, node

from flopwise.api.read import read
from flopwise.formats.kit.build import scope_of
from flopwise.formats.kit.program import Attributes, Node, Operation
from flopwise.graph import Module


def as_read(made: onnx.NodeProto) -> Node:
    """The node as the reader has it."""
    held = {a.name: onnx.helper.get_attribute_value(a) for a in made.attribute}
    attributes = Attributes.of({name: tuple(v) if isinstance(v, list) else v for name, v in held.items()})
    notes = tuple(entry.SerializeToString() for entry in made.metadata_props)
    return Node(Operation(made.op_type, "", attributes), made.name, tuple(made.input), tuple(made.output), notes)


def noted(scopes: str, classes: str) -> onnx.NodeProto:
    found = node("Conv", "x w", "y", "node_conv2d")
    found.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    if classes:
        found.metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value=classes)
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", []),
        ("Conv_12", []),
        ("/Conv", []),
        ("/conv1/Conv", ["conv1"]),
        ("/layer1/layer1.0/conv1/Conv", ["layer1", "layer1.0", "layer1.0.conv1"]),
        (
            "/encoder/layer.11/attention/self/query/MatMul",
            [
                "encoder",
                "encoder.layer.11",
                "encoder.layer.11.attention",
                "encoder.layer.11.attention.self",
                "encoder.layer.11.attention.self.query",
            ],
        ),
        ("/a//b/Add_1", ["a", "a.b"]),
        ("model/conv/Conv2D", ["model", "model.conv"]),
    ],
)
def test_paths_in_names(name: str, expected: list[str]) -> None:
    assert scope_of(as_read(node("Op", "x", "y", name))) == (tuple(Module(p, "") for p in expected), "")


@pytest.mark.parametrize(
    ("scopes", "classes", "expected", "origin"),
    [
        (
            "['', 'layer1', 'layer1.0', 'layer1.0.conv1', 'conv2d']",
            "['torchvision.ResNet', 'torch.nn.Sequential', 'torchvision.Bottleneck', 'torch.nn.Conv2d', "
            "'aten.conv2d.default']",
            [("", "ResNet"), ("layer1", "Sequential"), ("layer1.0", "Bottleneck"), ("layer1.0.conv1", "Conv2d")],
            "aten.conv2d.default",
        ),
        ("['', 'fc', 'linear']", "", [("", ""), ("fc", "")], ""),
        ("['linear']", "['aten.linear.default']", [], "aten.linear.default"),
        ("[]", "[]", [], ""),
        ("['', 'a', 'b', 'x']", "['M', 'aten.x']", [("", "M"), ("a", ""), ("b", "")], "aten.x"),
    ],
)
def test_metadata(scopes: str, classes: str, expected: list[tuple[str, str]], origin: str) -> None:
    assert scope_of(as_read(noted(scopes, classes))) == (tuple(Module(*m) for m in expected), origin)


def test_metadata_wins_over_the_name() -> None:
    found = noted("['', 'fc', 'x']", "['M', 'torch.nn.Linear', 'aten.x']")
    found.name = "/other/path/Conv"
    assert [m.path for m in scope_of(as_read(found))[0]] == ["", "fc"]


def test_metadata_that_is_no_text() -> None:
    data = noted("['', 'XX', 'x']", "['M', 'N', 'aten.x']").SerializeToString().replace(b"XX", b"\xff\xff")
    assert scope_of(as_read(onnx.NodeProto.FromString(data)))[1] == "aten.x"


def test_in_a_graph() -> None:
    graph = read(model([node("Relu", "x", "a", "/act/Relu"), noted("['', 'c', 'x']", "['M', 'my.Conv', 'aten.c']")],
        {"x": (1,), "w": (1,)}))  # fmt: skip
    assert [(n.module, n.origin, n.name) for n in graph.nodes] == [
        ("act", "Relu", "/act/Relu"),
        ("c", "aten.c", "node_conv2d"),
    ]


@pytest.mark.parametrize(
    ("op", "weight", "attrs", "expected"),
    [
        ("Conv", "block.conv1.weight", {"strides": [1, 1]}, ("block.conv1", "Conv2d")),
        ("Conv", "block.conv1.weight", {}, ("block.conv1", "")),
        ("ConvTranspose", "block.up.weight", {"kernel_shape": [3]}, ("block.up", "ConvTranspose1d")),
        ("Gemm", "block.fc.weight", {}, ("block.fc", "Linear")),
        ("Mul", "block.conv1.weight", {}, ("block.bn1", "BatchNorm2d")),
        ("Conv", "val_3", {}, ("block.bn1", "BatchNorm2d")),
    ],
)
def test_a_norm_that_is_fused_into_its_convolution(
    op: str, weight: str, attrs: dict[str, list[int]], expected: tuple[str, str]
) -> None:
    found = onnx.helper.make_node(op, ["x", weight], ["y"], "node_Conv_292", **attrs)
    names, classes = "['', 'block', 'block.bn1', 'n']", "['m.Net', 'm.Block', 'torch.nn.BatchNorm2d', 'aten.n']"
    found.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=names)
    found.metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value=classes)
    norm = None if expected[0] == "block.bn1" else ("block.bn1", "BatchNorm2d")
    assert scope_of(as_read(found))[0] == (Module("", "Net"), Module("block", "Block"), Module(*expected, norm))
