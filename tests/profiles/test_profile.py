from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import onnx
import pytest
from onnx import helper
from tests.graphs import sketch

from flopwise.api.profile import profile
from flopwise.conventions import CONVENTIONS, Convention, get
from flopwise.errors import FlopwiseError, InputError, ShapeError
from flopwise.graph import Graph, Node, Program, Submodule
from flopwise.operators import tables
from flopwise.operators.counts import FLOPS, MACS, Counts
from flopwise.operators.operator import Operator
from flopwise.profiles.count import profile_graph
from flopwise.profiles.profile import Profile
from flopwise.rows import FIGURES


def network(batch: int = 2) -> Graph:
    """Two matrix products on one shared weight, each followed by a ReLU, and a constant scale."""
    shapes = {"x": (batch, 8), "w": (8, 8), "wt": (8, 8), "b": (8,), "scale": (), "y": (batch, 8)}
    kinds = {"x": "input", "w": "weight", "b": "weight", "scale": "constant"}
    made = sketch({**shapes, **{f"t{i}": (batch, 8) for i in range(4)}}, **kinds)  # type: ignore[arg-type]
    made.node("MatMul", "x w", "t0", "first")
    made.node("Relu", "t0", "t1")
    made.node("Transpose", "w", "wt", "turn")
    made.node("Gemm", "t1 wt b", "t2", "second")
    made.node("Relu", "t2", "t3")
    made.node("Mul", "t3 scale", "y", "scaled")
    return made.graph()


def mystery(op: str = "my::Thing", shape: tuple[int, ...] | None = (4,)) -> Graph:
    """A ReLU, an operator that nobody knows, and a ReLU of a known shape."""
    made = sketch({"x": (4,), "a": (4,), "b": shape, "y": (4,)}, x="input")
    made.node("Relu", "x", "a")
    made.node(op, "a", "b", "odd")
    made.node("Relu", "x", "y")
    return made.graph()


def counted(graph: Graph, convention: str | Convention = "flops", **options: Any) -> Profile:
    return profile_graph(graph, get(convention), **options)


def test_rows_in_execution_order() -> None:
    found = counted(network())
    assert [(r.name, r.macs, r.flops, r.count) for r in found.rows] == [
        ("first", 128, 256, 256),
        ("relu_1", 0, 16, 16),
        ("second", 128, 272, 272),
        ("relu_2", 0, 16, 16),
        ("scaled", 0, 16, 16),
    ]
    assert [(r.params, r.weight_bytes) for r in found.rows] == [(64, 256), (0, 0), (8, 32), (0, 0), (0, 0)]
    assert [(r.input_bytes, r.output_bytes, r.activations) for r in found.rows] == [(64, 64, 16)] * 5
    assert (found.total("macs"), found.total("params"), found.peak_activation_bytes) == (256, 72, 128)
    assert found.exact
    assert found.unknown == {}
    assert found.unresolved == ()


def test_a_view_of_the_same_counts() -> None:
    in_macs = counted(network(), "macs")
    assert [r.count for r in in_macs.rows] == [128, 0, 128, 0, 0]
    assert [r.flops for r in in_macs.rows] == [r.flops for r in counted(network()).rows]


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_sums_of_rows_are_totals(convention: str) -> None:
    for graph in (network(), mystery(), mystery(shape=None)):
        found = counted(graph, convention)
        for figure in FIGURES:
            assert found.total(figure) == sum(v for r in found.rows if (v := getattr(r, figure)) is not None), figure


@pytest.mark.parametrize("convention", ["flops", "macs", "textbook", "molchanov"])
def test_twice_the_batch_is_twice_the_work(convention: str) -> None:
    once, twice = counted(network(2), convention), counted(network(4), convention)
    for figure in ("count", "macs", "flops", "input_bytes", "output_bytes", "activations"):
        assert twice.total(figure) == 2 * once.total(figure), figure
    for figure in ("params", "buffers", "weight_bytes"):
        assert twice.total(figure) == once.total(figure), figure


def test_folding_can_be_turned_off() -> None:
    folded, all_of_it = counted(network()), counted(network(), folding=False)
    assert [r.name for r in all_of_it.rows] == ["first", "relu_1", "turn", "second", "relu_2", "scaled"]
    assert folded.total("params") == all_of_it.total("params")
    assert "1 operator on weights, constants and shapes alone runs once and is not counted (--no-fold)" in folded.notes
    assert not any("run once" in note for note in all_of_it.notes)


