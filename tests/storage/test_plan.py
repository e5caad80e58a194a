"""Plans of the activations' memory: nothing that is alive at once overlaps, and little is wasted."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graphs import Sketch, sketch

import flopwise
from flopwise.errors import InputError
from flopwise.graph import Graph
from flopwise.storage.liveness import Buffer, liveness
from flopwise.storage.plan import Plan, plan_arena, sweep

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def planned(graph: Graph, alignment: int = 64) -> Plan:
    plan = plan_arena(liveness(graph), alignment)
    assert plan is not None
    return plan


def check(graph: Graph, plan: Plan) -> None:
    """Write each tensor's name into its bytes when it is made, and read it back whenever it is used."""
    at = {t.name: p for p in plan.places for t in p.buffer.tensors}
    memory: dict[int, str] = {}

    def write(name: str) -> None:
        place = at[name]
        memory.update(dict.fromkeys(range(place.offset, place.end), place.buffer.name))

    def read(name: str) -> None:
        place = at[name]
        assert {memory[i] for i in range(place.offset, place.end)} <= {place.buffer.name}

    for tensor in graph.inputs:
        write(tensor.name)
    for node in graph.nodes:
        for tensor in node.known_outputs:
            write(tensor.name)
        for tensor in (*node.known_inputs, *node.known_outputs):
            if tensor.name in at:
                read(tensor.name)
    for tensor in graph.outputs:
        read(tensor.name)
    assert plan.size == max((p.end for p in plan.places), default=0)
    assert all(p.offset % plan.alignment == 0 for p in plan.places)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Operators on any tensors that are there already."""
    made = Sketch()
    sizes = st.integers(0, 40)
    names = ["x"]
    made.tensor("x", (draw(sizes),), "input", "int8")
    for i in range(draw(st.integers(1, 16))):
        made.tensor(f"t{i}", (draw(sizes),), dtype="int8")
        inputs = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
        made.node(draw(st.sampled_from(["Conv", "Reshape", "Add"])), " ".join(inputs), f"t{i}")
        names.append(f"t{i}")
    outputs = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    return made.graph("x", " ".join(outputs))


@given(graphs(), st.sampled_from([1, 4, 64]))
@settings(max_examples=200, deadline=None)
def test_nothing_alive_is_overwritten(graph: Graph, alignment: int) -> None:
    plan = planned(graph, alignment)
    check(graph, plan)
    assert plan.size >= plan.bound == liveness(graph).peak


@pytest.mark.parametrize("seed", range(30))
def test_no_two_that_live_together_overlap(seed: int) -> None:
    rng = random.Random(seed)
    made = Sketch()
    made.tensor("x", (9,), "input")
    for i in range(60):
        made.tensor(f"t{i}", (rng.randrange(1, 2000),))
        made.node("Conv", " ".join(rng.choices(["x", *(f"t{j}" for j in range(i))], k=2)), f"t{i}")
    plan = planned(made.graph("x", "t59"), 1)
    for one, other in itertools.combinations(plan.places, 2):
        if one.buffer.first <= other.buffer.last and other.buffer.first <= one.buffer.last:
            assert one.end <= other.offset or other.end <= one.offset
    assert plan.size <= 1.15 * plan.bound


@pytest.mark.parametrize("name", ["resnet50", "vgg19", "densenet121", "squeezenet", "inception_v1", "bvlc_alexnet"])
def test_light_models_within_5_percent(name: str) -> None:
    plan = planned(flopwise.read(LIGHT / f"light_{name}.onnx"))
    assert plan.bound <= plan.size <= 1.05 * plan.bound


def test_what_best_fit_alone_does_not_find() -> None:
    """Two small tensors that live long must not lie in the middle of where the large ones go."""
    made = sketch({"x": (10,), "a": (20,), "b": (40,), "c": (60,), "y": (10,)}, x="input")
    made.node("Conv", "x", "a")
    made.node("Conv", "a", "b")
    made.node("Conv", "b", "c")
    made.node("Add", "c x", "y")
    plan = planned(made.graph(), 1)
    assert plan.size == plan.bound == 4 * 110


def chains(operators: int, width: int) -> Graph:
    """Operators that each use two of the tensors made shortly before."""
    rng = random.Random(1)
    made = Sketch()
    made.tensor("x", (64,), "input")
    for i in range(operators):
        made.tensor(f"t{i}", (rng.randrange(1, 100_000),))
        near = ["x", *(f"t{j}" for j in range(max(0, i - width), i))]
        made.node("Conv", " ".join(rng.choices(near, k=2)), f"t{i}")
    return made.graph("x", f"t{operators - 1}")


def test_two_thousand_operators() -> None:
    plan = planned(chains(2000, 20))
    assert plan.size <= 1.15 * plan.bound


def test_so_many_pairs_are_looked_at_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of planning, counted as neighbours that are alive with a buffer when it is placed."""
    from flopwise.storage import plan as module

    looked, best_fit = [0], module._best_fit

    def counting(beside: Any, *rest: Any) -> int:
        looked[0] += len(beside)
        return best_fit(beside, *rest)

    monkeypatch.setattr(module, "_best_fit", counting)
    for operators, width in ((200, 5), (2000, 20), (600, 600)):
        found = liveness(chains(operators, width))
        looked[0] = 0
        module.plan_arena(found)
        assert looked[0] <= len(module.ORDERS) * module.PAIRS


