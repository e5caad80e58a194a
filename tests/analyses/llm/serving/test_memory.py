"""What must fit an engine's memory, by hand; and the largest request that does: the next one does not."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from flopwise.analyses.llm.serving.memory import Cache, Growth, Kept, Memory, Workspace, cache_of, largest

#: A layer that keeps all tokens, one with a window of 7, and a recurrent state.
CACHE = Cache((Kept(100), Kept(10, window=7)), fixed_bytes=3)


@pytest.mark.parametrize(
    ("tokens", "block", "nbytes"),
    [(1, 1, 113), (7, 1, 773), (8, 1, 873), (1, 16, 16 * 110 + 3), (17, 16, 32 * 100 + 16 * 10 + 3), (0, 16, 3)],
)
def test_caches_grow_in_blocks_up_to_their_windows(tokens: int, block: int, nbytes: int) -> None:
    assert CACHE.nbytes(tokens, block) == nbytes


def test_the_growth_of_a_state_follows_from_two_of_its_sizes() -> None:
    one, far = {"keys": 100, "near": 10, "state": 3}, {"keys": 6400, "near": 70, "state": 3}
    growth = Growth(one, far, 64)
    assert cache_of(growth) == CACHE
    half = cache_of(growth, [("keys", Fraction(1, 2), 3), ("state", Fraction(1, 2), 1)], ranks=2)
    assert half == Cache((Kept(150, ranks=2),), fixed_bytes=2)


def test_sequences_share_whole_blocks_of_what_they_keep_of_a_prefix() -> None:
    memory = Memory(1000, CACHE, Workspace(4, ((50, 1), (20, 9))), block=16, prefix=40)
    shared = 2 * 16 * 100
    assert memory.cache_bytes(5, 64) == shared + 5 * (CACHE.nbytes(64, 16) - shared)
    assert memory.cache_bytes(5, 20) == 16 * 100 + 5 * (CACHE.nbytes(20, 16) - 16 * 100)


def test_a_step_samples_no_more_positions_than_it_has_tokens() -> None:
    memory = Memory(1000, CACHE, Workspace(4, ((50, 1), (20, 9))))
    assert [memory.workspace_bytes(n) for n in (1, 3, 4, 5, 100)] == [51, 53, 56, 56, 56]


@pytest.mark.parametrize("have", [999, 4000, 12_345, 10**6])
def test_what_fits_is_the_largest_that_does(have: int) -> None:
    memory = Memory(1000, CACHE, Workspace(4, ((50, 1), (20, 9))), prefix=20)
    for most, must in (
        (memory.most_sequences(70, have), lambda n: memory.must_fit_bytes(n, 70)),
        (memory.most_tokens(3, have), lambda n: memory.must_fit_bytes(3, n)),
    ):
        assert most is not None
        assert most == 0 or must(most) <= have
        assert must(most + 1) > have


@pytest.mark.parametrize(
    ("memory", "have", "most"),
    [(lambda n: n * n, 10_000, 100), (lambda n: 100, 99, 0), (lambda n: 100, 100, None), (lambda n: n, 0, 0)],
)
def test_the_largest_number(memory: Callable[[int], int], have: int, most: int | None) -> None:
    assert largest(memory, have) == most
