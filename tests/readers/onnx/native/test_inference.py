"""What is proven safe runs here, all else in a child, which may be lost only so many times."""

from __future__ import annotations

from typing import Any

import numpy
import onnx
import pytest
from onnx import defs, helper, numpy_helper
from tests.readers.models import ints, model, node, shapes

import flopwise
from flopwise.api.profile import read
from flopwise.errors import ModelError
from flopwise.readers.onnx.native import inference as module
from flopwise.readers.onnx.native.child import LostError
from flopwise.readers.onnx.native.proven import PROVEN, PROVEN_WHEN_TYPED

DOMAINS = {"acme": 1, "ai.onnx.ml": 5}


def no_child(kind: int, net: onnx.ModelProto) -> Any:
    raise AssertionError("a child was asked")


def test_the_lists_name_operators_that_exist() -> None:
    known = {(s.domain, s.name) for s in defs.get_all_schemas_with_history()}
    assert {("", op) for op in PROVEN} | PROVEN_WHEN_TYPED <= known
    assert {op for domain, op in PROVEN_WHEN_TYPED if not domain}.isdisjoint(PROVEN)


@pytest.mark.parametrize(
    ("op", "domain", "attributes"),
    [
        ("EyeLike", "", {}),
        ("RegexFullMatch", "", {"pattern": "a"}),
        ("StringConcat", "", {}),
        ("StringSplit", "", {}),
        ("LabelEncoder", "ai.onnx.ml", {"keys_int64s": [1], "values_int64s": [2]}),
        ("TreeEnsemble", "ai.onnx.ml", {"n_targets": 1}),
        ("DictVectorizer", "ai.onnx.ml", {"int64_vocabulary": [1]}),
        ("ZipMap", "ai.onnx.ml", {"classlabels_int64s": [1]}),
    ],
)
@pytest.mark.parametrize("inputs", ["u", "_", "u u", "_ x", ""])
def test_untyped_and_missing_inputs(
    op: str, domain: str, attributes: dict[str, Any], inputs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.CHILD, "ask", no_child)
    net = model(
        [
            node("Foo", "x", "u", domain="acme"),
            node(op, inputs, "y", domain=domain, **attributes),
            node("Relu", "x", "r"),
        ],
        {"x": (2, 3)},
        opset=20,
        domains=DOMAINS,
    )
    graph = read(net)
    assert shapes(graph)["y"] is None
    assert shapes(graph)["r"] == (2, 3)


def test_negative_extents(monkeypatch: pytest.MonkeyPatch) -> None:
    """A size that a model cannot take makes them; onnx 1.23.2 counts backwards from the last of GatherND's indices."""
    requests: list[int] = []

    def lost(kind: int, net: onnx.ModelProto) -> onnx.ModelProto:
        requests.append(kind)
        raise LostError("ends the process")

    monkeypatch.setattr(module.CHILD, "ask", lost)
    pad = node("Pad", "i pads", "p", mode="constant")
    net = model([pad, node("GatherND", "x p", "y", "g")], {"x": (2, 3), "i": (2, 2)}, [ints("pads", 0, 0, 0, -5)])
    assert shapes(read(net))["y"] is None
    assert requests in ([], [module.NODE])


def test_classical_models_with_types_need_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.CHILD, "ask", no_child)
    encode = node("LabelEncoder", "a", "e", domain="ai.onnx.ml", keys_int64s=[1], values_floats=[2.0])
    net = model([node("ArgMax", "x", "a"), encode, node("Relu", "e", "y")], {"x": (2, 3)}, opset=20, domains=DOMAINS)
    assert shapes(read(net)) == {"a": (1, 3), "e": (1, 3), "y": (1, 3)}


@pytest.mark.parametrize(
    "equation", [".ij->ij", "i..j->ij", "ij->....ij", "...ij...->ij", ".", "i j . . . .->", "ij-ij", "7ij->ij", "i_j"]
)
def test_equations_without_sense(equation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.CHILD, "ask", no_child)
    graph = read(model([node("Einsum", "x", "y", "e", equation=equation)], {"x": (2, 3)}))
    assert "Einsum 'e' is invalid (equation" in graph.warnings[0]
    assert shapes(graph)["y"] is None


