"""Variants of one network: renamed, without batch norm, wider, with a layer more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

Namer = Callable[[int, NodeProto], str]

NAMED: Namer = lambda i, n: f"/block{i}/{n.op_type}"  # noqa: E731 - a table of namers reads better
NUMBERED: Namer = lambda i, n: f"{n.op_type}_{i}"  # noqa: E731
EXPORTED: Namer = lambda i, n: f"node_{n.op_type.lower()}_{i}"  # noqa: E731
UNNAMED: Namer = lambda i, n: ""  # noqa: E731


def network(
    widths: tuple[int, ...] = (8, 8, 16, 16), norm: bool = True, namer: Namer = NAMED, extra: int | None = None
) -> ModelProto:
    """Convolutions, batch norms (or biases in their place) and activations, and a classifier.

    Args:
        widths: channels of each convolution.
        norm: whether there is batch norm; else the convolutions have the biases that it would be folded into.
        namer: name of each operator.
        extra: after which convolution one more stands, of the same width.
    """
    plan = [w for i, w in enumerate(widths) for w in [w] * (2 if i == extra else 1)]
    nodes: list[NodeProto] = []
    stored: list[TensorProto] = []

    def weight(name: str, *shape: int) -> str:
        stored.append(numpy_helper.from_array(np.ones(shape, np.float32), name))
        return name

    last, channels = "x", 3
    for i, width in enumerate(plan):
        inputs = [last, weight(f"w{i}", width, channels, 3, 3), *([] if norm else [weight(f"b{i}", width)])]
        nodes.append(helper.make_node("Conv", inputs, [f"c{i}"], pads=[1, 1, 1, 1]))
        last, channels = f"c{i}", width
        if norm:
            statistics = [weight(f"{s}{i}", width) for s in ("scale", "shift", "mean", "var")]
            nodes.append(helper.make_node("BatchNormalization", [last, *statistics], [f"n{i}"]))
            last = f"n{i}"
        nodes.append(helper.make_node("Relu", [last], [f"r{i}"]))
        last = f"r{i}"
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["p"]))
    nodes.append(helper.make_node("Flatten", ["p"], ["f"]))
    nodes.append(helper.make_node("Gemm", ["f", weight("fc", 10, channels), weight("fb", 10)], ["y"], transB=1))
    for i, node in enumerate(nodes):
        node.name = namer(i, node)
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        stored,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def save(model: ModelProto, path: Path) -> Path:
    onnx.save(model, path)
    return path
