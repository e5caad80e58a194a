"""Small models whose costs are easy to see."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper


def model(
    nodes: Sequence[NodeProto],
    inputs: dict[str, Sequence[int]],
    outputs: Sequence[str],
    weights: dict[str, Sequence[int]] | None = None,
    integers: Sequence[str] = (),
    domains: Sequence[str] = (),
) -> bytes:
    """A model of float32 tensors; the inputs named in ``integers`` are int64. Weights are random and fixed."""
    random = np.random.default_rng(0)
    infos = [
        helper.make_tensor_value_info(name, TensorProto.INT64 if name in integers else TensorProto.FLOAT, shape)
        for name, shape in inputs.items()
    ]
    stored = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
        for name, shape in (weights or {}).items()
    ]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    graph = helper.make_graph(list(nodes), "small", infos, made, stored)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def chain(layers: int = 3, size: int = 64, batch: int = 8) -> bytes:
    """Products and activations in turn: batch x size, ``layers`` square weights."""
    nodes = []
    for i in range(layers):
        nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"h{i}"], name=f"fc{i}"))
        nodes.append(helper.make_node("Relu", [f"h{i}"], [f"x{i + 1}"], name=f"act{i}"))
    weights = {f"w{i}": (size, size) for i in range(layers)}
    return model(nodes, {"x0": (batch, size)}, [f"x{layers}"], weights)