# --- what is not known ---


def test_an_operator_without_a_rule() -> None:
    found = counted(mystery())
    assert [r.count for r in found.rows] == [4, None, 4]
    assert [r.missing for r in found.rows] == ["", "rule", ""]
    assert (found.total("count"), found.sum.unknown, found.exact) == (8, 1, False)
    assert found.unknown == {"my::Thing": 1}
    assert "unknown: my::Thing at 'odd' (no rule); totals are lower bounds" in found.notes


def test_a_shape_that_nobody_could_resolve() -> None:
    found = counted(mystery("Relu", None))
    odd = found.rows[1]
    assert (odd.count, odd.missing, odd.output_bytes, odd.activations) == (None, "fact", None, None)
    assert found.unknown == {}
    assert found.unresolved == ("b",)
    assert not found.exact
    assert found.peak_activation_bytes is None
    assert "unresolved: 1 tensor has no shape, from Relu at 'odd' on; totals are lower bounds" in found.notes
    origin = "from my::Thing at 'odd' on: give it a rule with shape= (flopwise.Operator)"
    own = counted(mystery(shape=None), rules={"my::Thing": lambda node: Counts()})
    assert f"unresolved: 1 tensor has no shape, {origin}; totals are lower bounds" in own.notes


def broken(error: Exception) -> Callable[[Node], Counts]:
    def rule(node: Node) -> Counts:
        raise error

    return rule


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (broken(ZeroDivisionError("division by zero")), "ZeroDivisionError: division by zero"),
        (broken(IndexError("list index out of range")), "IndexError: list index out of range"),
        (broken(KeyError("axis")), "KeyError: 'axis'"),
        (broken(TypeError("no number")), "TypeError: no number"),
        (broken(ValueError("no axis")), "ValueError: no axis"),
        (broken(AttributeError("no lower")), "AttributeError: no lower"),
        (broken(OverflowError("too large")), "OverflowError: too large"),
        (lambda node: Counts(mac=[1, 2]), "TypeError"),  # type: ignore[arg-type] # as a list among the attributes gives
        (lambda node: Counts(mac=0.5), "ValueError: a count is not a whole number"),  # type: ignore[arg-type]
        (lambda node: Counts(mac=-1), "ValueError: a count is not a whole number"),
        (broken(ShapeError("the shape of 'b' is unresolved")), "the shape of 'b' is unresolved"),
        (broken(FlopwiseError("no such thing")), "no such thing"),
    ],
)
def test_what_goes_wrong_in_a_rule_is_told(
    rule: Callable[[Node], Counts], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(tables._ROWS, "my::Thing", Operator(rule))
    found = counted(mystery())
    odd = found.rows[1]
    assert (odd.counts, odd.count, odd.missing) == (None, None, "fact")
    assert told in odd.note
    assert found.unknown == {}
    assert not found.exact
    assert found.total("count") == 8
    assert any(note.startswith("uncounted: my::Thing at 'odd' (") and told in note for note in found.notes)


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt(), RuntimeError("a fault of ours")])
def test_what_is_no_fault_of_the_model_is_not_hidden(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tables._ROWS, "my::Thing", Operator(broken(error)))
    with pytest.raises(type(error)):
        counted(mystery())


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (broken(KeyError("axis")), r"failed with KeyError: 'axis' \(test_profile\.py:\d+\)"),
        (broken(RuntimeError("x")), r"failed with RuntimeError: x \(test_profile\.py:\d+\)"),
        (broken(SystemExit(0)), r"ended itself with SystemExit\(0\) while its rule of my::Thing counted"),
        (lambda node: 5, "returned an int, not Counts"),
        (lambda node: (1, 2), "returned a tuple, not Counts"),
        (lambda node: Counts(mac=0.5), "returned Counts with mac=0.5, which is not a whole number"),  # type: ignore[arg-type]
        (lambda node: Counts(mac=-1), "returned Counts with mac=-1, which is not a whole number"),
    ],
)
def test_a_mistake_in_a_rule_of_the_user_is_not_the_model_s(rule: Any, told: str) -> None:
    with pytest.raises(FlopwiseError, match=rf"^test_profile\.py: (the rule of my::Thing )?{told}"):
        counted(mystery(), rules={"my::Thing": rule})


