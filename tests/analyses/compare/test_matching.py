"""Which layers belong together."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analyses.compare.variants import EXPORTED, NAMED, NUMBERED, UNNAMED, Namer, network
from tests.work import calls_at_most

import flopwise
from flopwise.analyses.compare.matching import Match, common, match
from flopwise.graph import Node, Tensor
from flopwise.profiles.profile import Profile
from flopwise.rows import Row


def profiled(**given: object) -> Profile:
    return flopwise.profile(network(**given).SerializeToString(), {"x": (1, 3, 16, 16)})  # type: ignore[arg-type]


def pairs(one: Profile, other: Profile) -> list[tuple[str, str, str]]:
    """Operator, its number among those of its kind in each model, and how they were matched."""

    def number(profile: Profile, position: int) -> str:
        op = profile.rows[position].node.op
        return f"{op} {sum(row.node.op == op for row in profile.rows[:position])}"

    return [(number(one, m.first), number(other, m.second), m.way) for m in match(one.rows, other.rows)]


def length(one: list[int], other: list[int]) -> int:
    """Length of a longest common subsequence, by the textbook's table."""
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


FEW = st.lists(st.integers(0, 3), max_size=20)


@given(FEW, FEW)
def test_common_is_a_longest_common_subsequence(one: list[int], other: list[int]) -> None:
    found = common(one, other)
    assert len(found) == length(one, other)
    assert all(one[i] == other[j] for i, j in found)
    assert all(a < c and b < d for (a, b), (c, d) in itertools.pairwise(found))


@pytest.mark.parametrize("namer", [NAMED, NUMBERED, EXPORTED, UNNAMED])
def test_the_same_model(namer: Namer) -> None:
    one, other = profiled(namer=namer), profiled(namer=namer)
    assert [m[:2] for m in match(one.rows, other.rows)] == [(i, i) for i in range(len(one.rows))]
    assert {m.way for m in match(one.rows, one.rows)} == {"same"}


@pytest.mark.parametrize("namer", [NUMBERED, EXPORTED, UNNAMED])
def test_renamed_layers_are_matched_by_structure(namer: Namer) -> None:
    found = pairs(profiled(), profiled(namer=namer))
    assert len(found) == len(profiled().rows)
    assert all(a == b and way == "structure" for a, b, way in found)


@pytest.mark.parametrize("namer", [NAMED, NUMBERED, EXPORTED, UNNAMED])
def test_batch_norm_that_is_folded(namer: Namer) -> None:
    found = pairs(profiled(), profiled(norm=False, namer=namer))
    convolutions = [(a, b) for a, b, _ in found if a.startswith("Conv")]
    assert convolutions == [(f"Conv {i}", f"Conv {i}") for i in range(4)]
    assert len(found) == len(profiled(norm=False).rows)


@pytest.mark.parametrize("namer", [NAMED, NUMBERED, EXPORTED, UNNAMED])
@pytest.mark.parametrize("extra", [0, 1, 3])
def test_a_layer_more_does_not_shift_the_others(namer: Namer, extra: int) -> None:
    one, other = profiled(namer=namer), profiled(namer=namer, extra=extra)
    found = match(one.rows, other.rows)
    assert len(found) == len(one.rows)
    assert all(one.rows[m.first].macs == other.rows[m.second].macs for m in found)


@pytest.mark.parametrize("namer", [NAMED, NUMBERED, UNNAMED])
def test_wider_layers_are_matched_by_name_or_order(namer: Namer) -> None:
    found = pairs(profiled(namer=namer), profiled(widths=(12, 12, 24, 24), namer=namer))
    assert all(a == b for a, b, _ in found)
    assert len(found) == len(profiled().rows)


def row(op: str, name: str, *shape: int) -> Row:
    node = Node(op, name, (), (Tensor(f"{name}.y", shape, "float32"),))
    return Row(name, op, node, None, None, None)


def test_names_win_over_order() -> None:
    one = [row("Conv", "first", 8), row("Conv", "second", 8)]
    assert match(one, one[::-1]) == [Match(0, 1, "name"), Match(1, 0, "name")]


def test_a_name_that_is_given_twice_tells_nothing() -> None:
    one = [row("Relu", "act", 8), row("Relu", "act", 4)]
    other = [row("Relu", "act", 4)]
    assert match(one, other) == [Match(1, 0, "structure")]


def test_another_operator_of_the_same_name_is_another_layer() -> None:
    assert match([row("Relu", "act", 8)], [row("Gelu", "act", 8)]) == []


def test_gemm_and_matmul_are_one_layer() -> None:
    w, v = Tensor("w", (10, 8), "float32", "weight"), Tensor("v", (8, 10), "float32", "weight")
    made = [
        Row(op, op, Node(op, op, (t,), (Tensor("y", (1, 10), "float32"),)), None, None, None)
        for op, t in (("Gemm", w), ("MatMul", v))
    ]
    assert match(made[:1], made[1:]) == [Match(0, 0, "structure")]


def test_nothing_to_match() -> None:
    assert match([], []) == []
    assert match([row("Relu", "a", 1)], []) == []


@pytest.mark.parametrize("seed", range(20))
def test_each_layer_is_in_one_pair_at_most(seed: int) -> None:
    rng = random.Random(seed)

    def layers() -> list[Row]:
        ops, names = ("Conv", "Relu", "Add"), ("", "a", "b", "c", "Conv_1", "node_x")
        return [row(rng.choice(ops), rng.choice(names), rng.randrange(3)) for _ in range(rng.randrange(30))]

    one, other = layers(), layers()
    found = match(one, other)
    assert len({m.first for m in found}) == len({m.second for m in found}) == len(found)
    assert all(one[m.first].node.op == other[m.second].node.op for m in found)
    assert [m.first for m in found] == sorted(m.first for m in found)


def test_five_thousand_layers() -> None:
    rng = random.Random(1)
    one = [row(rng.choice(["Conv", "Relu", "Add"]), f"a{i}", rng.randrange(9)) for i in range(5000)]
    other = [row(rng.choice(["Conv", "Relu", "Add"]), f"b{i}", rng.randrange(9)) for i in range(5000)]
    with calls_at_most(100 * (len(one) + len(other))):
        match(one, other)
