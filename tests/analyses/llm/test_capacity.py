"""The largest request that fits: to the byte, and None where nothing says how large it may be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flopwise.analyses.llm.capacity import FAR, RUNS, largest


def line(n: int) -> int:
    return 100 + 7 * n


def steps(n: int) -> int:
    """Memory that grows in steps, as allocators round it up."""
    return -(-n // 64) * 64


@pytest.mark.parametrize("memory", [line, lambda n: n * n])
@pytest.mark.parametrize("start", [1, 5, 40, 3000])
@pytest.mark.parametrize("have", [107, 128, 1600, 4096])
def test_the_number_fits_and_the_next_does_not(memory: Callable[[int], int], start: int, have: int) -> None:
    most = largest(memory, have, start, memory(start))
    assert most is not None
    assert most == 0 or memory(most) <= have
    assert memory(most + 1) > have


def test_what_takes_all_bytes_fits_and_one_byte_less_is_too_few() -> None:
    assert largest(line, line(41), 5, line(5)) == 41
    assert largest(line, line(41) - 1, 5, line(5)) == 40
    assert largest(line, line(5), 5, line(5)) == 5
    assert largest(line, line(1), 5, line(5)) == 1
    assert largest(line, line(1) - 1, 5, line(5)) == 0


def test_without_the_bytes_at_the_start_nothing_is_known() -> None:
    assert largest(line, 1000, 1, None) is None


def test_what_does_not_grow_has_no_largest() -> None:
    assert largest(lambda n: 100, 100, 1, 100) is None


def test_what_cannot_be_run_does_not_fit() -> None:
    assert largest(lambda n: line(n) if n <= 30 else None, 10_000, 1, line(1)) == 30


@pytest.mark.parametrize("memory", [line, steps, lambda n: 100, lambda n: None if n > 1 else 1])
def test_few_runs_are_made(memory: Callable[[int], int | None]) -> None:
    asked: list[int] = []

    def counted(n: int) -> int | None:
        asked.append(n)
        return memory(n)

    most = largest(counted, 1 << 20, 1, memory(1))
    assert len(asked) <= RUNS
    assert not most or memory(most) is not None
    assert all(0 < n < FAR for n in asked)
