"""Local functions in place of their calls, named as onnx's own inliner names them."""

from __future__ import annotations

import random
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper, inliner
from tests.formats.models import array, model, node

from flopwise.errors import ModelError
from flopwise.formats.kit.program import Graph, Model, Reference
from flopwise.formats.kit.tensors import elements
from flopwise.formats.onnx.decode import decoded
from flopwise.formats.onnx.functions import inlined
from flopwise.formats.onnx.walk import read_skeleton
from flopwise.formats.sources.source import BytesSource


def read(proto: onnx.ModelProto) -> Model:
    data = proto.SerializeToString()
    return inlined(decoded(read_skeleton(BytesSource(data, "m")), "m"), len(data))


def function(
    name: str, inputs: str, outputs: str, nodes: list[onnx.NodeProto], opset: int = 17, **more: Any
) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("my", 1)]
    return helper.make_function("my", name, inputs.split(), outputs.split(), nodes, opsets, **more)


def reference(name: str, to: str, kind: int = onnx.AttributeProto.INT) -> onnx.AttributeProto:
    return onnx.AttributeProto(name=name, ref_attr_name=to, type=kind)


def listed(graph: Graph) -> list[Any]:
    """All names in a graph, its bodies included."""
    return [
        [v.name for v in graph.inputs],
        [v.name for v in graph.outputs],
        sorted(graph.initializers),
        [(n.op, n.name, n.inputs, n.outputs, [listed(body) for body in n.bodies()]) for n in graph.nodes],
    ]


def listed_by_onnx(graph: onnx.GraphProto) -> list[Any]:
    def bodies(one: onnx.NodeProto) -> list[onnx.GraphProto]:
        return [g for a in one.attribute for g in (*((a.g,) if a.HasField("g") else ()), *a.graphs)]

    return [
        [v.name for v in graph.input],
        [v.name for v in graph.output],
        sorted(t.name for t in graph.initializer),
        [
            (n.op_type, n.name, tuple(n.input), tuple(n.output), [listed_by_onnx(body) for body in bodies(n)])
            for n in graph.node
        ],
    ]


def some_nodes(randomly: random.Random, names: list[str], callable_: list[onnx.FunctionProto], depth: int = 0) -> Any:
    """Random nodes: plain ones, calls with inputs and outputs left out, and control flow with bodies."""
    nodes, names = [], list(names)
    for i in range(randomly.randrange(1, 5)):
        made = f"{randomly.choice('tuvx')}{depth}{i}"
        kind = randomly.random()
        name = randomly.choice(["", "n", "t0", made])
        if callable_ and kind < 0.45:
            called = randomly.choice(callable_)
            inputs = [randomly.choice([*names, ""]) for _ in range(randomly.randrange(len(called.input) + 1))]
            outputs = [made, *(randomly.choice([f"{made}_{k}", ""]) for k in range(len(called.output) - 1))]
            nodes.append(helper.make_node(called.name, inputs, outputs, name=name, domain="my"))
        elif kind < 0.6 and depth < 2:
            inner, last = some_nodes(randomly, names, callable_, depth + 1)
            inputs = [helper.make_tensor_value_info(f"b{depth}", TensorProto.FLOAT, None)]
            stored = [array("w", [1.0])] if randomly.random() < 0.5 else []
            body = helper.make_graph(inner, "b", inputs, [onnx.ValueInfoProto(name=last)], stored)
            nodes.append(helper.make_node("If", [names[0]], [made], name=name, then_branch=body, else_branch=body))
        else:
            nodes.append(helper.make_node("Add", [randomly.choice(names), names[-1]], [made], name=name))
        names.append(made)
    return nodes, names[-1]


@pytest.mark.parametrize("seed", range(60))
def test_names_are_those_of_onnx(seed: int) -> None:
    randomly = random.Random(seed)
    functions: list[onnx.FunctionProto] = []
    for i in range(randomly.randrange(1, 4)):
        nodes, last = some_nodes(randomly, ["a", "b"], functions)
        functions.append(function(f"F{i}", "a b", f"{last} {nodes[0].output[0]}x", nodes))
        functions[-1].output[1] = nodes[0].output[0]
    nodes, _ = some_nodes(randomly, ["x", "t__1"], functions)
    proto = model(nodes, {"x": (3,), "t__1": (3,)}, functions=functions, domains={"my": 1})
    assert listed(read(proto).graph) == listed_by_onnx(inliner.inline_local_functions(proto).graph)