@pytest.mark.parametrize(
    ("equation", "expected"), [("ij->ji", (3, 2)), ("...j -> ...", (2,)), ("i...->...i", (3, 2)), ("ij", (2, 3))]
)
def test_equations_with_sense(equation: str, expected: tuple[int, ...]) -> None:
    graph = read(model([node("Einsum", "x", "y", "e", equation=equation)], {"x": (2, 3)}))
    assert shapes(graph)["y"] == expected
    assert graph.warnings == ()


def net_of(op: str) -> onnx.ModelProto:
    return model([node("Relu", "x", "a"), *(node(op, "x", f"y{i}") for i in range(9))], {"x": (2, 3)}, opset=20)


def test_what_is_not_proven_goes_to_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the operators of a later onnx would."""
    requests: list[int] = []
    ask = module.CHILD.ask

    def counted(kind: int, net: onnx.ModelProto) -> onnx.ModelProto:
        requests.append(kind)
        return ask(kind, net)

    monkeypatch.setattr(module.CHILD, "ask", counted)
    monkeypatch.setattr("flopwise.readers.onnx.native.proven.PROVEN", PROVEN - {"Sigmoid"})
    monkeypatch.setattr("flopwise.readers.onnx.native.suspects._UNSUSPICIOUS", frozenset({"Relu"}))
    graph = read(net_of("Sigmoid"))
    assert set(shapes(graph).values()) == {(2, 3)}
    assert requests == [module.NODE]  # nodes like an earlier one are not asked about


def test_a_child_that_is_always_lost_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[int] = []

    def lost(kind: int, net: onnx.ModelProto) -> onnx.ModelProto:
        requests.append(kind)
        raise LostError("ends the process")

    monkeypatch.setattr(module.CHILD, "ask", lost)
    monkeypatch.setattr("flopwise.readers.onnx.native.proven.PROVEN", PROVEN - {"Sigmoid"})
    monkeypatch.setattr("flopwise.readers.onnx.native.suspects._UNSUSPICIOUS", frozenset({"Relu"}))
    graph = read(net_of("Sigmoid"))
    assert len(requests) == module.LOSSES
    assert graph.warnings[0] == "no shape for Sigmoid 'y0': onnx's shape inference ends the process"
    assert shapes(graph)["a"] == (2, 3)


def test_functions_that_double() -> None:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    functions = [helper.make_function("my", "F0", ["a"], ["b"], [node("Relu", "a", "b")], imports)]
    for i in range(1, 60):
        twice = [node(f"F{i - 1}", "a", "m", domain="my"), node(f"F{i - 1}", "m", "b", domain="my")]
        functions.append(helper.make_function("my", f"F{i}", ["a"], ["b"], twice, imports))
    for depth, refused in ((4, False), (40, True), (59, True)):
        net = model([node(f"F{depth}", "x", "y", domain="my")], {"x": (1,)}, functions=functions, domains={"my": 1})
        if refused:
            with pytest.raises(ModelError, match=r"call each other so often that it becomes [\d,]{10,} operators"):
                read(net)
        else:
            assert len(read(net).nodes) == 2**depth


def test_functions_that_call_each_other_very_deep() -> None:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    functions = [helper.make_function("my", "F0", ["a"], ["b"], [node("Relu", "a", "b")], imports)]
    for i in range(1, 3000):
        functions.append(
            helper.make_function("my", f"F{i}", ["a"], ["b"], [node(f"F{i - 1}", "a", "b", domain="my")], imports)
        )
    net = model([node("F2999", "x", "y", domain="my")], {"x": (1,)}, functions=functions, domains={"my": 1})
    with pytest.raises(ModelError, match="deeper than 200"):
        read(net)


def test_a_slice_of_a_negative_extent_does_not_end_the_process() -> None:
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 4, "T"])
    stored = {"pads": [0, 0, 1, 0, 0, -2], "start": [1000], "end": [-5], "axis": [2], "step": [-2]}
    graph = helper.make_graph(
        [
            helper.make_node("Pad", ["x", "pads"], ["p"], mode="reflect"),
            helper.make_node("Slice", ["p", "start", "end", "axis", "step"], ["y"]),
        ],
        "padded",
        [x],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(numpy.array(value), name) for name, value in stored.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10).SerializeToString()
    assert flopwise.profile(model, dims={"N": 1, "T": 9}).rows[1].node.output().shape == (1, 4, 2)
    assert "y" in flopwise.profile(model, dims={"N": 1, "T": 0}).unresolved
