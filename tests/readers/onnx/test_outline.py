"""Large models are read without the messages of their nodes and stored tensors, with the same result."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from flopwise.errors import FlopwiseError
from flopwise.readers.onnx import read
from flopwise.readers.onnx.file import skeleton
from flopwise.readers.onnx.messages import Messages
from flopwise.readers.onnx.read import read_onnx
from flopwise.readers.onnx.shapes import repeated

Node = onnx.NodeProto
node = helper.make_node


@pytest.fixture
def every_model_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skeleton, "_MUCH", -1)
    monkeypatch.setattr(skeleton, "_PIECE", 50)
    monkeypatch.setattr(read, "MANY", 1)
    monkeypatch.setattr(repeated, "MANY", 1)


@pytest.fixture
def completed(monkeypatch: pytest.MonkeyPatch) -> list[Messages]:
    """The graphs whose messages were needed."""
    seen: list[Messages] = []
    complete = Messages.complete

    def watched(self: Messages) -> None:
        if self.missing is not None:
            seen.append(self)
        complete(self)

    monkeypatch.setattr(Messages, "complete", watched)
    return seen


def made(name: str, shape: list[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, 1, shape)


def noted(nodes: list[Node]) -> list[Node]:
    """The nodes with the notes of PyTorch's exporter."""
    for number, one in enumerate(nodes):
        one.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=f"['', 'layer{number}', 'node']")
        one.metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value="['Net', 'Layer', 'aten.op']")
    return nodes


def model(
    nodes: list[Node],
    shape: Any = (1, 4, 4, 4),
    domain: str = "",
    more: list[TensorProto] | None = None,
    values: list[onnx.ValueInfoProto] | None = None,
    **fields: Any,
) -> bytes:
    arrays = {
        "w": numpy.ones((4, 4, 1, 1), "f"),
        "größe": numpy.ones(4, "f"),
        "to": numpy.array([1, 4, 16]),
        "parts": numpy.ones(4, "i8"),
        "six": numpy.array(6, "f"),
    }
    stored = [*(numpy_helper.from_array(array, name) for name, array in arrays.items()), *(more or ())]
    ends = [helper.make_tensor_value_info("x", 1, shape)], [onnx.ValueInfoProto(name=nodes[-1].output[0])]
    opsets = [helper.make_opsetid(domain, 17)]
    graph = helper.make_graph(nodes, "g", *ends, stored, value_info=values)
    return bytes(helper.make_model(graph, opset_imports=opsets, **{"ir_version": 8, **fields}).SerializeToString())


def layers(*last: Node) -> list[Node]:
    names = ["x", *(f"/層{i}/Conv_output" for i in range(6))]
    convolutions = [
        node("Conv", [a, "w", "größe"], [b], name=f"/層{i}/Conv", kernel_shape=[1, 1])
        for i, (a, b) in enumerate(itertools.pairwise(names))
    ]
    return [*convolutions, node("Reshape", [names[-1], "to"], ["r"]), node("Relu", ["r"], ["y"]), *last]


PLAIN: dict[str, Callable[[], bytes]] = {
    "usual": lambda: model(layers()),
    "a domain by its long name": lambda: model(layers(), domain="ai.onnx"),
    "constants": lambda: model(layers(node("Constant", [], ["c"], value_float=2.0), node("Mul", ["y", "c"], ["z"]))),
    "checked one by one": lambda: model(
        layers(node("LayerNormalization", ["y", "s"], ["n"]), node("Expand", ["n", "to"], ["z"])),
        more=[numpy_helper.from_array(numpy.ones(16, "f"), "s")],
    ),
    "noted by PyTorch": lambda: model(noted(layers()), values=[made("r", [1, 4, 16]), made("y", [1, 4, 16])]),
    "another shape than stated": lambda: model(layers(), values=[made("r", [1, 64])]),
    "asks for shapes": lambda: model(heads()),
    "does not fit": lambda: model(layers(node("Conv", ["x", "w3"], ["z"])), more=[weight("w3", (4, 3, 1, 1))]),
}

