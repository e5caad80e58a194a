"""Rows are the same whether each is worked out by itself or many alike are worked out once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.graphs import sketch

from flopwise.conventions import CONVENTIONS
from flopwise.graph import Graph, Node
from flopwise.profiles import count
from flopwise.profiles.count import profile_graph


def graph() -> Graph:
    """Operators that are alike but for one thing each, every one of them twice."""
    made = sketch({"x": (4, 4), "v": (4, 4)}, x="input", v="weight")
    for place in range(2):
        for name in ("plain", "bound", "broken", "unknown", "sum", "pair", "twice", "shared", "own", "again", "made"):
            made.tensor(f"{name}{place}", (4, 4))
        for name in "wpqe":
            made.tensor(f"{name}{place}", (4, 4), "weight")
        made.tensor(f"c{place}", (4, 4), "buffer")
        made.tensor(f"f{place}", (4, 4))
        made.node("Relu", "x", f"plain{place}", f"plain{place}")
        made.node("Relu", f"plain{place}", f"bound{place}", f"bound{place}")
        made.node("Relu", "x", f"broken{place}", f"broken{place}")
        made.node("acme::Mystery", "x", f"unknown{place}", f"unknown{place}")
        made.node("Add", f"x w{place}", f"sum{place}", f"sum{place}")
        made.node("Add", f"p{place} q{place}", f"pair{place}", f"pair{place}")
        made.node("Add", f"e{place} e{place}", f"twice{place}", f"twice{place}")
        made.node("MatMul", "x v", f"shared{place}", f"shared{place}")
        made.node("MatMul", f"x w{place}", f"own{place}", f"own{place}")
        made.node("Mul", f"x c{place}", f"again{place}", f"again{place}")
        made.node("Exp", f"w{place}", f"f{place}", f"folded{place}")
        made.node("MatMul", f"x f{place}", f"made{place}", f"made{place}")
    return replace(made.graph("x", "made1"), nodes=tuple(map(marked, made.nodes)))


#: The attributes of all operators: readers share what is equal.
ATTRIBUTES: dict[str, Any] = {}


def marked(node: Node) -> Node:
    """A node with a fault, or with an input whose size is a bound, where its name says so."""
    node = replace(node, attrs=ATTRIBUTES)
    if node.name == "broken1":
        return replace(node, fault="has group 0")
    if node.name == "bound1":
        return replace(node, inputs=(replace(node.input(0), bound=True),))
    return node


def figures(profile: Any) -> list[tuple[Any, ...]]:
    fields = ("counts", "view", "count", "params", "buffers", "weight_bytes", "input_bytes", "output_bytes")
    names = ("name", *fields, "activations", "missing", "note", "bound")
    return [tuple([getattr(row, name) for name in names]) for row in profile.rows]


@pytest.mark.parametrize("convention", ["flops", "macs", "onnx-tool"])
@pytest.mark.parametrize("folding", [True, False])
def test_many_operators_are_counted_as_few_are(convention: str, folding: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    few = profile_graph(graph(), CONVENTIONS[convention], folding=folding)
    monkeypatch.setattr(count, "MANY", 0)
    many = profile_graph(graph(), CONVENTIONS[convention], folding=folding)
    assert figures(many) == figures(few)
    assert (many.notes, many.bounded, many.exact) == (few.notes, few.bounded, few.exact)


def test_what_is_alike_but_for_a_fault_or_a_bound_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count, "MANY", 0)
    rows = {row.name: row for row in profile_graph(graph(), CONVENTIONS["flops"]).rows}
    assert (rows["broken0"].count, rows["broken1"].count, rows["broken1"].note) == (16, None, "has group 0")
    assert (rows["bound0"].bound, rows["bound1"].bound) == (False, True)
    assert (rows["shared0"].params, rows["shared1"].params) == (16, 0)
    assert (rows["sum0"].params, rows["own0"].params, rows["again0"].buffers) == (16, 0, 16)


@pytest.mark.parametrize("name", sorted(name for name, convention in CONVENTIONS.items() if convention.whole))
def test_a_tool_that_sees_programs_says_nothing_of_a_file_s_unknown_operators(name: str) -> None:
    profile = profile_graph(graph(), CONVENTIONS[name])
    rows = [row for row in profile.rows if row.node.op == "acme::Mystery"]
    assert all(row.count is None for row in rows)
    assert not rows or not profile.exact
