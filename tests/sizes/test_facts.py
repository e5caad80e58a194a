"""Facts about tensors: what is followed at most, and what holds of one of two."""

from __future__ import annotations

from typing import Any

import pytest

from flopwise.operators.size import OPEN, Most
from flopwise.sizes.facts import (
    ABSENT,
    LARGEST_INPUT,
    LARGEST_RANK,
    LARGEST_VALUE,
    NOTHING,
    Facts,
    bulk,
    either,
    wider,
)
from flopwise.sizes.run import is_ready


def test_a_shape_of_more_axes_than_64_is_not_followed() -> None:
    facts = Facts()
    assert facts.tensor("float32", (1,) * LARGEST_RANK).shape == (1,) * LARGEST_RANK
    assert facts.tensor("float32", (1,) * (LARGEST_RANK + 1)).shape is None


@pytest.mark.parametrize(
    ("dims", "asked"), [((LARGEST_VALUE,), True), ((LARGEST_VALUE + 1,), False), ((0, LARGEST_VALUE + 1), False)]
)
def test_elements_of_small_stored_tensors_are_asked_for(dims: tuple[int, ...], asked: bool) -> None:
    calls: list[bool] = []

    def elements() -> tuple[int, ...]:
        calls.append(True)
        return (7,) * (dims[0] if len(dims) == 1 else 0)

    fact = Facts().stored("int64", dims, elements)
    assert bool(calls) is asked
    assert (fact.elements is not None) is asked


@pytest.mark.parametrize(("rows", "held"), [(LARGEST_INPUT, True), (LARGEST_INPUT + 1, False)])
def test_what_is_empty_but_long_has_no_elements(rows: int, held: bool) -> None:
    facts = Facts()
    plain = facts.tensor("int64", (0, rows))
    assert bulk((0, rows)) == rows
    assert (facts.constant(plain, ()).elements == ()) is held


def test_members_are_looked_at_as_long_as_there_is_room() -> None:
    facts = Facts()
    facts.room = 3
    member = facts.tensor("float32", (2,))
    assert facts.sequence("float32", [member] * 3).members == (member,) * 3
    assert facts.sequence("float32", [member]).members is None


@pytest.mark.parametrize(
    ("shape", "extents", "bound", "partial"),
    [
        ((2, 3), (2, 3), False, False),
        ((2, Most(3)), (2, 3), True, True),
        ((2, OPEN), None, False, True),
        ((Most(3), OPEN), None, True, True),
        (None, None, False, True),
    ],
)
def test_a_fact_says_what_the_data_decide(shape: Any, extents: Any, bound: bool, partial: bool) -> None:
    fact = Facts().tensor("float32", shape)
    assert (fact.extents, fact.bound, fact.partial) == (extents, bound, partial)
    assert fact.sized is (extents is not None)


@pytest.mark.parametrize(
    ("one", "other", "covers", "lies"),
    [
        ((2, 3), (2, 3), (2, 3), (2, 3)),
        ((2, 3), (2, 5), (2, OPEN), (2, Most(5, 3))),
        ((2, Most(7, 4)), (2, 5), (2, OPEN), (2, Most(7, 4))),
        ((2, Most(7, 4)), (2, 9), (2, OPEN), (2, Most(9, 4))),
        ((2, Most(7, 4)), (2, Most(7, 4)), (2, Most(7, 4)), (2, Most(7, 4))),
        ((2, OPEN), (2, 5), (2, OPEN), (2, OPEN)),
        ((2,), (2, 5), None, None),
        (None, (2, 5), None, None),
    ],
)
def test_one_of_two_tensors(one: Any, other: Any, covers: Any, lies: Any) -> None:
    facts = Facts()
    for a, b in ((one, other), (other, one)):
        first, second = facts.tensor("float32", a), facts.tensor("float32", b)
        assert wider(facts, first, second) is facts.tensor("float32", covers)
        assert either(facts, first, second) is facts.tensor("float32", lies)


def test_elements_that_differ_are_not_those_of_either() -> None:
    facts = Facts()
    plain = facts.tensor("int64", (2,))
    one, other = facts.constant(plain, (1, 2)), facts.constant(plain, (1, 3))
    assert wider(facts, one, other) is either(facts, one, other) is plain


def test_equal_facts_are_one_object_and_others_are_not() -> None:
    facts = Facts()
    assert facts.tensor("float32", (2, Most(3))) is facts.tensor("float32", (2, Most(3)))
    assert facts.tensor("float32", (2, Most(3))) is not facts.tensor("float32", (2, Most(3, 1)))
    assert facts.tensor("float32", (2, Most(3))) is not facts.tensor("float32", (2, 3))
    plain = facts.tensor("int64", (1,))
    assert facts.constant(plain, (1,)) is facts.constant(plain, (1,))
    assert facts.constant(plain, (1,)) is not facts.constant(plain, (True,))
    assert facts.constant(plain, (1,)) is not facts.constant(plain, (1.0,))


def test_a_rule_is_ready_where_the_elements_that_it_needs_are_known() -> None:
    facts = Facts()
    open_ = facts.tensor("int64", (1,))
    known = facts.constant(open_, (1,))
    assert [is_ready("none", given) for given in ([], [open_])] == [True, True]
    assert [is_ready("some", given) for given in ([], [open_], [open_, known])] == [False, False, True]
    every = [[], [open_, known], [known, NOTHING], [known, ABSENT], [known]]
    assert [is_ready("all", given) for given in every] == [False, False, False, True, True]
