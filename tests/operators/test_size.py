"""Sizes that the data decide: whatever number it is, what is computed with the size is true of it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flopwise.operators.size import (
    OPEN,
    MisfitError,
    Most,
    UnresolvedError,
    axis_of,
    common,
    larger,
    product,
    same,
    smaller,
)

#: Every size between these numbers, certain ones among them.
SIZES: list[Any] = [Most(high, low) for low in range(-2, 4) for high in range(low, 4)]
LENGTHS = [size for size in SIZES if min(getattr(size, "low", size), size) >= 0]


def numbers(size: Any) -> list[int]:
    """All that a size may be."""
    return [*range(size.low, size.high + 1)] if type(size) is Most else [size]


def pairs(sizes: list[Any]) -> Iterator[tuple[Any, Any]]:
    return ((one, other) for one in sizes for other in sizes if Most in (type(one), type(other)))


@pytest.mark.parametrize("compute", [operator.add, operator.sub, operator.mul, smaller, larger])
def test_results_lie_between_the_least_and_the_largest(compute: Callable[[Any, Any], Any]) -> None:
    for one, other in pairs(SIZES):
        made = [compute(a, b) for a in numbers(one) for b in numbers(other)]
        result = compute(one, other)
        assert (numbers(result)[0], numbers(result)[-1]) == (min(made), max(made)), (one, other)


@pytest.mark.parametrize("compute", [operator.floordiv, operator.mod])
def test_quotients_and_remainders_hold_for_every_positive_divisor(compute: Callable[[Any, Any], Any]) -> None:
    for one, other in pairs(SIZES):
        divisors = [b for b in numbers(other) if b > 0]
        if not divisors or (compute is operator.mod and divisors != numbers(other)):
            continue
        made = {compute(a, b) for a in numbers(one) for b in divisors}
        result = numbers(compute(one, other))
        assert made <= set(result), (one, other)
        if compute is operator.floordiv:
            assert (result[0], result[-1]) == (min(made), max(made)), (one, other)
        else:
            assert 0 <= result[0] <= result[-1] < max(divisors), (one, other)


def test_nothing_is_divided_by_what_can_only_be_0_or_less() -> None:
    for divisor in (0, Most(0, -2)):
        with pytest.raises(UnresolvedError):
            Most(3) // divisor
    assert numbers(Most(4, 2) // -2) == [-2, -1]
    for divisor in (0, -1, Most(3)):
        with pytest.raises(UnresolvedError):
            Most(3, 1) % divisor


def test_powers_and_signs() -> None:
    for size in LENGTHS:
        assert numbers(size**2)[0] == numbers(size)[0] ** 2
        assert numbers(size**2)[-1] == numbers(size)[-1] ** 2
    for size in SIZES:
        assert numbers(-size) == sorted(-n for n in numbers(size))
        assert {abs(n) for n in numbers(size)} <= set(numbers(abs(size)))
        assert max(numbers(abs(size))) == max(abs(n) for n in numbers(size))


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge])
def test_a_comparison_says_what_every_number_says(compare: Callable[[Any, Any], bool]) -> None:
    for one, other in pairs(SIZES):
        said = {compare(a, b) for a in numbers(one) for b in numbers(other)}
        if len(said) == 1:
            assert compare(one, other) is said.pop(), (one, other)
        else:
            with pytest.raises(UnresolvedError):
                compare(one, other)


def test_a_size_is_true_where_it_cannot_be_0() -> None:
    for size in SIZES:
        said = {bool(n) for n in numbers(size)}
        if len(said) == 1:
            assert bool(size) is said.pop()
        else:
            with pytest.raises(UnresolvedError):
                bool(size)


def test_two_sizes_that_must_be_equal_are_one_that_both_may_be() -> None:
    for one, other in pairs(LENGTHS):
        both = {*numbers(one)} & {*numbers(other)}
        if both:
            assert both <= {*numbers(same(one, other))}, (one, other)


def test_two_extents_that_are_broadcast_are_one_that_may_come_out() -> None:
    for one, other in pairs(LENGTHS):
        made = {b if a == 1 else a for a in numbers(one) for b in numbers(other) if a == b or 1 in (a, b)}
        if made:
            assert made <= {*numbers(common(one, other))}, (one, other)


@pytest.mark.parametrize("size", [0, 1, 2, Most(3), Most(3, 2)])
def test_of_an_open_size_no_more_is_said_than_is_known(size: Any) -> None:
    for compute in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, larger):
        assert compute(size, OPEN) is compute(OPEN, size) is OPEN
    assert numbers(smaller(size, OPEN)) == numbers(smaller(OPEN, size)) == [*range(numbers(size)[-1] + 1)]
    assert same(size, OPEN) is same(OPEN, size) is size
    assert common(size, OPEN) is common(OPEN, size) is (size if type(size) is int and size != 1 else OPEN)


def test_a_product_with_nothing_is_nothing() -> None:
    assert product((OPEN, 0, 3)) == 0
    assert product((OPEN, 1)) is OPEN
    made: Any = product((2, Most(3, 1), 5))
    assert (made.low, made.high) == (10, 30)


@pytest.mark.parametrize(("axis", "place"), [(0, 0), (2, 2), (-1, 2), (-3, 0)])
def test_an_axis_counts_from_either_end(axis: int, place: int) -> None:
    assert axis_of(axis, 3) == place


@pytest.mark.parametrize("axis", [3, -4, 0.0])
def test_there_are_no_other_axes(axis: int) -> None:
    with pytest.raises(MisfitError, match="there is no axis"):
        axis_of(axis, 3)


def test_an_axis_that_the_data_decide_is_not_known() -> None:
    for axis in (None, Most(2), OPEN):
        with pytest.raises(UnresolvedError):
            axis_of(axis, 3)
