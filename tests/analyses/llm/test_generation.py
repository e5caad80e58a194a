"""Sums over steps equal the sum of all steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopwise.analyses.llm.runs import summed


@given(
    st.integers(0, 50),
    st.integers(0, 200),
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 120)), min_size=1, max_size=3),
)
def test_sums_of_lines_with_kinks(first: int, length: int, windows: list[tuple[int, int]]) -> None:
    def cost(n: int) -> tuple[int, ...]:
        return (sum(slope * min(n, window) for slope, window in windows), 7 * n + 3)

    last = first + length
    assert summed(cost, first, last)[1] == sum(7 * n + 3 for n in range(first, last + 1))
    if len(windows) == 1:
        assert summed(cost, first, last)[0] == sum(cost(n)[0] for n in range(first, last + 1))


def test_few_steps_are_asked_for() -> None:
    asked = []

    def cost(n: int) -> tuple[int]:
        asked.append(n)
        return (n * 5,)

    assert summed(cost, 1000, 1_000_000) == (sum(range(1000, 1_000_001)) * 5,)
    assert len(asked) == 3


@pytest.mark.parametrize(("first", "last", "expected"), [(4, 4, 4), (4, 5, 9), (5, 4, 0)])
def test_short_stretches(first: int, last: int, expected: int) -> None:
    assert summed(lambda n: (n,), first, last) == (expected,)
