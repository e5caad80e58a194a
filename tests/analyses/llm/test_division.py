"""Programs divided by tensor and expert parallelism: the parts of weights, heads and rows."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tests.graphs import Sketch, sketch

import flopwise
from flopwise.analyses.llm.division import Division
from flopwise.errors import InputError

PLAN = {"q": "colwise", "k": "colwise", "qkv": "colwise", "o": "rowwise", "latent": "mla_kv_a_proj"}


def attention() -> Sketch:
    """Four heads of queries and two of keys, of 8 features each, and a product by rows behind the first."""
    made = sketch({"x": (1, 5, 16), "q1": (1, 5, 32), "k1": (1, 5, 16), "y": (1, 5, 16)}, x="input")
    made.tensor("heads", (1, 5, 4, 8))
    made.tensor("keys", (1, 5, 2, 8))
    made.tensor("flat", (1, 5, 32))
    for name, shape in (("q.weight", (16, 32)), ("k.weight", (16, 16)), ("o.weight", (32, 16))):
        made.tensor(name, shape, "weight")
    made.tensor("q.bias", (32,), "weight")
    made.node("Gemm", "x q.weight q.bias", "q1", scope="attn attn.q")
    made.node("Gemm", "x k.weight", "k1", scope="attn attn.k")
    made.node("Reshape", "q1", "heads", scope="attn")
    made.node("Reshape", "k1", "keys", scope="attn")
    made.node("Reshape", "heads", "flat", scope="attn")
    made.node("MatMul", "flat o.weight", "y", scope="attn attn.o")
    return made


def divided(tp: int, repeat: bool = False) -> Division:
    return Division(flopwise.profile(attention().graph()), PLAN, tp=tp, repeat_heads=repeat)


def parts(division: Division) -> dict[str, Fraction]:
    rows = division.profile.rows
    stored = {t.name: division.weight(t.name) for row in rows for t in division.folding.stored(row.node)}
    return {**stored, **{t.name: division.result(t) for row in rows for t in row.node.known_outputs}}


def test_biases_are_divided_with_the_columns_that_they_belong_to() -> None:
    half, whole = Fraction(1, 2), Fraction(1)
    assert parts(divided(2)) == {
        **dict.fromkeys(("q.weight", "q.bias", "k.weight", "o.weight"), half),
        **dict.fromkeys(("q1", "k1", "heads", "keys", "flat"), half),
        "y": whole,
    }
    assert [row.node.op for row in divided(2).reduced] == ["MatMul"]


def test_heads_of_keys_are_repeated_where_there_are_fewer_than_devices() -> None:
    division = divided(4, repeat=True)
    assert parts(division)["k.weight"] == parts(division)["keys"] == Fraction(1, 2)
    assert parts(division)["q.weight"] == parts(division)["flat"] == Fraction(1, 4)
    by_weight = {t.name: division.row(r) for r in division.profile.rows for t in division.folding.stored(r.node)}
    assert (by_weight["k.weight"], by_weight["o.weight"]) == (Fraction(1, 2), Fraction(1, 4))
    with pytest.raises(InputError, match="tp 4: 2 heads of attn do not divide by it"):
        divided(4)
    with pytest.raises(InputError, match="tp 8: 4 heads of attn do not divide by it"):
        divided(8, repeat=True)


def test_queries_keys_and_values_of_one_product_are_divided_by_their_own_heads() -> None:
    made = sketch({"x": (5, 16), "all": (1, 5, 64), "q1": (1, 5, 32), "k1": (1, 5, 16)}, x="input")
    made.tensor("v1", (1, 5, 16))
    made.tensor("qkv.weight", (16, 64), "weight")
    made.tensor("tokens", (5, 64))
    made.node("MatMul", "x qkv.weight", "tokens", scope="attn attn.qkv")
    made.node("Reshape", "tokens", "all", scope="attn attn.qkv")
    made.node("Split", "all", "q1 k1 v1", scope="attn")
    for name, heads in (("q1", 4), ("k1", 2), ("v1", 2)):
        made.tensor(f"{name}.heads", (1, 5, heads, 8))
        made.node("Reshape", name, f"{name}.heads", scope="attn")
    division = Division(flopwise.profile(made.graph(outputs="q1.heads")), PLAN, tp=4, repeat_heads=True)
    assert parts(division)["qkv.weight"] == Fraction(32 // 4 + 16 // 2 + 16 // 2, 64)


def test_what_a_plan_repeats_is_whole() -> None:
    made = sketch({"x": (1, 5, 16), "y": (1, 5, 8)}, x="input")
    made.tensor("latent.weight", (16, 8), "weight")
    made.node("MatMul", "x latent.weight", "y", scope="latent")
    assert parts(Division(flopwise.profile(made.graph()), PLAN, tp=2)) == {"latent.weight": 1, "y": 1}
