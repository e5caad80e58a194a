"""Sums, longest paths and workers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopwise.analyses.timing.engine import critical_path, with_workers


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[int], list[list[int]]]:
    """Times, and for each node some of the nodes before it."""
    times = draw(st.lists(st.integers(0, 1000), min_size=1, max_size=12))
    return times, [draw(st.lists(st.integers(0, i - 1), unique=True)) if i else [] for i in range(len(times))]


@given(graphs(), st.integers(1, 8))
def test_the_sum_is_no_less_than_workers_and_those_no_less_than_the_longest_path(
    graph: tuple[list[int], list[list[int]]], workers: int
) -> None:
    times, needs = graph
    assert sum(times) >= with_workers(times, needs, workers) >= critical_path(times, needs)
    assert with_workers(times, needs, 1) == sum(times)
    assert critical_path([2 * t for t in times], needs) == 2 * critical_path(times, needs)


def test_a_chain_gains_nothing_and_branches_do() -> None:
    assert critical_path([1, 2, 3], [[], [0], [1]]) == 6
    assert with_workers([1, 2, 3], [[], [], []], 2) == pytest.approx(3)
    assert critical_path([], []) == 0