@pytest.mark.parametrize("rule", [print, lambda call: "x", lambda call: 5, lambda call: [5]])
def test_a_shape_rule_of_the_user_returns_shapes(rule: Any) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, [2])],
        [onnx.ValueInfoProto(name="y")],
    )
    rules = {"Relu": Operator(lambda node: Counts(), shape=rule)}
    with pytest.raises(FlopwiseError, match=r"the shape rule of Relu returned .*, not a shape for each output"):
        profile(helper.make_model(graph).SerializeToString(), rules=rules)


def test_a_convention_of_the_user_lists_rows() -> None:
    own = replace(get("flops"), name="own", listing=lambda *given: None)  # type: ignore[arg-type]
    with pytest.raises(FlopwiseError, match="the convention own does not list the layers"):
        counted(mystery(), convention=own)


def test_a_rule_of_the_user_may_lack_a_shape() -> None:
    found = counted(mystery(shape=None), rules={"my::Thing": broken(TypeError("None has no length"))})
    assert found.rows[1].missing == "fact"
    assert counted(mystery(), rules={"my::Thing": broken(ShapeError("no"))}).rows[1].note == "no"


def test_notes_of_many_rows_are_one_note() -> None:
    made = sketch({"x": (4,)} | {f"t{i}": (4,) for i in range(5)}, x="input")
    for i in range(5):
        made.node("my::Thing", "x", f"t{i}", f"odd{i}")
    found = counted(made.graph(outputs="t4"))
    assert found.notes == ("unknown: my::Thing at 'odd0' and 4 more (no rule); totals are lower bounds",)


# --- rules and conventions of the user ---


def test_rules_of_the_user_win() -> None:
    twice = {"Relu": lambda node: Counts(cmp=2) * node.output().numel, "my::Thing": lambda node: Counts(mac=7)}
    for convention in ("flops", "textbook"):
        found = counted(mystery(), convention, rules=twice)
        assert [r.counts for r in found.rows] == [Counts(cmp=8), Counts(mac=7), Counts(cmp=8)]
        assert found.unknown == {}
    assert counted(mystery()).rows[0].counts == Counts(cmp=4)


def test_a_convention_of_the_user() -> None:
    mine = Convention(
        name="mine",
        unit="OP",
        summary="s",
        source="here",
        weights=MACS,
        overrides={"Relu": lambda node, counts: Counts(mac=100)},
        others="zero",
    )
    assert [r.count for r in counted(mystery(), mine).rows] == [100, 0, 100]
    refusing = Convention(name="mine", unit="OP", summary="s", source="here", weights=FLOPS, others="unknown")
    found = counted(mystery(), refusing)
    assert [r.count for r in found.rows] == [None] * 3
    assert [r.macs for r in found.rows] == [0, None, 0]
    assert "unknown: Relu at 'relu_1' and 1 more (mine cannot count it); totals are lower bounds" in found.notes


# --- forms of a profile ---


def integers(value: Any) -> bool:
    """Whether every number in a value is an integer."""
    if isinstance(value, dict):
        return all(map(integers, value.values()))
    if isinstance(value, list):
        return all(map(integers, value))
    return not isinstance(value, float)


@pytest.mark.parametrize("graph", [network(), mystery(), mystery(shape=None)])
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_the_json_schema(graph: Graph, convention: str) -> None:
    found = counted(graph, convention).to_dict()
    assert json.loads(json.dumps(found)) == found
    assert integers(found)
    assert list(found) == ["schema", "model", "inputs", "convention", "totals", "layers", "coverage", "notes"]
    assert found["schema"] == "flopwise.profile/1"
    assert list(found["totals"]) == [
        *("count", "macs", "needed_macs", "flops", "ops", "params", "buffers", "weight_bytes"),
        *("activations", "output_bytes", "peak_activation_bytes"),
        *(["own"] if CONVENTIONS[convention].whole is not None and CONVENTIONS[convention].whole.totals else []),
    ]
    for layer in found["layers"]:
        assert list(layer) == [
            *("name", "op", "origin", "scope", "inputs", "outputs", "count", "macs", "flops", "ops"),
            *("params", "buffers", "weight_bytes", "activations", "output_bytes"),
        ]
    assert found["coverage"]["nodes"] == len(found["layers"])


