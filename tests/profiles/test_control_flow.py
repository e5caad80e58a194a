"""Rows in the bodies of control flow: figures for all runs, and which branch counts."""

from __future__ import annotations

from dataclasses import replace

from tests.graphs import Sketch, sketch
from tests.work import lines

from flopwise.conventions import CONVENTIONS
from flopwise.graph import Body
from flopwise.profiles.control_flow import settle_control_flow
from flopwise.profiles.count import profile_graph
from flopwise.profiles.profile import Profile

SHAPES = {"x": (4, 4), "w": (4, 4), "v": (4, 4), "y": (4, 4), **{f"t{i}": (4, 4) for i in range(8)}}


def made() -> Sketch:
    return sketch(dict(SHAPES), x="input", w="weight", v="weight")


def profiled(graph: Sketch, convention: str = "macs") -> Profile:
    return profile_graph(graph.graph(), CONVENTIONS[convention])


def test_figures_are_for_all_runs_and_weights_for_one() -> None:
    net = made()
    net.node("Loop", "x", "y", "loop")
    net.node("MatMul", "x w", "t0", "mm", within=(Body(0, "body", 5),))
    loop, row = profiled(net).rows
    assert (loop.count, loop.times, loop.within) == (0, 1, ())
    assert (row.times, row.within) == (5, ("loop/body",))
    assert (row.count, row.macs, row.activations, row.output_bytes) == (320, 320, 80, 320)
    assert (row.params, row.weight_bytes) == (16, 64)


def test_a_branch_in_a_branch() -> None:
    """The most expensive branch of the inner operator decides what its branch of the outer one costs."""
    net = made()
    net.node("If", "x", "y", "outer")
    then, other = Body(0, "then_branch", 1, True), Body(0, "else_branch", 1, True)
    net.node("MatMul", "x w", "t0", "one", within=(then,))
    net.node("MatMul", "x w", "t1", "two", within=(then,))
    net.node("If", "x", "t2", "inner", within=(other,))
    deep = Body(3, "then_branch", 1, True), Body(3, "else_branch", 1, True)
    for name in ("a", "b", "c"):
        net.node("MatMul", "x w", f"t{3 + 'abc'.index(name)}", name, within=(other, deep[0]))
    net.node("MatMul", "x v", "t6", "d", within=(other, deep[1]))
    counted = profiled(net)
    assert {r.name for r in counted.rows if r.times} == {"outer", "inner", "a", "b", "c"}
    assert counted.total("macs") == 3 * 64
    assert [n for n in counted.notes if "branches" in n] == [
        "'outer' takes one of its branches, and the most expensive counts: then_branch 128, else_branch 192",
        "'inner' takes one of its branches, and the most expensive counts: then_branch 192, else_branch 64",
    ]


def test_a_branch_in_a_loop_counts_for_each_trip() -> None:
    net = made()
    net.node("Loop", "x", "y", "loop")
    body = Body(0, "body", 10)
    net.node("If", "x", "t0", "fork", within=(body,))
    net.node("MatMul", "x w", "t1", "dear", within=(body, Body(1, "then_branch", 1, True)))
    net.node("Relu", "x", "t2", "cheap", within=(body, Body(1, "else_branch", 1, True)))
    counted = profiled(net)
    assert counted.total("macs") == 640
    assert {r.name: r.times for r in counted.rows} == {"loop": 1, "fork": 10, "dear": 10, "cheap": 0}


def test_the_convention_says_which_branch_is_dear() -> None:
    net = made()
    net.node("If", "x", "y", "fork")
    net.node("MatMul", "x w", "t0", "product", within=(Body(0, "then_branch", 1, True),))
    for i in range(1, 4):
        net.node("Exp", "x", f"t{i}", f"exp{i}", within=(Body(0, "else_branch", 1, True),))
    assert {r.name for r in profiled(net, "macs").rows if r.times == 0} == {"exp1", "exp2", "exp3"}
    assert {r.name for r in profiled(net, "onnx-tool").rows if r.times == 0} == {"product"}


def test_an_unknown_number_of_runs_is_no_zero() -> None:
    net = made()
    net.node("Loop", "x", "y", "loop")
    net.node("MatMul", "x w", "t0", "mm", within=(Body(0, "body", None),))
    net.node("Relu", "x", "t1", "after")
    counted = profiled(net, "flops")
    row = counted.rows[1]
    assert (row.times, row.count, row.counts, row.output_bytes, row.params) == (None, None, None, None, 16)
    assert (row.missing, row.note) == ("fact", "it is not known how often it runs")
    assert not counted.exact
    assert counted.total("flops") == 16
    assert "uncounted: MatMul runs an unknown number of times, first 'mm'; totals are lower bounds" in counted.notes


def test_without_control_flow_nothing_changes() -> None:
    net = made()
    net.node("MatMul", "x w", "y", "mm")
    (layer,) = profiled(net).to_dict()["layers"]
    assert not {"times", "within"} & layer.keys()
    net.node("Loop", "x", "t0", "loop")
    net.node("Relu", "x", "t1", "r", within=(Body(1, "body", 2),))
    assert profiled(net).to_dict()["layers"][2]["times"] == 2
    assert profiled(net).to_dict()["layers"][2]["within"] == ["loop/body"]


def test_deep_branches_cost_no_more_than_their_rows() -> None:
    """Lines grow with the rows and with what is around them, not with the two together."""

    def settled(rows: int, depth: int = 40) -> int:
        net = made()
        within: tuple[Body, ...] = ()
        for level in range(depth):
            net.node("If", "x", "y" if not level else "t0", f"if{level}", within=within)
            within = (*within, Body(level, "then_branch", 1, True))
        for row in range(rows):
            net.node("Relu", "x", "t1", f"r{row}", within=within)
        counted = profile_graph(net.graph(), CONVENTIONS["flops"])
        assert counted.total("count") == 16 * rows
        plain = replace(counted.graph, nodes=counted.graph.nodes)
        seen = lines(lambda: settle_control_flow(plain, counted.rows))
        return sum(number for line, number in seen.items() if "control_flow" in line)

    once, twice = settled(200), settled(400)
    assert twice - once < 40 * 200
