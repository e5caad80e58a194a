"""Small models around given weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
from onnx import TensorProto, helper, numpy_helper


def model(nodes: list[Any], inputs: dict[str, tuple[int, ...]], weights: dict[str, Any], dtype: int = 1) -> bytes:
    """An ONNX model: the last node's first output is the model's; ``weights`` holds arrays and tensor messages."""
    stored = [w if isinstance(w, TensorProto) else numpy_helper.from_array(w, n) for n, w in weights.items()]
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in inputs.items()],
        [helper.make_empty_tensor_value_info(nodes[-1].output[0])],
        stored,
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()


def matmul(weight: Any) -> bytes:
    """y = x @ w for w of any rank from 2 on."""
    x = (*weight.shape[:-2], 3, weight.shape[-2])
    kind = helper.np_dtype_to_tensor_dtype(weight.dtype)
    return model([helper.make_node("MatMul", ["x", "w"], ["y"], name="fc")], {"x": x}, {"w": weight}, kind)


def conv(weight: Any, **attributes: Any) -> bytes:
    """A convolution with w of any rank from 3 on, over an image of twice the kernel."""
    groups = attributes.get("group", 1)
    x = (1, weight.shape[1] * groups, *(2 * k for k in weight.shape[2:]))
    kind = helper.np_dtype_to_tensor_dtype(weight.dtype)
    return model([helper.make_node("Conv", ["x", "w"], ["y"], name="c", **attributes)], {"x": x}, {"w": weight}, kind)


def scattered(shape: tuple[int, ...], share: float, seed: int = 0) -> Any:
    """float32 with a share of zeros at random places."""
    random = numpy.random.default_rng(seed)
    values = random.standard_normal(shape).astype(numpy.float32)
    values[random.random(shape) < share] = 0
    return values


def in_blocks(shape: tuple[int, int], block: tuple[int, int], share: float, seed: int = 0) -> Any:
    """float32 with a share of blocks of zeros; the block divides the shape."""
    random = numpy.random.default_rng(seed)
    grid = random.random((shape[0] // block[0], shape[1] // block[1])) < share
    values = random.standard_normal(shape).astype(numpy.float32)
    values[numpy.kron(grid, numpy.ones(block)) > 0] = 0
    return values


def two_of_four(shape: tuple[int, int], seed: int = 0) -> Any:
    """float32 with the two largest of each four neighbours in a row kept."""
    values = numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float32)
    groups = values.reshape(-1, 4)
    numpy.put_along_axis(groups, numpy.abs(groups).argsort(axis=1)[:, :2], 0, axis=1)
    return groups.reshape(shape)


def node_of(op: str, inputs: list[str], output: str) -> Any:
    """An operator with a name of its own."""
    return helper.make_node(op, inputs, [output], name=f"{op}_{output}")


def caffe_net(folder: Path) -> tuple[Path, Any]:
    """A Caffe net of one convolution (4 filters of 3 × 3 × 3 over 3 × 8 × 8), its file of weights, and the weight."""
    from tests.formats.caffe.caffemodel import caffemodel

    net = folder / "net.prototxt"
    net.write_text(
        'name: "net" input: "data" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }\n'
        'layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"\n'
        "  convolution_param { num_output: 4 kernel_size: 3 } }\n"
    )
    stored = numpy.random.default_rng(0).uniform(0.1, 1.0, 108).astype("<f4")
    pruned = stored.copy()
    pruned[numpy.random.default_rng(1).random(108) < 0.6] = 0
    content = caffemodel([("conv", "Convolution", [(4, 3, 3, 3), (4,)])])
    net.with_suffix(".caffemodel").write_bytes(content.replace(stored.tobytes(), pruned.tobytes()))
    return net, pruned
