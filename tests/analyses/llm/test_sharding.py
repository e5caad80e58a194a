"""Divisions of a training step: what divides is taken, and what does not is refused."""

from __future__ import annotations

import pytest
from tests.graphs import Sketch, sketch

import flopwise
from flopwise.analyses.llm.sharding import Rank, Sharding, rank_of
from flopwise.errors import InputError
from flopwise.profiles.profile import Profile


@pytest.mark.parametrize(
    ("sharding", "batch"),
    [
        (Sharding(), 1),
        (Sharding(dp=2, fsdp=3), 6),
        (Sharding(dp=2, pp=3), 6),
        (Sharding(dp=2, fsdp=3, ep=3), 12),
        (Sharding(tp=5), 1),
    ],
)
def test_what_divides(sharding: Sharding, batch: int) -> None:
    sharding.check(batch)
    assert sharding.devices == sharding.dp * sharding.fsdp * sharding.tp * sharding.pp


@pytest.mark.parametrize(
    ("sharding", "batch", "told"),
    [
        (Sharding(dp=0), 1, "dp 0: must be at least 1"),
        (Sharding(ep=-1), 1, "ep -1: must be at least 1"),
        (Sharding(dp=2, fsdp=3), 5, "a batch of 5 does not divide by dp × fsdp = 6"),
        (Sharding(dp=2, fsdp=3), 9, "a batch of 9 does not divide"),
        (Sharding(dp=2, pp=3), 8, "pp 3: 4 sequences of a rank cannot be 3 equal micro-batches"),
        (Sharding(dp=2, fsdp=3, ep=4), 12, "ep 4: experts are divided among the dp × fsdp = 6 ranks"),
        (Sharding(ep=2), 12, "ep 2: experts are divided among"),
    ],
)
def test_what_does_not_divide(sharding: Sharding, batch: int, told: str) -> None:
    with pytest.raises(InputError, match=told):
        sharding.check(batch)


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


def trained() -> Profile:
    return flopwise.profile(net().graph(), train=True, optimizer="adam")


def share(plan: dict[str, str] | None = None, **ways: int) -> Rank:
    return rank_of(trained(), Sharding(**ways), plan or {})


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


@pytest.mark.parametrize(("stages", "params"), [(2, 3 * 64), (3, 3 * 64), (4, 2 * 64)])
def test_the_first_stage_has_what_comes_before_the_layers(stages: int, params: int) -> None:
    rank = share(pp=stages)
    assert (rank.stage, rank.params) == (0, params)


def test_there_are_no_more_stages_than_layers() -> None:
    with pytest.raises(InputError, match="pp 5: the model has 4 layers"):
        share(pp=5)


def test_tp_divides_what_the_plan_names() -> None:
    plan = {"w1": "colwise", "w2": "rowwise"}
    rank = share(plan, tp=4)
    assert rank.params == 3 * 64 + 2 * 16 + 24
    assert rank.forward_flops == share().forward_flops - 2 * (3 * 2 * 2 * 8 * 8 // 4)
    with pytest.raises(InputError, match=r"tp 3: w1 \(8×8, colwise\) does not divide by it"):
        share(plan, tp=3)


def test_without_a_plan_or_experts_nothing_is_divided() -> None:
    with pytest.raises(InputError, match="tp: nothing is known of how engines divide this model"):
        share(tp=2)
    with pytest.raises(InputError, match="ep 2: the model has no stacks of experts to divide"):
        share(ep=2)