OTHERS: dict[str, Callable[[], bytes]] = {
    "asks for a shape that the data decide": lambda: model(
        layers(node("NonZero", ["y"], ["i"]), node("Shape", ["i"], ["s"]), node("Expand", ["to", "s"], ["z"]))
    ),
    "a computed shape that does not fit": lambda: model(
        layers(node("Shape", ["y"], ["s"]), node("Add", ["s", "s"], ["t"]), node("Expand", ["x", "t"], ["z"]))
    ),
    "a computed shape that is too large": lambda: model(
        layers(node("Shape", ["y"], ["s"]), node("Pow", ["s", "to"], ["t"]), node("ConstantOfShape", ["t"], ["z"]))
    ),
    "no shape follows": lambda: model(layers(node("NonZero", ["y"], ["i"]), node("Transpose", ["i"], ["z"]))),
    "another domain": lambda: model(layers(node("Gelu", ["y"], ["z"], domain="com.microsoft"))),
    "control flow": lambda: model(layers(node("If", ["yes"], ["z"], **branches())), more=[yes()]),
    "open": lambda: model(layers(), shape=("N", 4, "H", 4)),
    "two tensors of a name": lambda: model(layers(), more=[weight("w", (4, 4, 1, 1))]),
    "two other tensors of a name": lambda: model(layers(), more=[weight("w", (2, 2))]),
    "not in order": lambda: model([*layers()[::-1], node("Relu", ["r"], ["z"])]),
    "in a circle": lambda: model(layers(node("Add", ["y", "b"], ["a"]), node("Relu", ["a"], ["b"]))),
    "made twice": lambda: model(layers(node("Relu", ["x"], ["r"]))),
    "makes a stored tensor": lambda: model(layers(node("Relu", ["x"], ["w"]))),
    "an invalid node": lambda: model(layers(node("LayerNormalization", ["y", "größe"], ["z"], axis=1 << 20))),
    "a shape that is too long": lambda: model(
        layers(node("Expand", ["y", "long"], ["z"])), more=[numpy_helper.from_array(numpy.ones(2000, "i8"), "long")]
    ),
    "a negative extent": lambda: model(
        layers(node("Pad", ["y", "p"], ["q"]), node("Slice", ["q", "p", "p"], ["z"])),
        more=[numpy_helper.from_array(numpy.full(6, -1), "p")],
    ),
    "windows": lambda: model(
        layers(node("MaxPool", ["x"], ["z"], kernel_shape=[2, 2], strides=[3, 3], pads=[0, 0, 1, 1], ceil_mode=1))
    ),
    "old": lambda: model(layers(), ir_version=1),
    "damaged": lambda: model(layers()).replace(b"kernel_shape@", b"kernel_shape\x0f"),
    "a name that is no text": lambda: model(layers()).replace("/層3".encode(), b"/\xff\xff\xff3"),
    "nothing": lambda: model([node("", ["x"], ["y"])]),
}


def heads(blocks: int = 3) -> list[Node]:
    """Values that go through shapes computed from their own, as exporters write it, in several sizes."""
    nodes = [node("Constant", [], ["two"], value_ints=[2]), node("Constant", [], ["rest"], value_ints=[-1])]
    last = "x"
    for i in range(blocks):
        of = functools.partial("{1}{0}".format, i)
        nodes += [
            node("Shape", [last], [of("shape")]),
            node("Split", [of("shape"), "parts"], [of("a"), of("b"), of("c"), of("d")]),
            node("Mul", [of("d"), "two"], [of("wide")]),
            node("Concat", [of("a"), of("wide"), "two", "rest"], [of("to")], axis=0),
            node("Reshape", [last, of("to")], [of("r")]),
            node("Transpose", [of("r")], [of("t")], perm=[0, 2, 1, 3]),
            node("Clip", [of("t"), "", "six"], [of("y")]),
        ]
        last = of("y")
    return nodes


def weight(name: str, shape: tuple[int, ...]) -> TensorProto:
    return numpy_helper.from_array(numpy.ones(shape, "f"), name)


def yes() -> TensorProto:
    return numpy_helper.from_array(numpy.array(True), "yes")


def branches() -> dict[str, onnx.GraphProto]:
    end = helper.make_tensor_value_info("e", 1, None)
    return {
        f"{which}_branch": helper.make_graph([node(op, ["y"], ["e"])], which, [], [end])
        for which, op in (("then", "Relu"), ("else", "Sigmoid"))
    }


def outcome(data: bytes, **arguments: Any) -> str:
    """All that is read, or the error."""
    try:
        graph = read_onnx(data, **arguments)
    except FlopwiseError as error:
        return f"{type(error).__name__}: {error}"
    weights = [(name, w.shape, w.dtype, w.role, w.array().tolist()) for name, w in graph.weights.items()]
    return repr((graph.inputs, graph.outputs, graph.nodes, graph.warnings, weights))


@pytest.mark.parametrize("case", [*PLAIN, *OTHERS])
def test_as_with_all_messages(case: str, request: pytest.FixtureRequest) -> None:
    data = {**PLAIN, **OTHERS}[case]()
    whole = outcome(data)
    request.getfixturevalue("every_model_is_large")
    assert outcome(data) == whole


@pytest.mark.parametrize(
    "arguments", [{"inputs": "2x4x2x8"}, {"inputs": {"x": numpy.ones((1, 4, 4, 4), "f")}}, {"batch_size": 3}]
)
def test_what_the_user_gives(arguments: dict[str, Any], request: pytest.FixtureRequest) -> None:
    data = model(layers()[:6], shape=("N", 4, "H", 4) if "batch_size" not in arguments else ("N", 4, 4, 4))
    whole = outcome(data, **arguments)
    assert whole.startswith("((Tensor(")
    request.getfixturevalue("every_model_is_large")
    assert outcome(data, **arguments) == whole


def test_a_batch_that_a_reshape_refuses(request: pytest.FixtureRequest) -> None:
    data = model(layers(), shape=("N", 4, 4, 4))
    whole = outcome(data, batch_size=3)
    assert "batch size 3 is impossible" in whole
    request.getfixturevalue("every_model_is_large")
    assert outcome(data, batch_size=3) == whole


@pytest.mark.parametrize("case", PLAIN)
@pytest.mark.usefixtures("every_model_is_large")
def test_the_messages_of_usual_models_are_never_made(case: str, completed: list[Messages]) -> None:
    read_onnx(PLAIN[case]())
    assert not completed


@pytest.mark.usefixtures("every_model_is_large")
def test_a_small_model_has_its_messages(completed: list[Messages], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skeleton, "_MUCH", 1 << 18)
    read_onnx(PLAIN["asks for shapes"]())
    assert not completed
