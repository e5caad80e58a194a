"""Windows of pools that round up or pad to the same size, beside what onnxruntime makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.formats.models import ints, model, node, shapes

import flopwise
from flopwise.api.read import read

BEHIND: dict[str, Any] = {"kernel_shape": [2], "strides": [3], "ceil_mode": 1}


def settings(op: str, opset: int, extent: int) -> Iterator[dict[str, Any]]:
    """Those of pools that onnxruntime runs over an image of this extent."""
    dilated = op == "MaxPool" or opset >= 19 or (op == "LpPool" and opset >= 18)
    for kernel, stride, dilation in product((1, 2, 3), (1, 2, 3, 4), (1, 2) if dilated else (1,)):
        held: dict[str, Any] = {"kernel_shape": [kernel], "strides": [stride], "ceil_mode": 1}
        if dilated:
            held["dilations"] = [dilation]
        reach = dilation * (kernel - 1) + 1
        for before, after in product(range(kernel), repeat=2):
            if extent + before + after >= reach:
                yield {**held, "pads": [before, after]}
        if extent >= reach:
            yield {**held, "auto_pad": "VALID"}
        if dilation == 1 and opset >= 12 and kernel >= stride:  # else it may pad by less than nothing, which it refuses
            yield {**held, "auto_pad": "SAME_UPPER"}
            yield {**held, "auto_pad": "SAME_LOWER"}


@pytest.mark.parametrize(
    ("op", "opset"),
    [
        *(("MaxPool", opset) for opset in (10, 11, 12, 22)),
        *(("AveragePool", opset) for opset in (10, 11, 19, 22)),
        *(("LpPool", opset) for opset in (18, 22)),
    ],
)
def test_as_onnxruntime(op: str, opset: int) -> None:
    runtime = pytest.importorskip("onnxruntime")
    for extent in (1, 2, 3, 6, 7, 12):
        pools = [helper.make_node(op, ["x"], [f"y{i}"], **a) for i, a in enumerate(settings(op, opset, extent))]
        graph = helper.make_graph(
            pools,
            "pools",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, extent])],
            [helper.make_tensor_value_info(pool.output[0], TensorProto.FLOAT, None) for pool in pools],
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        options = runtime.SessionOptions()
        options.log_severity_level = 4  # what onnx infers is not what comes out, which it would say of each
        session = runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results = session.run(None, {"x": numpy.ones((1, 1, extent), numpy.float32)})
        assert [t.shape for t in read(proto).outputs] == [result.shape for result in results]


def made(*nodes: onnx.NodeProto, x: tuple[int, ...], opset: int = 17, stored: Any = ()) -> dict[str, Any]:
    graph = read(model(list(nodes), {"x": x}, list(stored), opset=opset))
    assert graph.warnings == ()
    return shapes(graph)


def test_what_follows_has_the_right_shape() -> None:
    pools = node("MaxPool", "x", "p indices", **BEHIND), node("AveragePool", "p", "q", **BEHIND)
    flat = node("Shape", "p", "s"), node("Gather", "s two", "n", axis=0), node("Concat", "one n", "t", axis=0)
    found = made(*pools, *flat, node("Reshape", "p t", "y"), x=(1, 1, 12), stored=[ints("one", 1), ints("two", 2)])
    assert [found[name] for name in ("p", "indices", "q", "y")] == [(1, 1, 4), (1, 1, 4), (1, 1, 2), (1, 4)]


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_of_nothing_there_is_no_window(op: str) -> None:
    pool = node(op, "x", "y", kernel_shape=[1], strides=[2], auto_pad="SAME_UPPER")
    assert shapes(read(model([pool], {"x": (1, 1, 0)})))["y"] == (1, 1, 0)


def test_each_axis_by_itself() -> None:
    pool = node("MaxPool", "x", "y", kernel_shape=[2, 3], strides=[3, 2], ceil_mode=1)
    assert made(pool, x=(1, 1, 6, 6))["y"] == (1, 1, 2, 3)


def test_in_a_branch() -> None:
    def branch(name: str) -> onnx.GraphProto:
        output = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node("MaxPool", ["x"], [name], **BEHIND)], name, [], [output])

    condition = node("Constant", "", "c", value=helper.make_tensor("c", TensorProto.BOOL, [], [True]))
    either = node("If", "c", "z", then_branch=branch("a"), else_branch=branch("b"))
    assert made(condition, either, node("Relu", "z", "y"), x=(1, 1, 6))["y"] == (1, 1, 2)


def test_a_file_that_says_otherwise_is_contradicted() -> None:
    proto = model([node("MaxPool", "x", "p", **BEHIND), node("Relu", "p", "y")], {"x": (1, 1, 6)})
    proto.graph.value_info.append(helper.make_tensor_value_info("p", TensorProto.FLOAT, [1, 1, 3]))
    graph = read(proto)
    assert shapes(graph)["y"] == (1, 1, 2)
    assert [w for w in graph.warnings if "has shape (1, 1, 3)" in w and "gives (1, 1, 2)" in w]


def test_windows_that_make_no_sense_are_left_to_onnx() -> None:
    several: list[dict[str, Any]] = [{"strides": [0]}, {"strides": [3, 3]}, {"pads": [1]}, {"dilations": [1, 1]}]
    for wrong in several:
        counted = flopwise.profile(model([node("MaxPool", "x", "y", **{**BEHIND, **wrong})], {"x": (1, 1, 6)}))
        assert all("\n" not in note for note in counted.notes)


@pytest.mark.parametrize("size", [2, 5, 6, 7, 8, 12, 13, 14, 40])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_transposed_convolutions_of_a_stated_extent(size: int, stride: int) -> None:
    runtime = pytest.importorskip("onnxruntime")
    convolution = node("ConvTranspose", "x w", "y", strides=[stride], output_shape=[size])
    weight = numpy_helper.from_array(numpy.ones((2, 3, 3), numpy.float32), "w")
    proto = model([convolution, node("Relu", "y", "z")], {"x": (1, 2, 6)}, [weight])
    assert shapes(read(proto))["z"] == (1, 3, size)
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {"x": numpy.ones((1, 2, 6), numpy.float32)}
    if size > 6 * stride + 2:  # more than there is to cut from
        with pytest.raises(Exception, match="output_shape is inconsistent"):
            session.run(["z"], feeds)
    else:
        assert session.run(["z"], feeds)[0].shape == (1, 3, size)
