"""Every rule with sizes that nobody knows: what it says then holds for each size that it may be.

Each application of an operator in the models of the tests is asked again with one thing less certain: an extent that is
open, or at most so much, or elements that are not known. What comes out has to contain what comes out of every certain
input, and a rule may give up, but not fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.sizes.applications import Application, Flowing, recorded

from flopwise.operators.size import OPEN, Most
from flopwise.sizes.facts import Fact, Facts
from flopwise.sizes.run import Results

Given = tuple[Fact, ...]


def contains(vague: Any, certain: Any) -> bool:
    """Whether a number may be what another one says. None and OPEN say nothing."""
    if vague is None or vague is OPEN or certain is None or certain is OPEN:
        return True
    low, high = (certain.low, certain.high) if type(certain) is Most else (certain, certain)
    if type(vague) is Most:
        return bool(vague.low <= low and high <= vague.high)
    return bool(low == high == vague) or (low != low and vague != vague)


def holds(vague: Fact, certain: Fact) -> bool:
    """Whether one fact is true of whatever the other is true of."""
    if vague.dtype is not None and certain.dtype is not None and vague.dtype != certain.dtype:
        return False
    if vague.kind == "tensor" and vague.shape is not None:
        other = vague.shape if certain.shape is None else certain.shape
        if len(vague.shape) != len(other) or not all(map(contains, vague.shape, other)):
            return False
    some, others = vague.elements, certain.elements
    if some is not None and others is not None and not (len(some) == len(others) and all(map(contains, some, others))):
        return False
    if vague.members is not None and certain.members is not None:
        fewer = len(certain.members) <= len(vague.members) if vague.bound else False
        if len(vague.members) != len(certain.members) and not fewer:
            return False
        return all(map(holds, vague.members, certain.members))
    if vague.item is not None and certain.members is not None:
        return all(holds(vague.item, one) for one in certain.members)
    return True


def of_extents(facts: Facts, given: Given) -> Iterator[tuple[Given, list[Given]]]:
    """Inputs with sizes that are not certain, and such that these may be."""

    def put(old: int, new: Any) -> Given:
        """All extents of one size replaced."""
        return tuple([replaced(facts, one, [new if n == old else n for n in one.shape or ()]) for one in given])

    for size in {n for one in given for n in one.shape or () if type(n) is int}:
        certain = [put(size, n) for n in {1, max(size - 1, 0), size + 1}]
        yield put(size, OPEN), [given, *certain]
        yield put(size, Most(size)), [given, put(size, min(1, size)), put(size, max(size - 1, 0))]
        yield put(size, Most(size + 3, max(size - 1, 0))), [given, put(size, size + 1)]
    for place, one in enumerate(given):
        if one.shape is None:
            continue

        def with_shape(shape: Any, place: int = place, one: Fact = one) -> Given:
            return (*given[:place], replaced(facts, one, shape), *given[place + 1 :])

        yield with_shape(None), [given]
        for axis, size in enumerate(one.shape):
            if type(size) is int:
                before, after = one.shape[:axis], one.shape[axis + 1 :]
                yield with_shape((*before, OPEN, *after)), [given, with_shape((*before, 1, *after))]
                yield with_shape((*before, Most(size), *after)), [given, with_shape((*before, min(size, 1), *after))]


def replaced(facts: Facts, one: Fact, shape: Any) -> Fact:
    """A tensor of another shape; itself if it is the same."""
    if one.kind != "tensor" or (shape is not None and (one.shape is None or tuple(shape) == one.shape)):
        return one
    return facts.tensor(one.dtype, None if shape is None else tuple(shape))


#: Elements of an input that are taken away one by one.
FEW = 6


def of_elements(facts: Facts, given: Given) -> Iterator[tuple[Given, list[Given]]]:
    """Inputs with elements that are not certain, and such that these may be."""
    for place, one in enumerate(given):
        if one.elements is None or one.kind != "tensor":
            continue
        elements = one.elements

        def put(new: Any, at: int, place: int = place, one: Fact = one, elements: Any = elements) -> Given:
            fact = facts.constant(one.plain, (*elements[:at], new, *elements[at + 1 :]))
            return (*given[:place], fact, *given[place + 1 :])

        yield (*given[:place], one.plain, *given[place + 1 :]), [given]
        for some in (None, [Most(n + 1, n - 1) if type(n) is int else n for n in elements]):
            fact = facts.constant(one.plain, tuple(some or [None] * len(elements)))
            yield (*given[:place], fact, *given[place + 1 :]), [given]
        for at, element in enumerate(elements[:FEW]):
            yield put(None, at), [given]
            if type(element) is int and element >= 0:
                more, less = put(element + 1, at), put(max(element - 1, 0), at)
                yield put(Most(element), at), [given, less]
                yield put(Most(element + 1, max(element - 1, 0)), at), [given, more, less]


def judged(
    application: Application | Flowing, vague: Given, certain: Sequence[Given], known: dict[Given, Results]
) -> str:
    """What is wrong with a rule; "" if nothing is."""

    def results(given: Given) -> Results:
        made = known.get(given)
        if made is None:
            made = known[given] = application.results(given)
        return made

    said = results(vague)
    if "make no sense" in said.failure:
        return f"fails with {vague}: {said.failure}"
    for given in certain:
        right = results(given)
        if right.failure or right.fault:
            continue
        if said.fault:
            return f"refuses {vague}: {said.fault}"
        for one, other in zip(said.facts, right.facts, strict=True):
            if not holds(one, other):
                return f"says {one} of {vague}, but {other} of {given}"
    return ""


#: Applications of an operator that are asked again: every so many of them where there are more.
SAMPLE = 10


def test_what_holds_of_a_vague_input_holds_of_every_certain_one() -> None:
    applications: dict[str, list[Application | Flowing]] = {}
    for application in recorded():
        applications.setdefault(application.op, []).append(application)
    assert len(applications) > 350
    wrong = [fault for of_one in applications.values() for fault in faults(of_one[:: -(-len(of_one) // SAMPLE)])]
    assert not wrong, f"{len(wrong)}: " + "\n".join(wrong[:5])


def faults(applications: Sequence[Application | Flowing]) -> Iterator[str]:
    """What is wrong with the rules of an operator."""
    for application in applications:
        known: dict[Given, Results] = {}
        facts, given = application.facts, application.given
        if application.results(given).failure or application.results(given).fault:
            continue
        for vague, certain in (*of_extents(facts, given), *of_elements(facts, given)):
            if fault := judged(application, vague, certain, known):
                yield f"{application}: {fault}"
