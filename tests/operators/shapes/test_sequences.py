"""Members of sequences and optionals that follow from shapes alone, beside what onnx's reference operators make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from tests.formats.models import Dims, array, ints, model, node, shapes, value

from flopwise.api.profile import profile
from flopwise.api.read import read
from flopwise.sizes import facts

#: Nodes that lead from x (5×4), y (2×4) and z (2×4) to "out"; p is the stored position 1, n is -1.
CASES: dict[str, list[onnx.NodeProto]] = {
    "construct": [node("SequenceConstruct", "x y z", "out")],
    "empty": [node("SequenceEmpty", "", "out")],
    "insert at the end": [node("SequenceConstruct", "x y", "s"), node("SequenceInsert", "s z", "out")],
    "insert": [node("SequenceConstruct", "x y", "s"), node("SequenceInsert", "s z p", "out")],
    "insert before the last": [node("SequenceConstruct", "x y", "s"), node("SequenceInsert", "s z n", "out")],
    "insert into nothing": [node("SequenceEmpty", "", "s"), node("SequenceInsert", "s x", "out")],
    "erase the last": [node("SequenceConstruct", "x y", "s"), node("SequenceErase", "s", "out")],
    "erase": [node("SequenceConstruct", "x y z", "s"), node("SequenceErase", "s p", "out")],
    "erase from the end": [node("SequenceConstruct", "x y z", "s"), node("SequenceErase", "s n", "out")],
    "at": [node("SequenceConstruct", "x y z", "s"), node("SequenceAt", "s p", "out")],
    "at the end": [node("SequenceConstruct", "y z x", "s"), node("SequenceAt", "s n", "out")],
    "split into ones": [node("SplitToSequence", "x", "out", axis=1)],
    "split and squeeze": [node("SplitToSequence", "x", "out", axis=-1, keepdims=0)],
    "split evenly": [node("SplitToSequence", "x two", "out", axis=0)],
    "split as told": [node("SplitToSequence", "x parts", "out", axis=0)],
    "concat": [node("SequenceConstruct", "x y z", "s"), node("ConcatFromSequence", "s", "out", axis=0)],
    "concat at the end": [node("SequenceConstruct", "y z", "s"), node("ConcatFromSequence", "s", "out", axis=-1)],
    "stack": [node("SequenceConstruct", "y z", "s"), node("ConcatFromSequence", "s", "out", axis=1, new_axis=1)],
    "stack at the end": [
        node("SequenceConstruct", "y z", "s"),
        node("ConcatFromSequence", "s", "out", axis=-1, new_axis=1),
    ],
    "handed on": [node("SequenceConstruct", "x y", "s"), node("Identity", "s", "out")],
}


def net(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    inputs: dict[str, Dims] = {"x": (5, 4), "y": (2, 4), "z": (2, 4)}
    stored = [array("p", 1, "int64"), array("n", -1, "int64"), array("two", 2, "int64"), ints("parts", 1, 4)]
    return model(nodes, inputs, [*stored, array("one", 1.0)], outputs=["out"], opset=18)


def sizes(result: Any) -> Any:
    return [r.shape for r in result] if isinstance(result, list) else result.shape


@pytest.mark.parametrize("name", CASES)
def test_as_the_reference_operators(name: str) -> None:
    made = net(CASES[name])
    (out,) = read(made).outputs
    found = out.shape if out.items is None else [t.shape for t in out.items]
    feeds = {"x": numpy.ones((5, 4), "f"), "y": numpy.ones((2, 4), "f"), "z": numpy.ones((2, 4), "f")}
    reference = onnx.ModelProto.FromString(made.SerializeToString())
    (result,) = ReferenceEvaluator(reference).run(None, feeds)
    assert found == sizes(result)


#: The reference operators do not run these; nodes from x (5×4), and what "out" is.
OTHERS: dict[str, tuple[list[onnx.NodeProto], Any]] = {
    "length": ([node("SequenceConstruct", "x y z", "s"), node("SequenceLength", "s", "l")], (3,)),
    "optional tensor": ([node("Optional", "x", "o"), node("OptionalGetElement", "o", "out")], (5, 4)),
    "optional sequence": (
        [node("SequenceConstruct", "x y", "s"), node("Optional", "s", "o"), node("OptionalGetElement", "o", "out")],
        [(5, 4), (2, 4)],
    ),
    "it is there": (
        [
            node("Optional", "x", "o"),
            node("OptionalHasElement", "o", "h"),
            node("Cast", "h", "l", to=TensorProto.INT64),
        ],
        (1,),
    ),
    "a tensor is there": ([node("OptionalHasElement", "x", "h"), node("Cast", "h", "l", to=TensorProto.INT64)], (1,)),
    "it is not": ([node("OptionalHasElement", "", "h"), node("Cast", "h", "l", to=TensorProto.INT64)], (0,)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_lengths_and_optionals(name: str) -> None:
    nodes, expected = OTHERS[name]
    if nodes[-1].output[0] == "l":
        nodes = [*nodes, node("Unsqueeze", "l first", "shape"), node("Expand", "single shape", "out")]
    made = net(nodes)
    made.graph.initializer.extend([ints("first", 0), array("single", [1.0])])
    (out,) = read(made).outputs
    assert (out.shape if out.items is None else [t.shape for t in out.items]) == expected


def test_positions_that_nobody_knows() -> None:
    def at(*parts: str) -> Any:
        nodes = [node("SequenceConstruct", " ".join(parts), "s"), node("SequenceAt", "s where", "out")]
        inputs = [value("x", (5, 4)), value("y", (2, 4)), value("z", (2, 4)), value("where", (), TensorProto.INT64)]
        return shapes(read(model(nodes, inputs)))["out"]

    assert at("y", "z") == (2, 4)
    assert at("x", "y") is None


def sequence_input(kind: str, members: Sequence[Any] | None) -> Any:
    """A model on a sequence, or an optional, and its profile when the members are given."""
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, (None, 4))
    sequence = helper.make_sequence_type_proto(tensor)
    type_ = {"sequence": sequence, "optional": helper.make_optional_type_proto(sequence)}[kind]
    first = [node("OptionalGetElement", "s", "t")] if kind == "optional" else []
    nodes = [*first, node("ConcatFromSequence", "t" if first else "s", "c", axis=0), node("Relu", "c", "y")]
    made = helper.make_graph(nodes, "g", [onnx.ValueInfoProto(name="s", type=type_)], [value("y", None)])
    whole = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)])
    return profile(whole, None if members is None else {"s": members})


@pytest.mark.parametrize("kind", ["sequence", "optional"])
def test_members_that_the_user_gives(kind: str) -> None:
    members = [numpy.ones((3, 4), "f"), numpy.ones((5, 4), "f")]
    counted = sequence_input(kind, members)
    assert counted.graph.outputs[0].shape == (8, 4)
    assert counted.exact
    assert counted.total("flops") == 32
    assert counted.graph.inputs[0].numel == 32
    assert not sequence_input(kind, None).exact


def test_maps_have_a_size() -> None:
    nodes = [node("ZipMap", "x", "m", domain="ai.onnx.ml", classlabels_int64s=[1, 2, 3])]
    counted = profile(model(nodes, {"x": (7, 3)}, domains={"ai.onnx.ml": 1}))
    assert counted.graph.outputs[0].numel == 21
    assert counted.total("activations") == 21


def test_long_sequences_are_not_followed() -> None:
    nodes = [node("SplitToSequence", "x", "s", axis=0), node("ConcatFromSequence", "s", "y", axis=0)]
    graph = read(model(nodes, {"x": (10**9, 1)}))
    assert shapes(graph) == {"s": None, "y": None}


def test_values_of_sequences() -> None:
    nodes = [
        node("SequenceConstruct", "one two", "s"),
        node("ConcatFromSequence", "s", "shape", axis=0),
        node("Reshape", "x shape", "y"),
    ]
    graph = read(model(nodes, {"x": (6,)}, [ints("one", 2), ints("two", 3)]))
    assert shapes(graph)["y"] == (2, 3)


def test_members_of_all_operators_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node("SequenceConstruct", "x x", "s0")]
    nodes += [node("SequenceInsert", f"s{i} x", f"s{i + 1}") for i in range(40)]
    grows = model(nodes, {"x": (2, 3)}, outputs=["s40"], opset=18)
    assert [len(n.output().items or ()) for n in read(grows).nodes] == list(range(2, 43))
    monkeypatch.setattr(facts, "MEMBERS", 500)
    assert [n.output().resolved for n in read(grows).nodes].count(True) == 30


def test_a_loop_that_fills_an_empty_sequence() -> None:
    body = helper.make_graph(
        [node("Identity", "c", "k"), node("SequenceInsert", "s x", "t")],
        "body",
        [value("i", (), TensorProto.INT64), value("c", (), TensorProto.BOOL), onnx.ValueInfoProto(name="s")],
        [onnx.ValueInfoProto(name="k"), onnx.ValueInfoProto(name="t")],
    )
    nodes = [
        node("SequenceEmpty", "", "e"),
        node("Loop", "n _ e", "s", body=body),
        node("ConcatFromSequence", "s", "out", axis=0),
    ]
    graph = read(model(nodes, {"x": (2, 3)}, [array("n", 5, "int64")], outputs=["out"], opset=18))
    assert graph.outputs[0].shape == (10, 3)
    assert not graph.warnings
