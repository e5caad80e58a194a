"""Models of every kind that may take another way through the reader."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

Node = onnx.NodeProto
node = helper.make_node


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
