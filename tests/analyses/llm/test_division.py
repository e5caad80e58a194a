"""Programs divided over devices: the parts of weights, heads and rows, by hand, and what does not divide."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tests.graphs import Sketch, sketch

import flopwise
from flopwise.analyses.llm.division import Division, Split, refuse_experts, stages
from flopwise.analyses.llm.training import Rank, rank_of
from flopwise.errors import InputError
from flopwise.formats.torch.language.ways import with_ways
from flopwise.graph import Graph
from flopwise.profiles.profile import Profile

PLAN = {"q": "colwise", "k": "colwise", "qkv": "colwise", "o": "rowwise", "latent": "mla_kv_a_proj"}


def attention() -> Graph:
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
    return made.graph()


def divided(graph: Graph, tp: int) -> Division:
    return Division(flopwise.profile(with_ways(graph, PLAN)), tp=tp)


def parts(division: Division) -> dict[str, Fraction]:
    rows = division.profile.rows
    stored = {t.name: division.weight(t.name) for row in rows for t in division.folding.stored(row.node)}
    return {**stored, **{t.name: division.result(t) for row in rows for t in row.node.known_outputs}}


def test_biases_are_divided_with_the_columns_that_they_belong_to() -> None:
    half, whole, division = Fraction(1, 2), Fraction(1), divided(attention(), 2)
    assert parts(division) == {
        **dict.fromkeys(("q.weight", "q.bias", "k.weight", "o.weight"), half),
        **dict.fromkeys(("q1", "k1", "heads", "keys", "flat"), half),
        "y": whole,
    }
    assert [row.node.op for row in division.profile.rows if id(row) in division.reduced] == ["MatMul"]


def test_heads_of_keys_are_repeated_where_there_are_fewer_than_devices() -> None:
    division = divided(attention(), 4)
    assert parts(division)["k.weight"] == parts(division)["keys"] == Fraction(1, 2)
    assert parts(division)["q.weight"] == parts(division)["flat"] == Fraction(1, 4)
    by_weight = {t.name: division.row(r) for r in division.profile.rows for t in division.folding.stored(r.node)}
    assert (by_weight["k.weight"], by_weight["o.weight"]) == (Fraction(1, 2), Fraction(1, 4))
    with pytest.raises(InputError, match="tp 8: 4 heads of attn do not divide by it; 2 and 4 do"):
        divided(attention(), 8)


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
    division = divided(made.graph(outputs="q1.heads"), 4)
    assert parts(division)["qkv.weight"] == Fraction(32 // 4 + 16 // 2 + 16 // 2, 64)


def test_what_a_plan_repeats_is_whole() -> None:
    made = sketch({"x": (1, 5, 16), "y": (1, 5, 8)}, x="input")
    made.tensor("latent.weight", (16, 8), "weight")
    made.node("MatMul", "x latent.weight", "y", scope="latent")
    assert parts(divided(made.graph(), 1)) == {"latent.weight": 1, "y": 1}
    with pytest.raises(InputError, match="tp: nothing is known of how engines divide this model"):
        divided(made.graph(), 2)


@pytest.mark.parametrize(
    ("split", "batch"),
    [
        (Split(), 1),
        (Split(dp=2, fsdp=3), 6),
        (Split(dp=2, pp=3), 6),
        (Split(dp=2, fsdp=3, ep=3), 12),
        (Split(tp=5), 1),
    ],
)
def test_what_divides_a_batch(split: Split, batch: int) -> None:
    split.check_batch(batch)
    assert split.devices == split.dp * split.fsdp * split.tp * split.pp


@pytest.mark.parametrize(
    ("split", "batch", "words"),
    [
        (Split(dp=0), 1, "dp 0: must be at least 1"),
        (Split(ep=-1), 1, "ep -1: must be at least 1"),
        (Split(dp=2, fsdp=3), 5, "a batch of 5 does not divide by dp × fsdp = 6"),
        (Split(dp=2, fsdp=3), 9, "a batch of 9 does not divide"),
        (Split(dp=2, pp=3), 8, "pp 3: 4 sequences of a rank cannot be 3 equal micro-batches"),
        (Split(dp=2, fsdp=3, ep=4), 12, "ep 4: experts are divided among the dp × fsdp = 6 ranks"),
        (Split(ep=2), 12, "ep 2: experts are divided among"),
    ],
)
def test_what_does_not_divide_a_batch(split: Split, batch: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        split.check_batch(batch)


def test_stages_have_what_comes_before_and_after_at_the_ends() -> None:
    order = [["model.layers.0", "encoder.layers.0"], ["model.layers.1"], ["model.layers.0"]]
    first, last = stages(order, 2)
    assert first == ["", "model.layers.0", "encoder.layers.0", "model.layers.1"]
    assert last == ["model.layers.0", "after"]
    with pytest.raises(InputError, match="pp 4: the model has 3 layers; give at most as many"):
        stages(order, 4)


def test_experts_divide_one_by_one() -> None:
    refuse_experts({"mlp.experts.up": 8, "other.experts.up": 12}, 4)
    with pytest.raises(InputError, match=r"ep 3: 8 experts of mlp\.experts do not divide by it; 2 and 4 do"):
        refuse_experts({"mlp.experts.up": 8, "other.experts.up": 12}, 3)
    with pytest.raises(InputError, match="ep 2: the model has no experts to divide"):
        refuse_experts({}, 2)


def net() -> Sketch:
    """An embedding, four numbered layers of 8 × 8, and a head of 8 × 3."""
    made = sketch({"x": (2, 8), **{f"t{i}": (2, 8) for i in range(5)}, "y": (2, 3)}, x="input")
    for place in range(5):
        made.tensor(f"w{place}", (8, 8), "weight")
    made.tensor("head", (8, 3), "weight")
    made.node("MatMul", "x w0", "t0", "first", scope="embed")
    for place in range(4):
        made.node("MatMul", f"t{place} w{place + 1}", f"t{place + 1}", scope=f"layers layers.{place}")
    made.node("MatMul", "t4 head", "y", "last", scope="head")
    return made


def trained(plan: dict[str, str] | None = None) -> Profile:
    return flopwise.profile(with_ways(net().graph(), plan or {}), train=True, optimizer="adam")


def share(plan: dict[str, str] | None = None, **ways: int) -> Rank:
    return rank_of(trained(plan), Split(**ways))


def test_one_rank_has_all_of_a_step() -> None:
    profile, rank = trained(), share()
    assert profile.training is not None
    assert rank.params == profile.total("params") == 5 * 64 + 24
    assert rank.memory_bytes == profile.training.memory_bytes
    assert (rank.forward_flops, rank.backward_flops) == (profile.total("flops"), profile.total("backward_flops"))


def test_fsdp_divides_each_weight_and_rounds_up() -> None:
    rank = share(fsdp=5)
    assert rank.params == 5 * 13 + 5  # 64 / 5 and 24 / 5, rounded up
    assert rank.weight_bytes == rank.gradient_bytes == 5 * 52 + 20  # 256 / 5 and 96 / 5
    assert rank.state_bytes == 2 * rank.gradient_bytes + 6 * 4
    assert rank.saved_bytes == share().saved_bytes


@pytest.mark.parametrize(("pp", "params"), [(2, 3 * 64), (3, 3 * 64), (4, 2 * 64)])
def test_the_first_stage_has_what_comes_before_the_layers(pp: int, params: int) -> None:
    rank = share(pp=pp)
    assert (rank.stage, rank.params) == (0, params)


def test_there_are_no_more_stages_than_layers() -> None:
    with pytest.raises(InputError, match="pp 5: the model has 4 layers"):
        share(pp=5)


def test_tp_divides_what_the_plan_names() -> None:
    plan = {"w1": "colwise", "w2": "rowwise"}
    rank = share(plan, tp=4)
    assert rank.params == 3 * 64 + 2 * 16 + 24
    assert rank.forward_flops == share().forward_flops - 2 * (3 * 2 * 2 * 8 * 8 // 4)
    with pytest.raises(InputError, match="tp 3: 8 features of layers do not divide by it; 2, 4 and 8 do"):
        share(plan, tp=3)


def test_without_a_plan_or_experts_nothing_is_divided() -> None:
    with pytest.raises(InputError, match="tp: nothing is known of how engines divide this model"):
        share(tp=2)
    with pytest.raises(InputError, match="ep 2: the model has no experts to divide"):
        share(ep=2)
