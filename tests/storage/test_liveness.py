"""The peak of live activations, against a model of memory that is too simple to be wrong."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from tests.cases import each
from tests.graphs import Sketch, sketch

import flopwise
from flopwise.graph import Body, Graph, Node, Program, Shape, Tensor
from flopwise.operators.folding import fold
from flopwise.storage.liveness import live_bytes, liveness, peak_activation_bytes

#: Operators whose first result holds the elements of their first input in the same order.
VIEWS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"})

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def replayed(graph: Graph, overwritten: dict[int, int] | None = None) -> int:
    """The peak, by asking at each step of every tensor whether anybody still needs it.

    Args:
        graph: without control flow.
        overwritten: position of an operator -> the input whose place its first result takes.
    """
    folded = fold(graph).positions
    runs = [(i, n) for i, n in enumerate(graph.nodes) if i not in folded]
    home = {t.name: t for t in graph.inputs}  # tensor -> the one in whose place it lies
    made_at = {t.name: -1 for t in graph.inputs}
    for step, (position, node) in enumerate(runs):
        places = {0: overwritten[position]} if overwritten and position in overwritten else {}
        if node.op in VIEWS and node.input(0).nbytes == node.output(0).nbytes:
            places = {0: 0}
        for index, tensor in enumerate(node.known_outputs):
            below = node.input(places[index]).name if index in places else ""
            home[tensor.name] = home.get(below, tensor)
            made_at.setdefault(home[tensor.name].name, step)
    peak = sum(t.nbytes for t in graph.inputs)
    ends = {home[t.name].name for t in graph.outputs if t.name in home}
    for step in range(len(runs)):
        needed = ends | {home[t.name].name for _, n in runs[step:] for t in n.known_inputs if t.name in home}
        needed |= {home[t.name].name for t in runs[step][1].known_outputs}
        there = {t.name: t for t in home.values() if made_at[t.name] <= step}
        peak = max(peak, sum(t.nbytes for name, t in there.items() if name in needed))
    return peak


def line(*shapes: tuple[int, ...], op: str = "Relu") -> Graph:
    made = Sketch()
    for i, shape in enumerate(shapes):
        made.tensor(f"t{i}", shape, "activation" if i else "input")
        if i:
            made.node(op, f"t{i - 1}", f"t{i}")
    return made.graph("t0", f"t{len(shapes) - 1}")


@pytest.mark.parametrize(
    ("graph", "elements"),
    [
        (line((10,)), 10),
        (line((10,), (10,)), 20),
        (line((10,), (20,), (5,)), 30),
        (line((10,), (20,), (40,), (5,)), 60),
        # a view takes no memory of its own
        (line((10,), (10,), op="Identity"), 10),
        (line((10,), (2, 5), (10, 1), op="Reshape"), 10),
    ],
)
def test_a_line(graph: Graph, elements: int) -> None:
    assert peak_activation_bytes(graph) == 4 * elements == replayed(graph)


def test_a_branch_keeps_its_start_alive() -> None:
    made = sketch({"x": (10,), "a": (100,), "b": (100,), "y": (10,)}, x="input")
    made.node("Conv", "x", "a")
    made.node("Conv", "a", "b")
    made.node("Add", "b x", "y")
    assert peak_activation_bytes(made.graph()) == 4 * 210


def test_outputs_live_to_the_end_and_unused_results_die_at_once() -> None:
    made = sketch({"x": (1,), "a": (100,), "b": (50,), "y": (10,)}, x="input")
    made.node("Conv", "x", "a")
    made.node("Conv", "x", "b")
    made.node("Conv", "x", "y")
    assert peak_activation_bytes(made.graph(outputs="y")) == 4 * 101
    assert peak_activation_bytes(made.graph(outputs="a y")) == 4 * 151


def test_stored_tensors_are_no_activations() -> None:
    made = sketch({"x": (10,), "w": (1000,), "f": (1000,), "v": (1000,), "y": (10,)}, x="input", w="weight")
    made.node("Transpose", "w", "f")
    made.node("Reshape", "f", "v")
    made.node("MatMul", "x v", "y")
    assert peak_activation_bytes(made.graph()) == 4 * 20


def test_a_view_keeps_what_it_looks_at_alive() -> None:
    made = sketch({"x": (100,), "v": (10, 10), "a": (5,), "b": (7,), "y": (1,)}, x="input")
    made.node("Reshape", "x", "v")
    made.node("Conv", "x", "a")
    made.node("Conv", "a", "b")
    made.node("Add", "b v", "y")
    assert peak_activation_bytes(made.graph()) == 4 * (100 + 5 + 7)


def test_the_mask_of_a_dropout_is_no_view() -> None:
    made = sketch({"x": (10,), "y": (10,), "m": (10,)}, x="input")
    made.node("Dropout", "x", "y m")
    assert peak_activation_bytes(made.graph(outputs="y m")) == 4 * 20


def test_a_missing_shape_has_no_peak() -> None:
    made = sketch({"x": (10,), "u": None, "y": (1,)}, x="input")
    made.node("NonZero", "x", "u")
    made.node("ReduceSum", "u", "y")
    assert peak_activation_bytes(made.graph()) is None
    assert peak_activation_bytes(sketch({"x": None, "y": (1,)}, x="input").graph()) is None


def test_a_body_comes_on_top_of_what_lives_around_it() -> None:
    made = sketch({"x": (10,), "k": (3,), "l": (20,), "b": (100,), "c": (50,), "d": (5,), "y": (1,)}, x="input")
    made.node("Conv", "x", "k")
    made.node("Loop", "x", "l")
    inside = (Body(1, "body", 7),)
    made.node("Conv", "k", "b", within=inside)
    made.node("Conv", "b", "c", within=inside)
    made.node("Conv", "c", "d", within=inside)
    made.node("Add", "l", "y")
    # k is taken inside the body alone, so it lives until the loop is done.
    assert peak_activation_bytes(made.graph()) == 4 * (10 + 3 + 20 + 150)


def test_of_two_branches_one_runs() -> None:
    made = sketch({"x": (10,), "y": (8,), "a": (100,), "b": (8,), "c": (30,), "d": (8,)}, x="input")
    made.node("If", "x", "y")
    then, other = (Body(0, "then_branch", 1, True),), (Body(0, "else_branch", 1, True),)
    made.node("Conv", "x", "a", within=then)
    made.node("Conv", "a", "b", within=then)
    made.node("Conv", "x", "c", within=other)
    made.node("Conv", "c", "d", within=other)
    assert peak_activation_bytes(made.graph()) == 4 * (10 + 108)


def test_bodies_in_bodies() -> None:
    made = sketch({"x": (1,), "y": (1,), "a": (10,), "l": (1,), "b": (100,), "c": (1,)}, x="input")
    made.node("Loop", "x", "y")
    outer = (Body(0, "body", 2),)
    made.node("Conv", "x", "a", within=outer)
    made.node("Loop", "a", "l", within=outer)
    inner = (*outer, Body(2, "body", 3))
    made.node("Conv", "a", "b", within=inner)
    made.node("Conv", "b", "c", within=inner)
    assert peak_activation_bytes(made.graph()) == 4 * (1 + 1 + 10 + 1 + 101)


def test_nothing_at_all() -> None:
    assert peak_activation_bytes(Graph("none", "hand", "", (), (), ())) == 0


def test_a_step_for_the_start_and_each_operator() -> None:
    found = liveness(line((10,), (20,), (5,)))
    assert found.steps == (None, 0, 1)
    assert live_bytes(found.graph) == list(found.alive) == [40, 120, 100]
    assert (found.peak, found.peak_step) == (120, 1)
    assert [(b.name, b.maker, b.user, b.kept) for b in found.alive_at(1)] == [
        ("t1", 0, 1, False),
        ("t0", None, 0, False),
    ]
    assert found.buffers[-1].kept


def test_what_is_missing_is_named() -> None:
    found = liveness(sketch({"x": None, "y": (1,)}, x="input").graph())
    assert (found.missing, found.peak, found.peak_step, found.alive) == (("x", "y")[:1], None, None, ())


@pytest.mark.parametrize(
    ("op", "attrs", "inputs", "shape", "peak"),
    [
        ("Cast", {}, 1, (4, 6), 24),
        ("Expand", {}, 1, (4, 6), 24),
        ("Expand", {}, 1, (2, 4, 6), 72),
        ("Concat", {}, 1, (4, 6), 24),
        ("Concat", {}, 2, (8, 6), 72),
        ("Slice", {}, 1, (4, 6), 24),
        ("Slice", {"steps": [-1]}, 1, (4, 6), 48),
        ("Slice", {}, 1, (2, 6), 36),
        ("Split", {}, 1, (4, 6), 24),
        ("Transpose", {"perm": [0, 1]}, 1, (4, 6), 24),
        ("Transpose", {"perm": [1, 0]}, 1, (6, 4), 48),
        ("Transpose", {}, 1, (6, 4), 48),
        ("Relu", {}, 1, (4, 6), 48),
    ],
)
def test_what_does_nothing_is_a_view(op: str, attrs: dict[str, object], inputs: int, shape: Shape, peak: int) -> None:
    x, y = Tensor("x", (4, 6), "float32", "input"), Tensor("y", shape, "float32")
    node = Node(op, "", (x,) * inputs, (y,), attrs)
    assert peak_activation_bytes(Graph("one", "hand", "", (x,), (y,), (node,))) == 4 * peak


def test_a_transposition_of_an_axis_of_one_moves_nothing() -> None:
    x, y = Tensor("x", (4, 1, 6), "float32", "input"), Tensor("y", (1, 4, 6), "float32")
    node = Node("Transpose", "", (x,), (y,), {"perm": [1, 0, 2]})
    assert peak_activation_bytes(Graph("one", "hand", "", (x,), (y,), (node,))) == 4 * 24


def test_a_cast_to_another_type_is_no_view() -> None:
    x, y = Tensor("x", (4, 6), "float32", "input"), Tensor("y", (4, 6), "int32")
    graph = Graph("one", "hand", "", (x,), (y,), (Node("Cast", "", (x,), (y,)),))
    assert peak_activation_bytes(graph) == 4 * 48


def torch_line(*origins: str) -> Graph:
    """Functions of PyTorch on 24 elements, one after the other."""
    tensors = [Tensor(f"t{i}", (24,), "float32", "activation" if i else "input") for i in range(len(origins) + 1)]
    nodes = [
        Node("Relu" if "relu" in origin else origin, "", (a,), (b,), origin=origin)
        for a, b, origin in zip(tensors, tensors[1:], origins, strict=False)
    ]
    return Graph("line", "torch", "", tuple(tensors[:1]), tuple(tensors[-1:]), tuple(nodes), program=Program())


@pytest.mark.parametrize(
    ("origins", "tensors"),
    [
        (("aten.relu", "aten.relu"), 2),
        (("aten.relu_", "aten.relu_"), 1),
        (("aten.transpose", "aten.slice"), 1),
        (("aten.relu", "aten.transpose", "aten.relu_"), 2),
        (("aten.clone",), 2),
    ],
)
def test_pytorch_says_what_is_in_place_and_what_is_a_view(origins: tuple[str, ...], tensors: int) -> None:
    assert peak_activation_bytes(torch_line(*origins)) == tensors * 96


@pytest.mark.parametrize(("top", "storages"), [("a", [1, 2, 1]), ("new", [1, 1, 1, 1])])
def test_a_caffe_layer_writes_where_its_top_is_its_bottom(tmp_path: Path, top: str, storages: list[int]) -> None:
    net = tmp_path / "net.prototxt"
    net.write_text(
        f"""
        input: "x" input_shape {{ dim: 1 dim: 1 dim: 5 dim: 5 }}
        layer {{ name: "c" type: "Convolution" bottom: "x" top: "a" convolution_param {{ num_output: 4 kernel_size: 1 }}
        }}
        layer {{ name: "r" type: "ReLU" bottom: "a" top: "{top}" }}
        layer {{ name: "s" type: "Sigmoid" bottom: "{top}" top: "b" }}
        """
    )
    assert [len(buffer.tensors) for buffer in liveness(flopwise.read(net)).buffers] == storages


def test_in_place_where_nobody_needs_the_input() -> None:
    assert liveness(line((10,), (10,), (10,), (10,)), inplace=True).peak == 80  # the model's input stays as it is
    assert liveness(line((10,), (10,), (10,), (10,))).peak == 80
    made = sketch({"x": (1,), "a": (10,), "b": (10,), "c": (10,), "y": (1,)}, x="input")
    made.node("Conv", "x", "a")
    made.node("Relu", "a", "b")
    made.node("Add", "b b", "c")
    made.node("Conv", "c", "y")
    assert (liveness(made.graph()).peak, liveness(made.graph(), inplace=True).peak) == (80, 44)
    # an output, or a tensor that somebody needs later, is not overwritten
    assert liveness(made.graph(outputs="y a"), inplace=True).peak == 84
    made.node("Add", "a y", "y")
    assert liveness(made.graph(), inplace=True).peak == 84


def test_in_place_beside_another_view_of_the_same_storage() -> None:
    made = sketch({"x": (1,), "a": (5, 1), "v": (1, 5), "b": (5, 1), "y": (1,)}, x="input")
    made.node("Conv", "x", "a")
    made.node("Reshape", "a", "v")
    made.node("Mul", "a v", "b")
    made.node("Conv", "b", "y")
    assert liveness(made.graph(), inplace=True).peak == 40


def random_graph(rng: random.Random, steps: int = 25) -> Graph:
    """Any operators on any tensors: several outputs, unused ones, outputs that are inputs, views of views, weights."""
    made = Sketch()
    names = ["x", "z"]
    sizes = {name: rng.randrange(50) for name in ("x", "z", "w")}
    for name, size in sizes.items():
        made.tensor(name, (size,), "weight" if name == "w" else "input")
    for i in range(rng.randrange(1, steps)):
        op = rng.choice(["Conv", "Add", "Relu", "Reshape", "Identity", "Dropout"])
        inputs = rng.choices([*names, "w"], k=rng.randrange(1, 4))
        for j in range(rng.choice([1, 1, 1, 2])):
            name = f"t{i}_{j}"
            sizes[name] = sizes[inputs[0]] if op not in ("Conv", "Dropout") or rng.random() < 0.5 else rng.randrange(50)
            made.tensor(name, (sizes[name],))
        outputs = [name for name in (f"t{i}_0", f"t{i}_1") if name in sizes]
        made.node(op, " ".join(inputs), " ".join(outputs))
        names += outputs
    ends = rng.sample(names, rng.randrange(1, 4) if len(names) > 3 else 1)
    return made.graph("x z", " ".join(ends))


@each("seed", range(100))
def test_any_graph(seed: int) -> None:
    graph = random_graph(random.Random(seed))
    assert peak_activation_bytes(graph) == replayed(graph)


@each("seed", range(100))
def test_any_graph_in_place(seed: int) -> None:
    graph = random_graph(random.Random(seed))
    found = liveness(graph, inplace=True)
    homes = {t.name: b.name for b in found.buffers for t in b.tensors}
    overwritten: dict[int, int] = {}
    for position, node in enumerate(graph.nodes):
        first = node.output(0)
        if first.name in homes and homes[first.name] != first.name and node.op not in VIEWS:
            index = next(i for i, t in enumerate(node.known_inputs) if homes.get(t.name) == homes[first.name])
            overwritten[position] = index
    assert found.peak == replayed(graph, overwritten)
    assert found.peak <= (peak_activation_bytes(graph) or 0)
    holds = contents(graph, homes)
    for position, node in enumerate(graph.nodes):
        for tensor in node.known_inputs:
            if tensor.name in homes:
                assert holds[position][homes[tensor.name]] == value_of(tensor.name, graph), (position, tensor.name)
    for tensor in graph.outputs:
        if tensor.name in homes:
            assert holds[len(graph.nodes)][homes[tensor.name]] == value_of(tensor.name, graph)


def value_of(name: str, graph: Graph) -> str:
    """What a tensor holds: its own name, or for a view what it is a view of."""
    makers = {t.name: n for n in graph.nodes for t in n.known_outputs[:1]}
    while name in makers and makers[name].op in VIEWS and makers[name].input(0).nbytes == makers[name].output(0).nbytes:
        name = makers[name].input(0).name
    return name


def contents(graph: Graph, homes: dict[str, str]) -> list[dict[str, str]]:
    """What each piece of storage holds before each operator, and after the last."""
    now = {homes[t.name]: t.name for t in graph.inputs}
    holds = []
    for node in graph.nodes:
        holds.append(dict(now))
        now.update((homes[t.name], value_of(t.name, graph)) for t in node.known_outputs if t.name in homes)
    return [*holds, now]


@pytest.mark.parametrize("name", ["resnet50", "vgg19", "densenet121", "squeezenet", "inception_v1", "bvlc_alexnet"])
def test_light_models(name: str) -> None:
    """Published bounds in MB of live activations, with constants folded."""
    bounds = {"resnet50": 9.63, "vgg19": 25.69, "densenet121": 8.43, "squeezenet": 6.31, "inception_v1": 6.42}
    peak = peak_activation_bytes(flopwise.read(LIGHT / f"light_{name}.onnx"))
    assert peak is not None
    assert round(peak / 1e6, 2) == bounds.get(name, 2.24)


def test_who_asks_for_a_shape_alone_keeps_nothing_alive() -> None:
    made = sketch({"x": (10,), "a": (10,), "b": (10,), "y": (10,), "n": (1,)}, x="input")
    for before, after in ("xa", "ab", "by"):
        made.node("Relu", before, after)
    made.node("Shape", "a", "n")
    lives = liveness(made.graph())
    assert 3 in fold(made.graph()).positions
    assert lives.alive == (40, 80, 80, 80)
    assert next(buffer for buffer in lives.buffers if buffer.name == "a").last == 2


def test_a_part_of_a_tensor_is_not_overwritten_as_if_it_were_the_whole() -> None:
    made = sketch({"x": (10,), "a": (10,), "b": (5,), "y": (5,)}, x="input")
    made.node("Exp", "x", "a")
    made.node("Slice", "a", "b")
    made.node("Relu", "b", "y")
    made.nodes[1] = replace(made.nodes[1], origin="aten.narrow")
    lives = liveness(made.graph(), inplace=True)
    assert [[tensor.name for tensor in buffer.tensors] for buffer in lives.buffers] == [["x"], ["a", "b"], ["y"]]
    assert lives.peak == 10 * 4 + 10 * 4
    assert [buffer.name for buffer in lives.alive_at(3)] == ["a", "y"]
