"""``exact`` means exact: no unknown, no missing shape, no upper bound, no branch or loop that the data decide."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.formats.models import model, node
from tests.graphs import sketch

import flopwise
from flopwise.analyses.training import train
from flopwise.conventions import CONVENTIONS
from flopwise.graph import Body, Graph, Program, Tensor
from flopwise.operators.counts import Counts
from flopwise.profiles.count import profile_graph


def one(op: str, bound: bool = False, body: Body | None = None, shape: tuple[int, ...] | None = (4, 4)) -> Graph:
    """A ReLU, perhaps of a tensor whose size is an upper bound, and one operator, perhaps in a body."""
    made = sketch({"x": (4, 4), "k": (1,), "a": (4, 4), "y": shape, "i": (4, 4)}, x="input", k="constant")
    made.node("Relu", "x", "a", "first")
    made.node(op, "a k" if op == "TopK" else "a", "y i" if op == "TopK" else "y", "it", within=(body,) if body else ())
    graph = made.graph()
    if not bound:
        return graph
    open_ended = Tensor("a", (4, 4), "float32", bound=True)
    first, second = graph.nodes
    return replace(graph, nodes=(replace(first, outputs=(open_ended,)), replace(second, inputs=(open_ended,))))


def test_a_step_is_exact_where_its_backward_pass_is() -> None:
    made = sketch({"x": (4, 4), "w": (4, 4), "a": (4, 4), "y": (4, 4)}, x="input", w="weight")
    made.node("MatMul", "x w", "a", "product")
    made.node("mine::Gate", "a", "y", "last")
    rules = {"mine::Gate": lambda node: Counts(mul=16)}
    forward = profile_graph(made.graph(), CONVENTIONS["flops"], rules, training=True)
    assert forward.exact
    step = train(forward)
    assert not step.exact
    assert not step.to_dict()["coverage"]["exact"]
    assert ">=" not in repr(step)
    assert train(forward, rules={"mine::Gate": lambda node, wrt: Counts(mul=16)}).exact is False  # what it keeps


@pytest.mark.parametrize(
    ("graph", "bounded", "exact"),
    [
        (one("Relu"), [], True),
        (one("TopK"), ["it"], False),
        (one("Relu", bound=True), ["first", "it"], False),
        (one("Reshape", bound=True), ["first"], False),
        (one("Relu", body=Body(0, "body", 5)), [], True),
        (one("Relu", body=Body(0, "body", 5, bound=True)), ["it"], False),
        (one("Relu", body=Body(0, "then_branch", 1, True)), ["it"], False),
        (one("Relu", shape=None), [], False),
        (one("my::Thing"), [], False),
        (replace(one("Relu"), program=Program(guessed=True)), [], False),
        (replace(one("Relu"), stated=frozenset({"y"})), [], False),
    ],
    ids=[
        "plain",
        "rule",
        "shape",
        "no work",
        "loop",
        "open loop",
        "branch",
        "unresolved",
        "unknown",
        "made up",
        "stated",
    ],
)
def test_exact(graph: Graph, bounded: list[str], exact: bool) -> None:
    found = profile_graph(graph, CONVENTIONS["flops"])
    assert (list(found.bounded), found.exact) == (bounded, exact)
    coverage = found.to_dict()["coverage"]
    assert (coverage["bounded"], coverage["exact"]) == (bounded, exact)


def test_a_tool_with_a_rule_of_its_own_is_exact_where_flopwise_is_not() -> None:
    assert profile_graph(one("TopK"), CONVENTIONS["onnx-tool"]).exact
    assert not profile_graph(one("TopK"), CONVENTIONS["macs"]).exact


def test_a_branch_that_does_not_run_bounds_nothing() -> None:
    made = sketch({"x": (4, 4), **dict.fromkeys("abcy", (4, 4))}, x="input")
    made.node("If", "x", "y", "fork")
    made.node("Exp", "x", "a", "dear", within=(Body(0, "then_branch", 1, True),))
    made.node("Identity", "x", "b", "cheap", within=(Body(0, "else_branch", 1, True),))
    assert profile_graph(made.graph(), CONVENTIONS["flops"]).bounded == ("dear",)


def test_a_file_whose_data_decide_a_size() -> None:
    """NonZero gives as many positions as there are elements at most."""
    content = model([node("NonZero", "x", "n", "where"), node("Cast", "n", "y", to=1)], {"x": (2, 3)})
    found = flopwise.profile(content)
    assert not found.exact
    assert found.bounded[0] == "where"


def test_elements_that_were_made_up_may_decide_what_runs() -> None:
    torch = pytest.importorskip("torch")

    class Branches(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x):  # type: ignore[no-untyped-def]
            return x @ x if x.sum() > 0 else x

    assert not flopwise.profile(Branches(), (4, 4)).exact
    assert flopwise.profile(Branches(), torch.ones(4, 4)).exact


def test_selecting_experts_is_exact_and_selecting_anything_else_is_a_bound() -> None:
    made = sketch(
        {"x": (4, 8), "k": (1,), "scores": (4, 2), "ids": (4, 2), "rows": (8, 8), "w": (3, 8, 16), "y": (8, 16)}
    )
    made.node("TopK", "x k", "scores ids", "router")
    made.node("Gather", "x ids", "rows", "routed")
    made.node("aten::_grouped_mm", "rows w", "y", "experts")
    graph = made.graph()
    profile = profile_graph(graph, CONVENTIONS["flops"])
    assert profile.bounded == ()
    assert not any("upper bounds" in note for note in profile.notes)
    assert profile.rows[0].count == 4 * 8 * 2
    alone = replace(graph, nodes=graph.nodes[:1])
    assert profile_graph(alone, CONVENTIONS["flops"]).bounded == ("router",)
