"""Cases that repeat are inferred once, with the answers of onnx's inference of the whole model."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from flopwise.readers.onnx.native.inference import Inference
from flopwise.readers.onnx.read import resolve_onnx
from flopwise.readers.onnx.shapes import repeated

NodeList = list[onnx.NodeProto]


def model(nodes: NodeList, output: onnx.ValueInfoProto | None = None, ir_version: int = 8) -> onnx.ModelProto:
    stored = {"w": numpy.ones((3, 3), "f"), "b": numpy.ones(3, "f"), "s": numpy.array([2, 3]), "t": numpy.array([3, 2])}
    tensors = [numpy_helper.from_array(value, name) for name, value in stored.items()]
    ends = [helper.make_tensor_value_info("x", 1, [2, 3])], [output or onnx.ValueInfoProto(name=nodes[-1].output[0])]
    graph = helper.make_graph(nodes, "g", *ends, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir_version)


def blocks(count: int) -> NodeList:
    """Layers that reshape by a Constant's elements, and twice by stored ones of the same type."""
    nodes: NodeList = []
    last = "x"
    for i in range(count):
        constant = numpy_helper.from_array(numpy.array([6 if i % 2 else 1, -1]))
        nodes += [
            helper.make_node("MatMul", [last, "w"], [f"m{i}"], name=f"m{i}"),
            helper.make_node("Add", [f"m{i}", "b"], [f"a{i}"], name=f"a{i}"),
            helper.make_node("Constant", [], [f"c{i}"], value=constant),
            helper.make_node("Reshape", [f"a{i}", f"c{i}"], [f"r{i}"]),
            helper.make_node("Reshape", [f"r{i}", "t"], [f"q{i}"]),
            helper.make_node("Split", [f"q{i}"], ["", f"h{i}"], axis=0)
            if i == 7
            else helper.make_node("Not", [""], []),
            helper.make_node("Reshape", [f"q{i}", "s"], [f"z{i}"]),
        ]
        last = f"z{i}"
    return nodes


def growing(count: int) -> NodeList:
    names = ["x", *(f"y{i}" for i in range(count))]
    return [helper.make_node("Concat", [a, "x"], [b], axis=0) for a, b in itertools.pairwise(names)]


def with_open_extents(count: int) -> NodeList:
    nodes = [helper.make_node("NonZero", ["x"], ["n"]), helper.make_node("Transpose", ["n"], ["y0"])]
    return nodes + [helper.make_node("Relu", [f"y{i}"], [f"y{i + 1}"]) for i in range(count)]


def with_shape_arithmetic(count: int) -> NodeList:
    nodes: NodeList = []
    for i in range(count):
        nodes += [
            helper.make_node("Shape", [f"y{i - 1}" if i else "x"], [f"s{i}"]),
            helper.make_node("Reshape", [f"y{i - 1}" if i else "x", f"s{i}"], [f"y{i}"]),
        ]
    return nodes


@pytest.mark.parametrize("nodes", [blocks, growing, with_open_extents, with_shape_arithmetic])
@pytest.mark.parametrize("ir_version", [3, 8])
def test_as_the_whole_model(nodes: Callable[[int], NodeList], ir_version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    proto = model(nodes(60), ir_version=ir_version)
    names = [name for node in proto.graph.node for name in node.output if name]
    whole = resolve_onnx(proto).shapes
    monkeypatch.setattr(repeated, "MANY", 1)
    monkeypatch.setattr(repeated, "_AT_ONCE", 5)
    part = resolve_onnx(proto).shapes
    assert [(part.shape(n), part.dtype(n)) for n in names] == [(whole.shape(n), whole.dtype(n)) for n in names]
    assert part.warnings == whole.warnings


def test_few_nodes_are_inferred(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    infer = Inference.model

    def watched(self: Inference, part: onnx.ModelProto, strict: bool = False, proven: bool = False) -> onnx.ModelProto:
        seen.append(len(part.graph.node))
        return infer(self, part, strict, proven)

    monkeypatch.setattr(Inference, "model", watched)
    resolve_onnx(model(blocks(repeated.MANY)))
    assert sum(seen) < 3 * repeated.MANY // 2


def test_an_output_of_another_type_than_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    proto = model(blocks(3), helper.make_tensor_value_info("z2", TensorProto.INT64, None))
    whole = resolve_onnx(proto).shapes.type("z2")
    monkeypatch.setattr(repeated, "MANY", 1)
    assert resolve_onnx(proto).shapes.type("z2") == whole


def test_scales_of_their_own_are_no_new_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes: NodeList = []
    stored: list[TensorProto] = []
    for i in range(100):
        scale = numpy_helper.from_array(numpy.array(1.0 + i, "f"))
        stored.append(numpy_helper.from_array(numpy.array(0.5 + i, "f"), f"s{i}"))
        nodes += [
            helper.make_node("Constant", [], [f"c{i}"], value=scale),
            helper.make_node("Mul", [f"a{i - 1}" if i else "x", f"c{i}"], [f"m{i}"]),
            helper.make_node("QuantizeLinear", [f"m{i}", f"s{i}"], [f"q{i}"]),
            helper.make_node("DequantizeLinear", [f"q{i}", f"s{i}"], [f"a{i}"]),
        ]
    proto = model(nodes)
    proto.graph.initializer.extend(stored)
    whole = resolve_onnx(proto).shapes
    seen: list[str] = []
    infer = Inference.model

    def watched(self: Inference, part: onnx.ModelProto, strict: bool = False, proven: bool = False) -> onnx.ModelProto:
        seen.extend(node.op_type for node in part.graph.node if node.op_type != "Constant")
        return infer(self, part, strict, proven)

    monkeypatch.setattr(Inference, "model", watched)
    monkeypatch.setattr(repeated, "MANY", 1)
    monkeypatch.setattr(repeated, "_AT_ONCE", 1)
    part = resolve_onnx(proto).shapes
    assert seen == ["Mul", "QuantizeLinear", "DequantizeLinear"]
    names = [name for node in nodes for name in node.output]
    assert [(part.shape(n), part.dtype(n)) for n in names] == [(whole.shape(n), whole.dtype(n)) for n in names]
