"""Sequences side by side: against trying every way."""

from __future__ import annotations

import random
from functools import cache

from flopwise.analyses import executed
from flopwise.analyses.executed import aligned, in_order


def _best(worths: list[list[int]]) -> int:
    """The most that pairs in order can gain, by recursion."""

    @cache
    def best(i: int, j: int) -> int:
        if i == len(worths) or j == len(worths[0]):
            return 0
        return max(best(i + 1, j), best(i, j + 1), worths[i][j] + best(i + 1, j + 1))

    return best(0, 0)


def test_no_other_pairs_in_order_gain_more() -> None:
    rng = random.Random(0)
    for _ in range(300):
        many, others = rng.randrange(1, 9), rng.randrange(1, 9)
        worths = [[rng.choice((0, 0, 0, 1, 2, 8)) for _ in range(others)] for _ in range(many)]
        partners = aligned(lambda i, j, w=worths: w[i][j], many, others)  # type: ignore[misc]
        pairs = [(i, j) for i, j in enumerate(partners) if j is not None]
        assert [j for _, j in pairs] == sorted({j for _, j in pairs})
        assert all(worths[i][j] for i, j in pairs)
        assert sum(worths[i][j] for i, j in pairs) == _best(worths)


def test_far_from_the_diagonal_nothing_is_looked_at_and_nothing_breaks() -> None:
    long = executed.BAND * 3
    same = list(range(long))
    assert aligned(lambda i, j: int(same[i] == same[j]), long, long) == same
    assert aligned(lambda i, j: 0, 3, 0) == [None] * 3
    assert aligned(lambda i, j: 1, 0, 3) == []


def test_the_longest_rising_part() -> None:
    rng = random.Random(1)
    for _ in range(300):
        places = [rng.randrange(20) for _ in range(rng.randrange(9))]
        chosen = [places[i] for i in in_order(places)]
        assert chosen == sorted(set(chosen))
        subsets = [[p for k, p in enumerate(places) if mask >> k & 1] for mask in range(1 << len(places))]
        assert len(chosen) == max(len(s) for s in subsets if s == sorted(set(s)))
