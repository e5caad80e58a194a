"""The bodies of control flow: shapes in them, how often they run, and what comes out."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from tests.formats.models import Dims, array, ints, model, node, shapes, value, weight

import flopwise
from flopwise.api.profile import profile
from flopwise.api.read import read
from flopwise.errors import InputError, ModelError
from flopwise.graph import Graph
from flopwise.sizes.run import Pass

BOOL, INT = TensorProto.BOOL, TensorProto.INT64


def body(
    nodes: Sequence[onnx.NodeProto],
    outputs: str,
    inputs: Mapping[str, Dims | None] | Sequence[onnx.ValueInfoProto] = (),
    stored: Sequence[onnx.TensorProto] = (),
) -> onnx.GraphProto:
    """A body; its outputs are untyped, as exporters write them."""
    values = [value(n, d) for n, d in inputs.items()] if isinstance(inputs, Mapping) else list(inputs)
    made = [onnx.ValueInfoProto(name=o) for o in outputs.split()]
    return helper.make_graph(list(nodes), "b", values, made, list(stored))


def loop(*nodes: onnx.NodeProto, carried: str = "s", out: str = "keep t", stored: Any = ()) -> onnx.GraphProto:
    """The body of a loop that goes on as long as it may, unless a node makes "keep"."""
    inputs = [value("i", (), INT), value("c", (), BOOL), *(value(n, None) for n in carried.split())]
    mine = {o for n in nodes for o in n.output}
    more = [] if "keep" in mine else [node("Identity", "c", "keep")]
    return body([*more, *nodes], out, inputs, stored)


def runs(graph: Graph) -> dict[str, int | None]:
    """How often the operators in bodies run, by name."""
    return {n.name: n.times for n in graph.nodes if n.within}


def test_both_branches_when_nobody_knows_which() -> None:
    then = body([node("MatMul", "x w", "o", "big")], "o", stored=[weight("w", 4, 8)])
    other = body(
        [node("Mul", "x two", "p", "small"), node("MatMul", "p v", "o", "less")], "o", stored=[weight("v", 4, 8)]
    )
    net = model(
        [node("If", "c", "y", "fork", then_branch=then, else_branch=other)],
        [value("x", (2, 4)), value("c", (), BOOL)],
        [array("two", 2.0)],
    )
    graph = read(net)
    assert shapes(graph)["y"] == (2, 8)
    assert [n.within[0][1:] for n in graph.nodes[1:]] == [
        ("then_branch", 1, True, False),
        ("else_branch", 1, True, False),
        ("else_branch", 1, True, False),
    ]
    counted = profile(graph)
    assert [(r.name, r.times, r.macs) for r in counted.rows] == [
        ("fork", 1, 0),
        ("big", 0, 0),
        ("small", 1, 0),
        ("less", 1, 64),
    ]
    assert counted.total("macs") == 64
    assert counted.total("flops") == 136
    assert counted.total("params") == 64
    assert not counted.exact
    assert counted.bounded == tuple(row.name for row in counted.rows[1:] if row.times)
    assert (
        "'fork' takes one of its branches, and the most expensive counts: then_branch 128, else_branch 136"
        in counted.notes
    )


def test_a_branch_that_the_input_chooses() -> None:
    then, other = body([node("Relu", "x", "o", "yes")], "o"), body([node("Concat", "x x", "o", "no", axis=0)], "o")
    net = model(
        [node("If", "c", "y", "fork", then_branch=then, else_branch=other)], [value("x", (2, 4)), value("c", (), BOOL)]
    )
    (either,) = read(net).outputs
    assert (either.shape, either.bound) == ((4, 4), True)
    assert shapes(read(net, ["c:bool::0"]))["y"] == (4, 4)
    assert shapes(read(net, ["c:bool::1"]))["y"] == (2, 4)
    assert runs(read(net, ["c:bool::1"])) == {"yes": 1}


def test_a_branch_that_shapes_choose() -> None:
    """As TorchScript writes squeeze and the like."""
    then, other = body([node("Squeeze", "x axes", "o")], "o"), body([node("Identity", "x", "o")], "o")
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Equal", "n one", "c"),
        node("If", "c", "y", then_branch=then, else_branch=other),
        node("Relu", "y", "z"),
    ]
    for batch, expected in ((1, (5,)), (3, (3, 5))):
        net = model(nodes, {"x": (batch, 5)}, [array("zero", 0, "int64"), array("one", 1, "int64"), ints("axes", 0)])
        assert shapes(read(net))["z"] == expected


def test_a_loop_with_a_stated_trip_count() -> None:
    step = loop(
        node("MatMul", "s w", "t", "mm"), node("Relu", "t", "u", "act"), out="keep u t", stored=[weight("w", 4, 4)]
    )
    net = model([node("Loop", "n _ x", "l scan", "loop", body=step)], {"x": (2, 4)}, [array("n", 7, "int64")])
    graph = read(net)
    assert runs(graph)["mm"] == 7
    assert shapes(graph)["scan"] == (7, 2, 4)
    counted = profile(graph)
    assert counted.exact
    assert counted.total("macs") == 7 * 32
    assert counted.total("flops") == 7 * (64 + 8)
    assert counted.total("params") == 16
    assert {r.name: r.within for r in counted.rows if r.within} == dict.fromkeys(
        ("identity_1", "mm", "act"), ("loop/body",)
    )


def test_an_unknown_trip_count() -> None:
    step = loop(node("MatMul", "s w", "t", "mm"))
    net = model([node("Loop", "n _ x", "l", body=step)], [value("x", (4, 4)), value("n", (), INT)], [weight("w", 4, 4)])
    counted = profile(net)
    assert [(r.name, r.times, r.count) for r in counted.rows] == [
        ("loop_1", 1, 0),
        ("identity_1", None, None),
        ("mm", None, None),
    ]
    assert not counted.exact
    assert counted.total("params") == 16
    assert "Loop 'loop_1' runs an unknown number of times; give it with --trip loop_1=N" in counted.notes
    assert counted.unknown == {}
    known = profile(net, trips={"loop_1": 5})
    assert known.exact
    assert known.total("macs") == 5 * 64
    assert profile(net, ["n:i64::3"]).total("macs") == 3 * 64
    for trips, message in (
        ({"x": 1}, "no loop is named 'x'; the loops of the model are: 'loop_1'"),
        ({"loop_1": -1}, "loop 'loop_1' cannot run -1 times"),
    ):
        with pytest.raises(InputError, match=message):
            read(net, trips=trips)
    with pytest.raises(InputError, match="Loop 'loop_1' runs 3 times, not 4"):
        read(net, ["n:i64::3"], trips={"loop_1": 4})


def test_a_loop_that_data_may_end_early() -> None:
    step = loop(node("Add", "s x", "t"), node("ReduceMax", "t", "m", keepdims=0), node("Less", "m ten", "keep"))
    net = model(
        [node("Loop", "n yes x", "l", "loop", body=step)],
        {"x": (4, 4)},
        [array("n", 9, "int64"), array("yes", True, bool), array("ten", 10.0)],
    )
    graph = read(net)
    assert set(runs(graph).values()) == {9}
    assert graph.warnings == ("Loop 'loop' runs at most 9 times, counted as 9; give it with --trip loop=N",)
    assert set(runs(read(net, trips={"loop": 2})).values()) == {2}


@pytest.mark.parametrize(
    ("start", "change", "condition"),
    [
        ("zero", "Add s three", "Less t n"),
        ("zero", "Add three s", "Less t n"),
        ("zero", "Add s three", "LessOrEqual t n"),
        ("three", "Add s three", "Greater n t"),
        ("three", "Add s three", "GreaterOrEqual n s"),
        ("n", "Sub s three", "Greater t zero"),
        ("n", "Add s three", "Less t n"),
    ],
)
@pytest.mark.parametrize("size", [1, 18, 20])
def test_a_loop_that_its_own_numbers_end(size: int, start: str, change: str, condition: str) -> None:
    """The condition is looked at behind each turn: while s < 20: s = s + 3"""
    graph = read(_counting(start, change, condition, size))
    turns = _turns({"zero": 0, "three": 3, "n": size}, start, change, condition)
    assert {n.times for n in graph.nodes if n.op == "Relu"} == {turns}
    assert shapes(graph)["scan"] == (turns, size, 5)
    assert graph.warnings == ()


def test_a_loop_whose_number_goes_back_and_forth_ends_nobody_knows_when() -> None:
    (warning,) = read(_counting("zero", "Sub three s", "Less t n", 20)).warnings
    assert "Loop 'loop' runs an unknown number of times" in warning


@pytest.mark.parametrize(
    ("start", "change", "condition"),
    [
        ("zero", "Add s three", "Less t n"),
        ("zero", "Add three s", "Less t n"),
        ("three", "Add s three", "GreaterOrEqual n t"),
        ("n", "Sub s three", "Greater t zero"),
        ("n", "Sub s three", "LessOrEqual zero s"),
    ],
)
def test_a_loop_that_counts_to_a_size_has_a_formula(start: str, change: str, condition: str) -> None:
    formula = flopwise.formula(_counting(start, change, condition))
    assert [domain.name for domain in formula.domains] == ["N"]
    flops = formula.lambdify("flops")
    for size in (1, 3, 4, 20, 5000):
        turns = _turns({"zero": 0, "three": 3, "n": size}, start, change, condition)
        assert flops(size) == turns * (5 * size + 2)  # a Relu, a sum and a comparison


def test_a_loop_to_a_size_that_goes_back_and_forth_has_none() -> None:
    formula = flopwise.formula(_counting("zero", "Sub three s", "Less t n"))
    assert [domain.name for domain in formula.domains] == ["N", "loop"]


def _turns(numbers: dict[str, int], start: str, change: str, condition: str) -> int:
    """The turns of a loop in Python."""
    s, turns, holds = numbers[start], 0, True
    while holds:
        t = s + 3 if change.startswith("Add") else s - 3
        op, *names = condition.split()
        left, right = ({**numbers, "s": s, "t": t}[name] for name in names)
        compared = {
            "Less": operator.lt,
            "LessOrEqual": operator.le,
            "Greater": operator.gt,
            "GreaterOrEqual": operator.ge,
        }
        s, turns, holds = t, turns + 1, compared[op](left, right)
    return turns


def _counting(start: str, change: str, condition: str, size: int | str = "N") -> onnx.ModelProto:
    """A loop that counts with the size of its input, which it holds against 0."""
    parts = [(change.split(), "t"), (condition.split(), "keep")]
    steps = [node(op, " ".join(names), made) for (op, *names), made in parts]
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "n"),
        node("Identity", start, "begin"),
        node("Loop", "_ go begin", "l scan", "loop", body=loop(*steps, node("Relu", "x", "r"), out="keep t r")),
    ]
    constants = [array("three", 3, "int64"), array("zero", 0, "int64"), array("go", True, bool)]
    return model(nodes, {"x": (size, 5)}, constants)


def test_a_loop_whose_tensor_grows() -> None:
    step = loop(node("Concat", "s x", "t", "cat", axis=0), node("Mul", "t t", "q", "square"))
    net = model([node("Loop", "n _ x", "l", "loop", body=step)], {"x": (1, 4)}, [array("n", 3, "int64")])
    graph = read(net)
    assert shapes(graph)["l"] == (4, 4)
    assert [b.part for n in graph.nodes if n.name == "square" for b in n.within] == ["body[0]", "body[1]", "body[2]"]
    assert profile(graph).total("flops") == 4 * (2 + 3 + 4)


def test_a_loop_that_never_runs() -> None:
    step = loop(node("MatMul", "s w", "t"), stored=[weight("w", 4, 4)])
    never = model([node("Loop", "n _ x", "l", body=step)], {"x": (4, 4)}, [array("n", 0, "int64")])
    counted = profile(never)
    assert (counted.total("flops"), counted.exact) == (0, True)
    assert shapes(counted.graph)["l"] == (4, 4)


def test_loops_in_loops() -> None:
    inner = loop(node("Relu", "s", "t", "deep"))
    outer = loop(node("Loop", "three _ a", "b", "inner", body=inner), carried="a", out="keep b")
    net = model(
        [node("Loop", "n _ x", "l", "outer", body=outer)],
        {"x": (2,)},
        [array("n", 5, "int64"), array("three", 3, "int64")],
    )
    counted = profile(net)
    assert {r.name: (r.times, r.within) for r in counted.rows}["deep"] == (15, ("outer/body", "inner/body"))
    assert counted.total("flops") == 30


def test_a_weight_in_a_body_counts_once_and_can_be_loaded() -> None:
    step = loop(node("MatMul", "s w", "t"), stored=[weight("w", 40, 40)])
    nodes = [node("Loop", "n _ x", "l", "a", body=step), node("Loop", "n _ l", "m", "b", body=step)]
    net = model(nodes, {"x": (4, 40)}, [array("n", 2, "int64")])
    for source in (net, net.SerializeToString()):
        graph = read(source)
        assert profile(graph).total("params") == 2 * 1600
        assert profile(graph).total("macs") == 2 * 2 * 4 * 1600
        loaded = {name: w.array() for name, w in graph.weights.items()}
        assert set(loaded) == {"n", "a/body/w", "b/body/w"}
        assert (loaded["a/body/w"] == onnx.numpy_helper.to_array(weight("w", 40, 40))).all()


def test_turns_that_make_the_same_of_other_inputs_cost_their_own() -> None:
    step = loop(node("Slice", "s one end", "t", "drop"), stored=[ints("one", 1), ints("end", 9)])
    net = model([node("Loop", "n _ x", "l", "turns", body=step)], {"x": (1, 4)}, [array("n", 3, "int64")])
    graph = read(net)
    taken = [(n.within[0].part, n.times, n.input(0).shape) for n in graph.nodes if n.name == "drop"]
    assert taken == [("body[0]", 1, (1, 4)), ("body[1]", 2, (0, 4))]


def test_a_scan() -> None:
    step = body(
        [node("Add", "s e", "t", "add"), node("Mul", "e two", "u", "mul")],
        "t u",
        {"s": (3,), "e": (3,)},
    )
    net = model(
        [node("Scan", "init x", "last all", "scan", body=step, num_scan_inputs=1, scan_output_axes=[1])],
        {"init": (3,), "x": (6, 3)},
        [array("two", 2.0)],
    )
    graph = read(net)
    assert (shapes(graph)["last"], shapes(graph)["all"]) == ((3,), (3, 6))
    assert runs(graph) == {"add": 6, "mul": 6}
    along = model(
        [node("Scan", "init x", "last all", body=step, num_scan_inputs=1, scan_input_axes=[-1])],
        {"init": (3,), "x": (3, 6)},
        [array("two", 2.0)],
    )
    assert runs(read(along)) == {"add": 6, "mul": 6}


def test_the_first_scan_goes_over_a_batch() -> None:
    step = body([node("Add", "s e", "t", "add")], "t t", {"s": (3,), "e": (3,)})
    net = model(
        [node("Scan", "_ init x", "last all", body=step, num_scan_inputs=1)],
        {"init": (2, 3), "x": (2, 6, 3)},
        opset=8,
        ir=3,
    )
    assert runs(read(net)) == {"add": 12}


def test_a_map_over_a_sequence() -> None:
    step = body([node("Relu", "e", "o", "act")], "o", {"e": None})
    nodes = [
        node("SplitToSequence", "x parts", "s", axis=0),
        node("SequenceMap", "s", "m", "map", body=step),
        node("ConcatFromSequence", "m", "y", axis=0),
    ]
    graph = read(model(nodes, {"x": (7, 2)}, [ints("parts", 1, 3, 3)]))
    assert [(n.within[0].part, n.times, n.output().shape) for n in graph.nodes if n.name == "act"] == [
        ("body[0]", 1, (1, 2)),
        ("body[1]", 2, (3, 2)),
    ]
    assert shapes(graph)["y"] == (7, 2)
    assert profile(graph).total("flops") == 14
    assert profile(graph).exact


def test_a_body_that_does_not_fit_is_told() -> None:
    step = loop(node("MatMul", "s w", "t", "mm"), stored=[weight("w", 5, 5)])
    net = model([node("Loop", "n _ x", "l", body=step)], {"x": (4, 4)}, [array("n", 2, "int64")])
    counted = profile(net)
    assert not counted.exact
    assert any("mm" in w for w in counted.notes)


@pytest.mark.parametrize("nodes", [1, 400])
def test_endless_loops_end(nodes: int) -> None:
    """Loops that run long, or forever, are followed for a while, then counted by a run that stands for all."""
    many = [node("Add", f"v{i} one", f"v{i + 1}") for i in range(nodes)]
    step = loop(*many, carried="v0", out=f"keep v{nodes}")
    for trips in (10**12, None):
        stored = [array("one", 1, "int64"), array("zero", 0, "int64"), array("yes", True, bool)]
        given = "n yes zero" if trips else "_ yes zero"
        if trips:
            stored.append(array("n", trips, "int64"))
        net = model([node("Loop", given, "l", "loop", body=step), node("Relu", "x", "y")], {"x": (1,)}, stored)
        assert set(runs(read(net)).values()) == {trips}


def test_a_loop_without_a_body_is_unknown() -> None:
    counted = profile(model([node("Loop", "n _ x", "l", "loop")], {"x": (4,)}, [array("n", 2, "int64")]))
    assert not counted.exact
    assert counted.rows[0].count is None
    assert "nothing is known about the body of Loop 'loop'" in counted.rows[0].note


def test_a_map_over_nothing() -> None:
    step = body([node("Relu", "e", "o")], "o", {"e": None})
    nodes = [
        node("SequenceEmpty", "", "s"),
        node("SequenceMap", "s", "m", "map", body=step),
        node("SequenceLength", "m", "n"),
    ]
    counted = profile(model(nodes, {"x": (1,)}))
    assert counted.rows[-1].count == 0 if counted.rows else counted.exact


def test_the_branch_that_only_hands_on() -> None:
    then, other = body([], "x"), body([node("Relu", "x", "o")], "o")
    net = model(
        [node("If", "c", "y", "fork", then_branch=then, else_branch=other)], [value("x", (4,)), value("c", (), BOOL)]
    )
    counted = profile(net)
    assert shapes(counted.graph)["y"] == (4,)
    assert counted.total("flops") == 4
    assert not counted.exact


@pytest.mark.parametrize("growing", [False, True], ids=["as large", "growing"])
def test_loops_in_loops_are_resolved_once_for_each_input(growing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body runs at least twice to see whether its shapes change: 2^18 times in a nest of 18, if nothing is kept."""
    nested = loop(node("Concat", "s x", "t", axis=0) if growing else node("Relu", "s", "t"))
    for _ in range(17):
        nested = loop(node("Loop", "two yes s", "t", body=nested))
    resolved: list[int] = []
    once = Pass.run
    monkeypatch.setattr(Pass, "run", lambda *arguments: (resolved.append(1), once(*arguments))[1])
    stored = [array("two", 2), array("yes", True)]
    graph = read(model([node("Loop", "two yes x", "y", body=nested)], {"x": (2, 4)}, stored))
    assert len(graph.nodes) > 18
    assert len(resolved) < 1000


def test_bodies_that_run_in_too_many_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flopwise.sizes.run.BODIES", 2)
    net = model(
        [node("Loop", "n yes x", "y", body=loop(node("Concat", "s s", "t", axis=0)))],
        {"x": (2, 4)},
        [array("n", 4), array("yes", True)],
    )
    with pytest.raises(ModelError, match="run in more than 2 ways"):
        read(net)