def test_however_many_are_alive_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 tensors alive at once are 200 million pairs: placed in the order of time, looking at none."""
    from flopwise.storage import plan as module

    monkeypatch.setattr(module, "_place", lambda *arguments: pytest.fail("looks at pairs"))
    made = Sketch()
    made.tensor("x", (1,), "input")
    for i in range(20_000):
        made.tensor(f"t{i}", (i % 7 + 1,))
        made.node("Conv", "x", f"t{i}")
    graph = made.graph("x", " ".join(f"t{i}" for i in range(20_000)))
    plan = planned(graph, 1)
    assert plan.size == plan.bound == liveness(graph).peak
    assert plan.order == "time"


def test_in_the_order_of_time_a_gap_of_just_the_size_is_taken() -> None:
    """By hand: C where A was, D and E share that place after it, and G makes the gap at the end larger."""
    lives = {"a": (64, 0, 0), "b": (8, 0, 9), "c": (64, 1, 1), "d": (24, 2, 9), "e": (40, 2, 9), "f": (16, 3, 3)}
    lives |= {"g": (32, 4, 9), "h": (7, 5, 9), "i": (1, 5, 9)}
    buffers = [Buffer(name, nbytes, first, last, (), None, None) for name, (nbytes, first, last) in lives.items()]
    offsets = dict(zip(lives, sweep(buffers, 8), strict=True))
    assert offsets == {"a": 0, "b": 64, "c": 0, "d": 40, "e": 0, "f": 72, "g": 72, "h": 104, "i": 112}


@settings(deadline=None)
@given(graphs(), st.sampled_from([1, 64]))
def test_in_the_order_of_time_nothing_overlaps_either(graph: Graph, alignment: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flopwise.storage.plan.PAIRS", -1)
        plan = planned(graph, alignment)
    assert plan.order == "time"
    check(graph, plan)
    assert plan.size >= plan.bound == liveness(graph).peak


@pytest.mark.parametrize("name", ["resnet50", "densenet121", "inception_v1"])
def test_the_order_of_time_wastes_little(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flopwise.storage.plan.PAIRS", -1)
    plan = planned(flopwise.read(LIGHT / f"light_{name}.onnx"))
    assert plan.bound <= plan.size <= 1.5 * plan.bound


@pytest.mark.parametrize("alignment", [0, 3, -64, 1 << 40])
def test_an_alignment_without_sense(alignment: int) -> None:
    with pytest.raises(InputError, match="not a power of two"):
        planned(sketch({"x": (10,)}, x="input").graph(outputs="x"), alignment)


@pytest.mark.parametrize("alignment", [1, 1 << 21])
def test_the_least_and_the_largest_alignment(alignment: int) -> None:
    graph = sketch({"x": (10,), "y": (10,)}, x="input")
    graph.node("Relu", "x", "y")
    plan = planned(graph.graph(), alignment)
    assert (plan.alignment, plan.size) == (alignment, max(80, alignment + 40))


@pytest.mark.parametrize("alignment", [3 << 19, 1 << 22])
def test_a_larger_alignment_or_one_that_is_no_power_of_two(alignment: int) -> None:
    with pytest.raises(InputError, match="is not a power of two up to 2097152"):
        planned(sketch({"x": (10,)}, x="input").graph(outputs="x"), alignment)


def test_without_all_sizes_there_is_no_plan() -> None:
    assert plan_arena(liveness(sketch({"x": None, "y": (1,)}, x="input").graph())) is None


def test_nothing_at_all() -> None:
    assert planned(Graph("none", "hand", "", (), (), ())).size == 0
