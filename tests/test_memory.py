"""The peak of live activations, against a model of memory that is too simple to be wrong."""

from __future__ import annotations

import random

import pytest

from flopwise.folding import fold
from flopwise.graph import Body, Graph
from flopwise.memory import VIEWS, peak_activation_bytes

from .graphs import Sketch, sketch


def replayed(graph: Graph) -> int:
    """The peak, by asking at each step of every tensor whether anybody still needs it."""
    runs = [n for i, n in enumerate(graph.nodes) if i not in fold(graph).positions]
    storage = {t.name: t for t in graph.inputs}
    made_at = {t.name: -1 for t in graph.inputs}
    for step, node in enumerate(runs):
        for index, tensor in enumerate(node.known_outputs):
            first = node.inputs[0] if node.inputs else None
            shared = node.op in VIEWS and index == 0 and first is not None and first.name in storage
            storage[tensor.name] = storage[first.name] if shared and first is not None else tensor
            made_at.setdefault(storage[tensor.name].name, step)
    peak = sum(t.nbytes for t in graph.inputs)
    for step in range(len(runs)):
        needed = {storage[t.name].name for n in runs[step:] for t in n.known_inputs if t.name in storage}
        needed |= {storage[t.name].name for t in graph.outputs if t.name in storage}
        needed |= {storage[t.name].name for t in runs[step].known_outputs}
        alive = [
            t for t in {t.name: t for t in storage.values()}.values() if made_at[t.name] <= step and t.name in needed
        ]
        peak = max(peak, sum(t.nbytes for t in alive))
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


@pytest.mark.parametrize("seed", range(60))
def test_any_graph(seed: int) -> None:
    rng = random.Random(seed)
    made = Sketch()
    names = ["x", "z"]
    made.tensor("x", (rng.randrange(50),), "input")
    made.tensor("z", (rng.randrange(50),), "input")
    made.tensor("w", (rng.randrange(50),), "weight")
    for i in range(rng.randrange(1, 25)):
        inputs = rng.choices([*names, "w"], k=rng.randrange(1, 4))
        outputs = [f"t{i}_{j}" for j in range(rng.choice([1, 1, 1, 2]))]
        for name in outputs:
            made.tensor(name, (rng.randrange(50),))
        made.node(rng.choice(["Conv", "Add", "Reshape", "Identity", "Dropout"]), " ".join(inputs), " ".join(outputs))
        names += outputs
    ends = rng.sample(names, rng.randrange(1, 4) if len(names) > 3 else 1)
    graph = made.graph("x z", " ".join(ends))
    assert peak_activation_bytes(graph) == replayed(graph)