def test_attributes_of_the_call_stand_in_place_of_references() -> None:
    inner = node("Softmax", "a", "b")
    inner.attribute.append(reference("axis", "where"))
    one = function("One", "a", "b", [inner], attributes=["where"])
    outer = node("One", "a", "b", domain="my")
    outer.attribute.append(reference("where", "place"))
    two = function("Two", "a", "b", [outer], attributes=["place"])
    calls = [node("Two", "x", "p", domain="my", place=0), node("Two", "p", "q", domain="my", place=0)]
    calls.append(node("Two", "q", "r", domain="my"))
    nodes = read(model(calls, {"x": (3,)}, functions=[one, two], domains={"my": 1})).graph.nodes
    assert [n.attributes.values for n in nodes] == [{"axis": 0}, {"axis": 0}, {}]
    assert nodes[0].attributes is nodes[1].attributes
    assert not any(isinstance(v, Reference) for n in nodes for v in n.attributes.values.values())


def test_defaults_of_a_function() -> None:
    inner = node("Softmax", "a", "b")
    inner.attribute.append(reference("axis", "where"))
    one = function("One", "a", "b", [inner], attribute_protos=[helper.make_attribute("where", 1)])
    calls = [node("One", "x", "p", domain="my"), node("One", "p", "q", domain="my", where=0)]
    nodes = read(model(calls, {"x": (3, 3)}, functions=[one], domains={"my": 1})).graph.nodes
    assert [n.attributes.get("axis") for n in nodes] == [1, 0]


def test_references_in_bodies() -> None:
    inner = node("Softmax", "a", "c")
    inner.attribute.append(reference("axis", "where"))
    body = helper.make_graph([inner], "body", [], [onnx.ValueInfoProto(name="c")])
    one = function("One", "k a", "b", [node("If", "k", "b", then_branch=body, else_branch=body)], attributes=["where"])
    call = node("One", "k x", "y", domain="my", where=0)
    nodes = read(model([call], {"k": (), "x": (3,)}, functions=[one], domains={"my": 1})).graph.nodes
    bodies = nodes[0].bodies()
    assert [b.nodes[0].attributes.values for b in bodies] == [{"axis": 0}, {"axis": 0}]
    assert [b.nodes[0].inputs for b in bodies] == [("x",), ("x",)]


def test_copies_of_a_constant_share_its_mark() -> None:
    one = function("One", "a", "b", [node("Constant", "", "c", value=array("", [1.0])), node("Add", "a c", "b")])
    calls = [node("One", "x", "p", domain="my"), node("One", "p", "q", domain="my")]
    nodes = read(model(calls, {"x": (1,)}, functions=[one], domains={"my": 1})).graph.nodes
    first, second = (n.attributes.get("value") for n in nodes if n.op == "Constant")
    assert first is second
    assert first.mark
    assert elements(first) == (1.0,)


def test_a_function_of_another_operator_set_keeps_it() -> None:
    old = function("Old", "a", "b", [node("Relu", "a", "c"), node("Squeeze", "c", "b", axes=[0])], opset=12)
    new = function("New", "a", "b", [node("Relu", "a", "c"), node("Old", "c", "b", domain="my")])
    calls = [node("New", "x", "p", domain="my"), node("Relu", "p", "y")]
    nodes = read(model(calls, {"x": (1, 3)}, functions=[old, new], domains={"my": 1})).graph.nodes
    assert [(n.op, n.version) for n in nodes] == [("Relu", 0), ("Relu", 12), ("Squeeze", 12), ("Relu", 0)]
    assert nodes[0].operation is nodes[3].operation
    assert nodes[0].operation is not nodes[1].operation


def test_calls_that_give_more_than_a_function_takes() -> None:
    one = function("One", "a", "b", [node("Relu", "a", "b")])
    with pytest.raises(ModelError, match="a call of 'One' has 2 inputs, the function 1"):
        read(model([node("One", "x x", "y", domain="my")], {"x": (1,)}, functions=[one], domains={"my": 1}))


def test_circles() -> None:
    one = function("One", "a", "b", [node("Two", "a", "b", domain="my")])
    two = function("Two", "a", "b", [node("One", "a", "b", domain="my")])
    with pytest.raises(ModelError, match="calls itself, directly or through others"):
        read(model([node("One", "x", "y", domain="my")], {"x": (1,)}, functions=[one, two], domains={"my": 1}))


def test_functions_that_grow() -> None:
    functions = [function("F0", "a", "b", [node("Relu", "a", "b")])]
    for i in range(1, 20):
        calls = [node(f"F{i - 1}", "a", "c", domain="my"), node(f"F{i - 1}", "c", "b", domain="my")]
        functions.append(function(f"F{i}", "a", "b", calls))
    with pytest.raises(ModelError, match=r"becomes 1,572,\d+ operators"):
        read(model([node("F19", "x", "y", domain="my")], {"x": (1,)}, functions=functions, domains={"my": 1}))
