"""One training step: its totals are exact where every count, every kept tensor and every number of runs is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.graphs import Sketch, sketch

import flopwise
from flopwise.analyses.training import gradients, train
from flopwise.graph import Body, Graph, Invocation, Program, ProgramTensor
from flopwise.operators.counts import Counts
from flopwise.profiles.profile import Profile
from flopwise.profiles.training import Training

_SHAPES = dict.fromkeys("xaby", (4, 8))


def net(op: str = "Exp") -> Sketch:
    """y = op(x w)."""
    made = sketch({**_SHAPES, "w": (8, 8)}, x="input", w="weight")
    made.node("MatMul", "x w", "a", "product")
    made.node(op, "a", "y", "it")
    return made


def trained(graph: Graph, **options: object) -> tuple[Profile, Training]:
    profile = flopwise.profile(graph, train=True, **options)  # type: ignore[arg-type]
    assert profile.training is not None
    return profile, profile.training


def test_a_step_of_known_gradients_is_exact() -> None:
    profile, training = trained(net().graph())
    assert training.exact
    assert [row.saved_bytes for row in profile.rows] == [4 * 8 * 4, 4 * 8 * 4]
    assert training.saved_bytes == 2 * 4 * 8 * 4
    assert profile.to_dict()["training"]["exact"] is True


def test_a_gradient_that_says_nothing_of_what_it_keeps_makes_the_step_a_lower_bound() -> None:
    rules = {"acme::Mystery": lambda node, wanted: Counts(mul=5)}
    profile, training = trained(net("acme::Mystery").graph(), backward_rules=rules)
    assert [row.untrained for row in profile.rows] == ["", ""]
    assert [row.saved_bytes for row in profile.rows] == [4 * 8 * 4, None]
    assert training.saved_bytes == 4 * 8 * 4
    assert dict(training.unknown) == {}
    assert not training.exact
    assert profile.to_dict()["training"]["exact"] is False


def test_a_count_without_a_rule_makes_the_step_a_lower_bound() -> None:
    profile, training = trained(net("acme::Mystery").graph())
    assert not training.exact
    assert dict(training.unknown) == {"acme::Mystery": 1}
    told = "unknown backward: acme::Mystery at 'it' (no rule for its gradient); backward totals are lower bounds"
    assert told in profile.notes


def test_one_note_names_all_rows_without_the_same_gradient() -> None:
    made = net("acme::Mystery")
    made.node("acme::Mystery", "y", "b", "other")
    profile, training = trained(made.graph("x", "b"))
    assert dict(training.unknown) == {"acme::Mystery": 2}
    assert any("acme::Mystery at 'it' and 1 more (no rule for its gradient)" in note for note in profile.notes)


def in_a_body(trips: int | None) -> Graph:
    """A program whose last operator runs in a body, and keeps what it made for its gradient."""
    made = net()
    made.tensors = {
        name: ProgramTensor(t.name, t.shape, t.dtype, t.kind, grad=name in "way") for name, t in made.tensors.items()
    }
    made.nodes = []
    made.node("MatMul", "x w", "a", "product")
    made.node("Exp", "a", "y", "it", within=(Body(0, "body", trips),))
    made.nodes[1] = replace(made.nodes[1], attrs={"saved": (("y", 4 * 8 * 4),)})
    return replace(made.graph(), program=Program())


def test_a_row_that_runs_nobody_knows_how_often_keeps_nobody_knows_how_much() -> None:
    profile, training = trained(in_a_body(None))
    assert profile.rows[1].times is None
    assert profile.rows[1].saved_bytes is None
    assert profile.rows[1].backward_counts is None
    assert training.saved_bytes == profile.rows[0].saved_bytes
    assert not training.exact


def test_a_row_that_runs_several_times_keeps_as_much_each_time() -> None:
    profile, _ = trained(in_a_body(3))
    assert profile.rows[1].times == 3
    assert profile.rows[1].saved_bytes == 3 * 4 * 8 * 4


def test_a_row_of_a_weight_without_a_shape_keeps_nobody_knows_how_much() -> None:
    made = sketch({**_SHAPES, "a": None, "w": (8, 8), "v": (8, 8)}, x="input", w="weight", v="weight")
    made.node("MatMul", "x w", "a")
    made.node("MatMul", "a v", "y")
    profile, training = trained(made.graph())
    assert profile.rows[1].saved_bytes is None
    assert not training.exact


@pytest.mark.parametrize(("optimizer", "state"), [("sgd", 0), ("momentum", 8 * 8 * 4), ("adam", 2 * 8 * 8 * 4 + 4)])
def test_memory_is_all_that_lasts_from_the_forward_pass_to_the_step(optimizer: str, state: int) -> None:
    _, training = trained(net().graph(), optimizer=optimizer)
    assert training.state_bytes == state
    assert training.memory_bytes == 8 * 8 * 4 + 8 * 8 * 4 + state + 2 * 4 * 8 * 4


def test_where_nothing_is_trained_a_note_says_so() -> None:
    made = sketch(dict(_SHAPES), x="input")
    made.node("Exp", "x", "y")
    told = "nothing runs backward: no output depends on a tensor that requires a gradient"
    assert told in trained(made.graph())[0].notes
    recorded = replace(made.graph(), program=Program())
    assert f"{told}; was the module read with grad=True?" in trained(recorded)[0].notes
    assert not any("nothing runs backward" in note for note in trained(net().graph())[0].notes)


def test_a_gradient_of_less_than_nothing_is_unknown() -> None:
    rules = {"acme::Mystery": lambda node, wanted: Counts(mul=-1)}
    profile, training = trained(net("acme::Mystery").graph(), backward_rules=rules)
    assert profile.rows[1].backward_counts is None
    assert "a count is negative" in profile.rows[1].untrained
    assert not training.exact


def test_where_no_gradient_is_known_there_are_no_sums_of_them() -> None:
    made = sketch({**_SHAPES, "w": (8, 8)}, x="input", w="weight")
    made.node("acme::Mystery", "x w", "y")
    content = trained(made.graph())[0].to_dict()["training"]
    assert [content[f"backward{figure}"] for figure in ("", "_macs", "_flops", "_ops")] == [None] * 4
    content = trained(net("acme::Mystery").graph())[0].to_dict()["training"]
    assert content["backward_macs"] == 4 * 8 * 8


def test_a_layer_that_is_listed_twice_is_trained_once() -> None:
    once = flopwise.profile(net().graph())
    twice = replace(once, rows=(*once.rows, *once.rows))
    one, two = train(once), train(twice)
    assert one.training is not None
    assert two.training is not None
    assert [row.backward_macs for row in two.rows] == [4 * 8 * 8, 0, 0, 0]
    assert two.training.saved_bytes == one.training.saved_bytes
    assert two.total("backward_flops") == one.total("backward_flops")


def test_what_is_computed_once_more_has_to_have_a_count() -> None:
    made = net("acme::Mystery")
    made.tensors = {
        name: ProgramTensor(t.name, t.shape, t.dtype, t.kind, grad=name in "way") for name, t in made.tensors.items()
    }
    made.nodes = []
    made.node("MatMul", "x w", "a", "product")
    made.node("acme::Mystery", "a", "y", "it")
    made.nodes = [
        replace(node, invocation=Invocation(("torch.utils.checkpoint.checkpoint#0:reentrant",))) for node in made.nodes
    ]
    rules = {"acme::Mystery": lambda node, wanted: Counts(mul=5)}
    profile, training = trained(replace(made.graph(), program=Program()), backward_rules=rules)
    assert profile.rows[0].backward_macs == 2 * 4 * 8 * 8  # its gradient, and itself once more
    assert profile.rows[1].untrained == "it is computed once more, and its count is unknown"
    assert not training.exact


def test_gradients_of_an_unknown_size_are_not_joined() -> None:
    made = sketch({**dict.fromkeys("abcy", None), "x": (4, 8), "w": (8, 8)}, x="input", w="weight")
    made.node("MatMul", "x w", "a")
    made.node("Exp", "a", "b")
    made.node("Relu", "a", "c")
    made.node("Add", "b c", "y")
    assert not trained(made.graph())[1].exact
    assert gradients(made.graph()).joins[1:3] == (None, 0)


def test_what_is_computed_once_more_counts_in_a_tools_convention_too() -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, last = torch.nn.Linear(16, 16), torch.nn.Linear(8, 4)
            self.part = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(), last)

        def forward(self, x: Any) -> Any:
            return checkpoint(self.part, self.stem(x), use_reentrant=False)

    profile = flopwise.profile(Checkpointed(), (4, 16), train=True, convention="torch")
    row = next(row for row in profile.rows if row.name == "part.0")
    assert row.count == 2 * 4 * 16 * 8
    assert row.backward == 3 * row.count  # both gradients, and the product again
