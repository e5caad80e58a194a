"""Names of layers, and what people call them."""

from __future__ import annotations

import pytest

from flopwise.graph import Graph, Module, Node, Program
from flopwise.graph.names import layer_kind, layer_names


def exported(name: str, path: str, op: str = "Relu", origin: str = "aten.relu.default") -> Node:
    """A node as PyTorch's exporter writes it down."""
    parts = path.split(".") if path else []
    scope = (Module("", "Net"), *(Module(".".join(parts[: i + 1]), "M") for i in range(len(parts))))
    return Node(op, name, (), (), modules=scope, origin=origin)


def test_numbered_nodes_go_by_the_path_of_their_module() -> None:
    nodes = [
        exported("node_Conv_292", "layer1.0.conv1", "Conv", "aten._native_batch_norm_legit_no_training.default"),
        exported("node_relu", "layer1.0.relu"),
        exported("node_add", "layer1.0", "Add", "aten.add.Tensor"),
        exported("node_relu_1", "layer1.0.relu"),
        exported("node_mean", "", "ReduceMean", "aten.mean.dim"),
        exported("node_pow_1", "norm", "Pow", "aten.pow.Tensor_Scalar"),
        exported("node_mul_3", "norm", "Mul", "aten.mul.Tensor"),
        exported("node_mul_4", "norm", "Mul", "aten.mul.Tensor"),
        exported("node_Cast_9", "norm", "Cast", ""),
    ]
    assert layer_names(nodes) == [
        "layer1.0.conv1",
        "layer1.0.relu",
        "layer1.0.add",
        "layer1.0.relu:2",
        "mean",
        "norm.pow",
        "norm.mul",
        "norm.mul:2",
        "norm.cast",
    ]


def test_other_names_stay() -> None:
    nodes = [
        Node("Conv", "/conv1/Conv", (), (), modules=(Module("conv1", ""),)),
        Node("Conv", "", (), ()),
        Node("Relu", "node_x", (), ()),  # nothing says which module it is in
        Node("Add", "stem", (), ()),
        exported("node_Relu_1", "stem"),
    ]
    assert layer_names(nodes) == ["/conv1/Conv", "conv_2", "node_x", "stem", "node_Relu_1"]


@pytest.mark.parametrize(
    ("origin", "kind"),
    [
        ("aten.linear", "Linear"),
        ("aten.embedding.default", "Embedding"),
        ("aten.layer_norm", "LayerNorm"),
        ("aten.scaled_dot_product_attention", "SDPA"),
        ("aten::silu", "silu"),
        ("aten.add_.Tensor", "add"),
        ("torchvision.nms", "Op"),
        ("", "Op"),
    ],
)
def test_kinds_in_the_words_of_the_framework(origin: str, kind: str) -> None:
    node = Node("Op", "x", (), (), origin=origin)
    assert layer_kind(node, Graph("m", "torch", "", (), (), (node,), program=Program())) == kind
    assert layer_kind(node, Graph("m", "onnx", "", (), (), (node,))) == "Op"
