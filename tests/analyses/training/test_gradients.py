"""Which tensors get a gradient, what joins where a tensor is used twice, and what is unknown; on hand-made graphs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.graphs import Sketch, sketch

import flopwise
from flopwise.analyses.training import gradients
from flopwise.graph import Body, Shape
from flopwise.operators.counts import Counts
from flopwise.operators.tables import ROWS
from flopwise.profiles.profile import Profile

_X: dict[str, Shape | None] = {"x": (4, 8), "w": (8, 8), "v": (8, 8), "a": (4, 8), "b": (4, 8), "y": (4, 8)}


def two_layers() -> Sketch:
    """y = relu(x w) v."""
    s = sketch(_X, x="input", w="weight", v="weight")
    s.node("MatMul", "x w", "a")
    s.node("Relu", "a", "b")
    s.node("MatMul", "b v", "y")
    return s


def trained(s: Sketch, outputs: str = "y", **given: object) -> Profile:
    return flopwise.profile(s.graph("x", outputs), train=True, **given)  # type: ignore[arg-type]


def test_inputs_get_no_gradient_and_weights_do() -> None:
    way = gradients(two_layers().graph())
    assert way.wrt == (frozenset({1}), frozenset({0}), frozenset({0, 1}))
    assert [t.name for t in way.trained] == ["w", "v"]


def test_backward_products_follow() -> None:
    profile = trained(two_layers())
    assert [row.backward_macs for row in profile.rows] == [4 * 8 * 8, 0, 2 * 4 * 8 * 8]
    assert [row.saved_bytes for row in profile.rows] == [4 * 8 * 4, 4 * 8 * 4, 0]
    assert profile.total("backward_flops") == 2 * 3 * 256 + 32


def test_a_result_that_reaches_no_output_gets_no_gradient() -> None:
    s = two_layers()
    profile = trained(s, "a")
    assert [row.backward_macs for row in profile.rows] == [256, 0, 0]


def test_integer_weights_are_not_trained() -> None:
    s = two_layers()
    s.tensor("w", (8, 8), "weight", "int8")
    s.nodes[0] = type(s.nodes[0])("MatMul", "", (s.tensors["x"], s.tensors["w"]), (s.tensors["a"],), origin="MatMul")
    assert [t.name for t in gradients(s.graph()).trained] == ["v"]


def test_gradients_of_several_uses_are_added_up() -> None:
    s = sketch(_X, x="input", w="weight")
    s.node("MatMul", "x w", "a")
    s.node("Tanh", "a", "b")
    s.node("Mul", "a b", "y")
    rows = trained(s).rows
    assert rows[2].backward_counts == Counts(mul=2 * 32)
    assert rows[1].backward_counts == Counts(mul=2 * 32, add=32 + 32)  # the second one joins the first


def test_an_output_that_is_used_further_on_joins_too() -> None:
    s = two_layers()
    rows = trained(s, "b y").rows
    assert rows[2].backward_counts == Counts(mac=2 * 256, add=32)


def test_a_weight_that_is_used_twice_is_trained_once() -> None:
    s = sketch(_X, x="input", w="weight")
    s.node("MatMul", "x w", "a")
    s.node("MatMul", "a w", "y")
    profile = trained(s)
    assert profile.training is not None
    assert profile.training.gradient_bytes == 8 * 8 * 4
    assert [row.backward_counts for row in profile.rows] == [Counts(mac=256, add=64), Counts(mac=512)]


def test_what_depends_on_a_trained_weight_is_not_folded() -> None:
    s = sketch({**_X, "t": (8, 8)}, x="input", w="weight")
    s.node("Mul", "w w", "t")
    s.node("MatMul", "x t", "y")
    assert len(flopwise.profile(s.graph()).rows) == 1
    rows = trained(s).rows
    assert rows[0].flops == 64
    assert rows[0].backward_counts == Counts(mul=2 * 64, add=64)


def test_an_operator_without_a_rule_is_unknown_and_never_zero() -> None:
    s = sketch(_X, x="input", w="weight")
    s.node("MatMul", "x w", "a")
    s.node("acme::Mystery", "a", "y", "odd")
    profile = trained(s)
    assert profile.rows[1].backward_counts is None
    assert profile.rows[1].untrained == "no rule for its gradient"
    assert profile.training is not None
    assert dict(profile.training.unknown) == {"acme::Mystery": 1}
    assert not profile.training.exact
    assert any(note.startswith("unknown backward: acme::Mystery at 'odd'") for note in profile.notes)
    assert profile.to_dict()["layers"][1]["backward"] is None


def test_rules_of_the_user_fill_the_gap() -> None:
    s = sketch(_X, x="input", w="weight")
    s.node("MatMul", "x w", "a")
    s.node("acme::Mystery", "a", "y")
    profile = trained(s, backward_rules={"acme::Mystery": lambda node, wanted: Counts(mul=len(wanted))})
    assert profile.rows[1].backward_counts == Counts(mul=1)


def test_a_missing_shape_makes_the_backward_pass_unknown() -> None:
    s = sketch({**_X, "b": None}, x="input", w="weight", v="weight")
    s.node("MatMul", "x w", "a")
    s.node("Exp", "a", "b")
    s.node("MatMul", "b v", "y")
    profile = trained(s)
    assert profile.rows[1].backward_counts is None
    assert profile.training is not None
    assert not profile.training.exact


def test_control_flow_is_unknown_where_a_gradient_flows_in_it() -> None:
    s = sketch({**_X, "c": ()}, x="input", c="input", w="weight", v="weight")
    s.node("MatMul", "x w", "a")
    s.node("If", "c", "y", "fork")
    for part in ("then_branch", "else_branch"):
        s.tensor(part, (4, 8))
        s.node("MatMul", "a v", part, within=(Body(1, part, 1, True),))
    profile = flopwise.profile(s.graph("x c", "y"), train=True)
    whys = {row.node.name or row.node.op: row.untrained for row in profile.rows}
    assert whys["fork"] == ""
    assert sum("control flow" in row.untrained for row in profile.rows) >= 1
    assert profile.rows[0].backward_macs == 256


@pytest.mark.parametrize("convention", ["benanza", "onnx-tool"])
def test_a_tool_that_counts_no_backward_pass_has_none(convention: str) -> None:
    profile = flopwise.profile(two_layers().graph(), train=True, convention=convention)
    assert all(row.backward is None for row in profile.rows if row.backward_macs)
    assert profile.total("backward_macs") == 768
    assert any("counts no backward pass" in note for note in profile.notes)


def test_figures_of_training_are_there_only_when_asked_for() -> None:
    plain = flopwise.profile(two_layers().graph())
    assert "training" not in plain.to_dict()
    assert "backward" not in plain.to_dict()["layers"][0]
    content = trained(two_layers()).to_dict()
    assert content["training"]["backward_macs"] == 768
    assert content["layers"][0]["backward"] == 512
    with pytest.raises(flopwise.InputError):
        plain.total("backward")


def test_a_weight_of_unknown_shape_makes_the_optimizer_unknown() -> None:
    s = sketch({**_X, "w": None}, x="input", w="weight")
    s.node("MatMul", "x w", "y")
    profile = trained(s, optimizer="adam")
    assert profile.training is not None
    assert profile.training.update is None
    assert profile.to_dict()["training"]["state_bytes"] is None


_SENSELESS = ({"axis": "x"}, {"perm": [9, 9]}, {"p": "two"}, {"size": -3}, {"kernel_shape": "abc"})


@pytest.mark.parametrize("op", sorted(op for op, row in ROWS.items() if row.gradient))
def test_attributes_without_sense_make_a_row_unknown_and_never_an_error(op: str) -> None:
    for attrs in _SENSELESS:
        s = sketch(_X, x="input", w="weight", v="weight")
        s.node("MatMul", "x w", "a")
        s.node(op, "a v", "y")
        s.nodes[1] = replace(s.nodes[1], attrs=attrs)
        assert trained(s).to_dict()["training"]["backward_macs"] is not None


def test_a_causal_convolution_takes_the_derivative_of_its_activation() -> None:
    """G × s × (1 + z × (1 − s)) for each of 40 elements, s = 1 / (1 + exp(−z)); then dW, 3 mac for each."""
    s = sketch({"x": (2, 4, 5), "w": (4, 1, 3), "y": (2, 4, 5)}, x="input", w="weight")
    s.node("CausalConvWithState", "x w", "y")
    s.nodes[0] = replace(s.nodes[0], attrs={"activation": "silu"})
    assert trained(s).rows[0].backward_counts == Counts(mac=3, mul=3, bit=1, exp=1, add=3, div=1) * 40


def test_linear_attention_goes_back_through_its_states() -> None:
    """128 tokens, 2 heads of keys of 4 and values of 8: 8,192 products with the state, 7 for each going back."""
    sizes = {"x": (1, 128, 8), "k": (1, 128, 8), "v": (1, 128, 16), "d": (1, 128, 2), "b": (1, 128, 2)}
    s = sketch({**sizes, "y": (1, 128, 16)}, **dict.fromkeys(sizes, "weight"))
    s.node("LinearAttention", "x k v _ d b", "y")
    attrs = {"update_rule": "gated_delta", "kv_num_heads": 2, "q_num_heads": 2}
    s.nodes[0] = replace(s.nodes[0], attrs=attrs)
    counts = trained(s).rows[0].backward_counts
    assert counts is not None
    assert counts.mac == 7 * 8192
