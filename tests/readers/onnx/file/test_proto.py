"""A model in memory gives the same graph as its file, and its weights are neither serialised nor copied."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import helper
from tests.readers.models import LIGHT, array, conv_net, model, node, value, weight
from tests.readers.onnx.file.test_walk import holders, stored_as

from flopwise.api.read import read
from flopwise.errors import ModelError
from flopwise.readers.onnx.file.proto import from_proto
from flopwise.readers.onnx.file.skeleton import Skeleton
from flopwise.readers.onnx.file.walk import read_skeleton
from flopwise.readers.source.source import BytesSource


def described(skeleton: Skeleton) -> Any:
    """What both ways of making a skeleton must agree on."""
    proto = onnx.ModelProto.FromString(skeleton.model)
    stored = [{k: (s.dims, s.dtype) for k, s in part.items()} for part in (skeleton.initializers, skeleton.inner)]
    return proto.graph.node, proto.graph.input, proto.graph.output, proto.functions, proto.opset_import, stored


@pytest.mark.parametrize("kind", ["raw_data", "float_data", "int64_data"])
def test_the_same_as_from_the_file(kind: str) -> None:
    for net in (conv_net(), *holders(stored_as(kind)).values()):
        assert described(from_proto(net)) == described(read_skeleton(BytesSource(net.SerializeToString())))


@pytest.mark.parametrize("path", sorted(LIGHT.glob("*.onnx"))[:3], ids=lambda p: p.stem)
def test_the_same_graph_as_from_the_file(path: Any) -> None:
    from_file, from_memory = read(path), read(onnx.load(path))
    assert from_file.nodes == from_memory.nodes
    assert (from_file.inputs, from_file.outputs) == (from_memory.inputs, from_memory.outputs)
    assert from_file.weights.keys() == from_memory.weights.keys()


def test_the_model_stays_as_it_is() -> None:
    for net in (conv_net(), *holders(stored_as("raw_data")).values()):
        before = net.SerializeToString()
        read(net)
        assert net.SerializeToString() == before


def test_large_weights_are_not_copied() -> None:
    import tracemalloc

    net = model(
        [
            node("Constant", "", "v", value=weight("v", 1000, 1000)),
            node("MatMul", "x w", "a"),
            node("MatMul", "a v", "y"),
        ],
        {"x": (1, 1000)},
        [weight("w", 1000, 1000)],
    )
    body = helper.make_graph([node("Add", "y b", "o")], "b", [], [value("o", None)], [weight("b", 1000, 1000)])
    net.graph.node.append(node("If", "c", "z", then_branch=body, else_branch=body))
    net.graph.input.append(value("c", (), onnx.TensorProto.BOOL))
    tracemalloc.start()
    graph = read(net)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
    assert len(from_proto(net).model) < 2000
    assert graph.weights["w"].array().shape == (1000, 1000)


def test_tensors_that_cannot_exist() -> None:
    for change, told in (
        ({"data_type": 99}, "g: tensor 'w' has the unknown element type 99"),
        ({"dims": [-1]}, r"g: tensor 'w' has a negative dimension: \(-1,\)"),
        ({"dims": [1] * 65}, "g: tensor 'w' has 65 dimensions"),
    ):
        tensor = onnx.TensorProto(**{"name": "w", "data_type": 1, "dims": [1], **change})
        with pytest.raises(ModelError, match=told):
            read(model([node("Relu", "w", "y")], {}, [tensor]))


def test_names_that_are_not_utf8() -> None:
    data = model([node("Relu", "wwww", "y")], {}, [array("wwww", range(20))]).SerializeToString()
    net = onnx.ModelProto.FromString(data.replace(b"wwww", b"\xff\xff\xff\xff"))
    with pytest.raises(ModelError, match="a name is not UTF-8"):
        read(net)