def test_what_is_unknown_is_null_and_not_zero() -> None:
    layers = counted(mystery(shape=None)).to_dict()["layers"]
    odd = layers[1]
    nulls = ("count", "macs", "flops", "ops", "activations", "output_bytes")
    assert [odd[key] for key in nulls] == [None] * 6
    assert odd["outputs"] == [None]
    alone = sketch({"x": (4,), "y": (4,)}, x="input")
    alone.node("my::Thing", "x", "y")
    totals = counted(alone.graph()).to_dict()["totals"]
    assert (totals["count"], totals["macs"], totals["flops"], totals["ops"]) == (None, None, None, None)
    assert totals["activations"] == totals["output_bytes"] / 4 == 4
    lost = sketch({"x": (4,), "y": None}, x="input")
    lost.node("my::Thing", "x", "y")
    totals = counted(lost.graph()).to_dict()["totals"]
    assert (totals["activations"], totals["output_bytes"]) == (None, None)


def test_as_a_data_frame() -> None:
    pytest.importorskip("pandas")
    frame = counted(network()).to_pandas()
    assert frame["name"].tolist() == ["first", "relu_1", "second", "relu_2", "scaled"]
    assert frame["macs"].sum() == 256


def test_no_such_figure() -> None:
    with pytest.raises(InputError, match="unknown figure 'joules'; known: count, macs, needed_macs, flops, params"):
        counted(network()).total("joules")


def test_a_graph_goes_straight_in() -> None:
    assert profile(network()).total("macs") == 256
    assert "first" in str(profile(network()))


def test_an_empty_graph() -> None:
    found = counted(Graph("none", "hand", "", (), (), ()))
    assert (found.rows, found.total("count"), found.exact, found.peak_activation_bytes) == ((), 0, True, 0)
    totals = found.to_dict()["totals"]
    figures = ("count", "macs", "needed_macs", "flops", "params", "activations", "output_bytes")
    assert [totals[figure] for figure in figures] == [0] * 7


def test_each_repr_is_one_short_line() -> None:
    found = profile_graph(network(), get("flops"))
    for thing in (found, found.graph, found.rows[0], found.by("op")[0], found.sum):
        assert len(repr(thing)) < 200
        assert "\n" not in repr(thing)
    assert repr(found).startswith("<Profile ")
    assert f"{found.total('params'):,} parameters" in repr(found)
    assert f"MACs {found.rows[0].macs:,}" in repr(found.rows[0])


def test_what_is_unknown_shows_in_a_repr() -> None:
    node = Node("acme::Mystery", "m", (), ())
    found = profile_graph(Graph("net", "onnx", "", (), (), (node,)), get("flops"))
    assert repr(found) == "<Profile 'net': >= 0 FLOP (flops), 0 parameters, 1 layer>"
    assert "count ?" in repr(found.rows[0])


def test_only_a_file_is_estimated_by_a_tool_that_counts_programs() -> None:
    module = Submodule("", "net.Net", {}, {}, (), False, "")
    made = sketch({"x": (4, 4), "y": (4, 4)}, x="input")
    made.node("Relu", "x", "y")
    file = made.graph()
    program = replace(file, program=Program(modules=(module,)))
    seeing = [convention for convention in CONVENTIONS.values() if convention.sees == "programs"]
    assert seeing
    for convention in seeing:
        assert replace(profile_graph(file, CONVENTIONS["flops"]), convention=convention).estimated
        assert not replace(profile_graph(program, CONVENTIONS["flops"]), convention=convention).estimated
    assert not profile_graph(file, CONVENTIONS["flops"]).estimated


def test_the_state_is_what_a_model_is_handed_but_for_single_numbers() -> None:
    made = sketch({"x": (4, 4), "k": (2, 3), "length": (), "open": None, "y": (4, 4)}, x="input")
    for name in ("k", "length", "open"):
        made.tensors[name] = replace(made.tensors[name], kind="state")
    made.node("Relu", "x", "y")
    assert profile_graph(made.graph("x k length open"), CONVENTIONS["flops"]).state_bytes == 2 * 3 * 4
    assert profile_graph(made.graph("x"), CONVENTIONS["flops"]).state_bytes == 0
