"""What depends on weights, constants and shapes alone is done once, and is no part of an inference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.graphs import Sketch, sketch
from tests.work import calls_at_most

import flopwise
from flopwise.graph import Graph, Kind, Node, Tensor
from flopwise.operators.folding import constant, fold, stored_tensors, weight_bytes_by_dtype


def folded(graph: Graph) -> list[str]:
    """The folded operators, by the name of their first result."""
    return [graph.nodes[p].output().name for p in sorted(fold(graph).positions)]


def chain(*ops: str, kind: Kind = "weight") -> Graph:
    """Operators one after the other from w, which is of the given kind; the last one also takes x."""
    made = sketch({"x": (4,), "w": (4,), "y": (4,)} | {f"t{i}": (4,) for i in range(len(ops))}, x="input", w=kind)
    for i, op in enumerate(ops):
        made.node(op, f"t{i - 1}" if i else "w", f"t{i}")
    made.node("Add", f"x t{len(ops) - 1}" if ops else "x w", "y")
    return made.graph()


@pytest.mark.parametrize("kind", ["weight", "buffer", "constant"])
def test_what_depends_on_stored_tensors_alone(kind: Kind) -> None:
    graph = chain("Transpose", "Sqrt", "Neg", kind=kind)
    assert folded(graph) == ["t0", "t1", "t2"]


@pytest.mark.parametrize("kind", ["input", "activation"])
def test_what_depends_on_an_input_is_not(kind: Kind) -> None:
    assert folded(chain("Transpose", "Sqrt", kind=kind)) == []


@pytest.mark.parametrize(
    "op",
    [
        *("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"),
        *("If", "Loop", "Scan", "SequenceMap"),
    ],
)
def test_what_is_new_each_time_is_not(op: str) -> None:
    """Random numbers are; and bodies may take what is not among the inputs."""
    assert folded(chain("Sqrt", op, "Neg")) == ["t0"]


def test_a_program_runs_in_each_call_what_it_computes_of_stored_tensors() -> None:
    """Views of them are no computation, and neither is a question about a shape."""
    graph = chain("Transpose", "Reshape", "Sqrt", "Transpose")
    program = replace(graph, program=graph.program._replace(each_call=True))
    assert folded(program) == ["t0", "t1"]
    assert [t.name for t in fold(program).stored(graph.nodes[2])] == ["w"]
    assert constant(program) == fold(graph)


def test_one_input_that_varies_is_enough() -> None:
    made = sketch({"x": (4,), "w": (4,), "a": (4,), "b": (4,), "y": (4,)}, x="input", w="weight")
    made.node("Mul", "w w", "a")
    made.node("Concat", "a x w", "b")
    made.node("Sqrt", "b", "y")
    assert folded(made.graph()) == ["a"]


def test_shapes_are_known_before_the_first_inference() -> None:
    made = sketch({"x": (4, 3), "s": (2,), "n": (), "g": (), "y": (4, 3)}, x="input")
    made.node("Shape", "x", "s")
    made.node("Size", "x", "n")
    made.node("Mul", "s n", "g")
    made.node("Expand", "x g", "y")
    assert folded(made.graph()) == ["s", "n", "g"]


def test_shapes_that_nobody_could_resolve_are_not() -> None:
    made = sketch({"x": (4,), "u": None, "s": (2,), "y": (2,)}, x="input")
    made.node("NonZero", "x", "u")
    made.node("Shape", "u", "s")
    made.node("Neg", "s", "y")
    assert folded(made.graph()) == []


def test_a_shape_of_nothing() -> None:
    made = sketch({"x": (4,), "s": (1,)}, x="input")
    made.node("Shape", "_", "s")
    made.node("Shape", "", "s")
    assert folded(made.graph(outputs="s")) == []


def test_an_operator_that_only_spells_a_stored_tensor() -> None:
    made = sketch(
        {"x": (4,), "s": (1,), "w": (4,), "c": (4,), "y": (4,)}, x="input", s="constant", w="weight", c="constant"
    )
    made.node("ConstantOfShape", "s", "w")
    made.node("Constant", "", "c")
    made.node("Sum", "x w c", "y")
    graph = made.graph()
    assert folded(graph) == ["w", "c"]
    assert [t.name for t in fold(graph).stored(graph.nodes[2])] == ["w", "c"]


def test_an_operator_without_inputs_is_not_folded() -> None:
    made = sketch({"x": (4,), "r": (4,), "y": (4,)}, x="input")
    made.node("my::Source", "", "r")
    made.node("Add", "x r", "y")
    assert folded(made.graph()) == []


def test_what_stands_behind_a_folded_result() -> None:
    names = {"x": (4,), "w": (4,), "v": (4,), "a": (4,), "b": (4,), "s": (1,), "y": (4,)}
    made = sketch(names, x="input", w="weight", v="buffer")
    made.node("Shape", "x", "s")
    made.node("Mul", "w v", "a")
    made.node("Reshape", "a s", "b")
    made.node("Sum", "b x w", "y")
    graph = made.graph()
    folding = fold(graph)
    assert [t.name for t in folding.stored(graph.nodes[3])] == ["w", "v"]
    assert [folding.varies(made.tensors[t]) for t in "xwvabsy"] == [True, False, False, False, False, False, True]


def test_the_folding_of_some_operators_alone() -> None:
    graph = chain("Transpose", "Sqrt", "Neg")
    only = fold(graph).only(graph, lambda node: node.op != "Sqrt")
    assert [graph.nodes[p].op for p in sorted(only.positions)] == ["Transpose", "Neg"]
    assert [t.name for t in only.stored(graph.nodes[1])] == ["w"]


def test_results_that_are_taken_twice_do_not_double() -> None:
    made = Sketch()
    made.tensor("t0", (4,), "weight")
    for i in range(2000):
        made.tensor(f"t{i + 1}", (4,))
        made.node("Add", f"t{i} t{i}", f"t{i + 1}")
    graph = made.graph(inputs="", outputs="t2000")
    with calls_at_most(100 * len(graph.nodes)):
        folding = fold(graph)
    assert [t.name for t in folding.sources["t2000"]] == ["t0"]


def one_layer(*stored: Tensor) -> Graph:
    x, y = Tensor("x", (1, 8), "float32", "input"), Tensor("y", (1, 4), "float32")
    return Graph("one", "hand", "", (x,), (y,), (Node("Mystery", "m", (x, *stored, *stored), (y,)),))


def test_weights_by_type() -> None:
    w, v = Tensor("w", (100,), "int8", "weight"), Tensor("v", (50,), "float32", "buffer")
    u, s = Tensor("u", (50,), "float32", "constant"), Tensor("s", (2,), "int64", "constant")
    graph = one_layer(w, v, u, s)
    assert list(stored_tensors(graph)) == [w, v, u]  # what steers shapes is left out
    assert weight_bytes_by_dtype(graph) == {"float32": 400, "int8": 100}
    assert weight_bytes_by_dtype(one_layer(Tensor("w", None, "int8", "weight"))) == {"int8": None}


def test_they_add_up_to_the_profile() -> None:
    real = flopwise.read(Path(__file__).parents[2] / "examples" / "tiny_resnet.onnx")
    assert sum(v or 0 for v in weight_bytes_by_dtype(real).values()) == flopwise.profile(real).total("weight_bytes")


def test_numbers_in_attributes_are_stored_too() -> None:
    """A forest, a linear model and a scaler: 5 and 4 trained numbers; 21 numbers of the tree's form, 6 statistics."""
    tree = {
        **{f"nodes_{name}": [0, 1, 2] for name in ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")},
        **{f"target_{name}": [0, 1] for name in ("treeids", "nodeids", "ids")},
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "target_weights": [1.0, 2.0],
        "n_targets": 1,
    }
    x, y = Tensor("x", (4, 3), "float32", "input"), Tensor("y", (4, 1), "float32")
    linear = {"coefficients": [1.0, 2.0, 3.0], "intercepts": [1.0]}
    nodes = (
        Node("ai.onnx.ml::TreeEnsembleRegressor", "trees", (x,), (y,), tree),
        Node("ai.onnx.ml::LinearRegressor", "linear", (x,), (Tensor("z", (4, 1), "float32"),), linear),
        Node(
            "ai.onnx.ml::Scaler", "", (x,), (Tensor("w", (4, 3), "float32"),), {"offset": [1.0] * 3, "scale": [2.0] * 3}
        ),
    )
    graph = Graph("g", "onnx", "", (x,), (y,), nodes)
    stored = {tensor.name.partition(".")[2]: tensor for tensor in stored_tensors(graph)}
    weights = {name: tensor.numel for name, tensor in stored.items() if tensor.kind == "weight"}
    assert weights == {"nodes_values": 3, "target_weights": 2, "coefficients": 3, "intercepts": 1}
    assert sum(tensor.numel for tensor in stored.values() if tensor.kind == "buffer") == 21 + 6
    assert weight_bytes_by_dtype(graph) == {"int64": 21 * 8, "float32": 15 * 4}
