"""A model in memory gives the same graph as its file, and its weights are neither serialised nor copied."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import helper
from tests.formats.models import LIGHT, array, conv_net, model, node, value, weight
from tests.formats.onnx.file.test_walk import holders, stored_as
from tests.onnx_suite.cases import made

from flopwise.api.read import read
from flopwise.errors import ModelError
from flopwise.formats.kit.tensors import Skeleton
from flopwise.formats.onnx import memory
from flopwise.formats.onnx.memory import MessageSource
from flopwise.formats.onnx.walk import read_skeleton
from flopwise.formats.sources.source import BytesSource


def described(skeleton: Skeleton) -> Any:
    """What both ways of making a skeleton must agree on."""
    proto = onnx.ModelProto.FromString(skeleton.model)
    stored = [{k: (s.dims, s.dtype) for k, s in part.items()} for part in (skeleton.initializers, skeleton.inner)]
    return proto.graph.node, proto.graph.input, proto.graph.output, proto.functions, proto.opset_import, stored


@pytest.mark.parametrize("kind", ["raw_data", "float_data", "int64_data"])
def test_the_same_as_from_the_file(kind: str) -> None:
    for net in (conv_net(), *holders(stored_as(kind)).values()):
        assert described(read_skeleton(MessageSource(net))) == described(
            read_skeleton(BytesSource(net.SerializeToString()))
        )


@pytest.mark.parametrize("whole", [0, 1 << 12])
def test_the_bytes_are_those_of_the_message(whole: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "WHOLE", whole)
    kinds = ["raw_data", "float_data", "double_data", "int32_data", "int64_data", "uint64_data", "string_data"]
    nets = [net for kind in kinds for net in holders(stored_as(kind, size=300)).values()]
    for net in (conv_net(), *nets, *(case.model for case in made()[::9])):
        source = MessageSource(net)
        assert onnx.ModelProto.FromString(source.read(0, source.size)) == net
        parts = [source.read(at, min(97, source.size - at)) for at in range(0, source.size, 97)]
        assert b"".join(parts) == source.read(0, source.size)


def test_a_model_that_changes_after_it_was_read() -> None:
    net = model([node("MatMul", "x w", "y")], {"x": (1, 200)}, [weight("w", 200, 200)])
    graph = read(net)
    net.graph.initializer[0].raw_data = b"1234"
    with pytest.raises(ModelError, match="'w' takes 160000 bytes, but 4 are stored"):
        graph.weights["w"].array()


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
    assert len(read_skeleton(MessageSource(net)).model) < 2000
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
