"""Sizes that are numbers and expressions at once."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy
import pytest
from tests.cases import each

from flopwise.analyses.formula.conditions import Guards, recording
from flopwise.analyses.formula.dim import Dim, Ratio, dim, larger, scale, smaller, term
from flopwise.analyses.formula.terms import symbol, value, written

H, W = symbol("H"), symbol("W")


def h(hint: int = 224) -> Any:
    return dim(hint, H)


@each(
    ("make", "text"),
    [
        (lambda h: (h + 6 - 7) // 2 + 1, "floor((H + 1)/2)"),
        (lambda h: ((h - 3) // 2 + 1 - 3) // 2 + 1, "floor((H - 3)/4)"),
        (lambda h: -(-h // 2), "floor((H + 1)/2)"),
        (lambda h: h - h // 2, "floor((H + 1)/2)"),
        (lambda h: 3 * h - h, "2*H"),
        (lambda h: h * h // h, "H"),
        (lambda h: h % 2, "H - 2*floor(H/2)"),
        (lambda h: 7 - h, "-H + 7"),
        (lambda h: math.floor(h * 1.5), "H + floor(H/2)"),
        (lambda h: math.ceil(h / 3), "floor((H + 2)/3)"),
        (lambda h: math.prod([2, h, h]), "2*H**2"),
        (lambda h: sum([h, 1, h]), "2*H + 1"),
        (lambda h: smaller(h, 150), "min(H, 150)"),
        (lambda h: larger(h - 8, 0), "max(H - 8, 0)"),
        (lambda h: larger(h + 8, 8), "H + 8"),
        (lambda h: h.bit_length(), "bits(H)"),
        (lambda h: divmod(h, 4)[0], "floor(H/4)"),
        (lambda h: h << 2, "4*H"),
    ],
)
@each("hint", [224, 101, 7, 1])
def test_arithmetic(make: Callable[[Any], Any], text: str, hint: int) -> None:
    made = make(h(hint))
    assert isinstance(made, Dim)
    assert written(term(made)) == text
    assert int(made) == int(make(hint)) == value(term(made), {"H": hint})


@pytest.mark.parametrize(
    ("compare", "guard"),
    [
        (lambda h: h == 1, "H != 1"),
        (lambda h: h == 224, "H == 224"),
        (lambda h: h != 224, "H == 224"),
        (lambda h: h > 7, "H >= 8"),
        (lambda h: h >= 7, "H >= 7"),
        (lambda h: h < 7, "H >= 7"),
        (lambda h: h // 2 * 2 == h, "2*floor(H/2) == H"),
        (lambda h: h // 2 >= 4, "H >= 8"),
        (lambda h: max(h, 300), "299 >= H"),
        (bool, "H != 0"),
        (lambda h: h in (1, 2), "H != 1,H != 2"),
        (lambda h: h / 2 > 3.5, "H >= 8"),
    ],
)
def test_comparisons_record_what_they_took_for_granted(compare: Callable[[Any], Any], guard: str) -> None:
    guards = Guards()
    with recording(guards):
        assert compare(h()) == compare(224)
    assert ",".join(map(str, guards.reasons)) == guard
    for recorded in guards.reasons:
        assert recorded.holds({"H": 224})


@pytest.mark.parametrize("compare", [lambda h: h >= 0, lambda h: h + 1 != 0, lambda h: h * h + 3 > 2, lambda h: h == h])
def test_what_always_holds_is_no_condition(compare: Callable[[Any], bool]) -> None:
    guards = Guards()
    with recording(guards):
        assert compare(h())
    assert not guards.reasons


@each(
    "compare",
    [lambda e: e == 0, lambda e: e > 0, lambda e: e >= 1, lambda e: e == 1, lambda e: e < 1, lambda e: e != 0],
)
@each("hints", [(0, 5), (5, 0), (1, 1), (3, 4)])
def test_products_that_are_nothing_at_the_hint(compare: Callable[[Any], bool], hints: tuple[int, int]) -> None:
    guards = Guards()
    with recording(guards):
        truth = compare(dim(hints[0], H) * dim(hints[1], W))
    for one, other in [(a, b) for a in range(4) for b in range(4)]:
        point = {"H": one, "W": other}
        assert not all(g.holds(point) for g in guards.reasons) or compare(one * other) == truth, point


def test_nothing_is_recorded_outside() -> None:
    assert h() == 224


@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod])
def test_two_sizes(operation: Callable[[Any, Any], Any]) -> None:
    for one in (1, 5, 12, 101):
        for other in (1, 4, 7):
            made = operation(dim(one, H), dim(other, W))
            assert int(made) == operation(one, other)
            if one != other:
                assert value(term(made), {"H": one, "W": other}) == operation(one, other)


#: What models make of a size with floating-point numbers.
SCALED: dict[str, Callable[[Any, Any], Any]] = {
    "scaled": lambda x, s: x * s,
    "half a step further": lambda x, s: x * s + 0.5,
    "scaled twice": lambda x, s: x * s * 3.0,
    "a third, scaled": lambda x, s: x / 3.0 * s,
    "scaled, less": lambda x, s: x * s - 1.5,
    "divided": lambda x, s: x / s,
    "in parts": lambda x, s: x * s * 0.25,
}


@each("rounding", [math.floor, math.ceil, round])
@each("scale", [0.5, 0.25, 0.3, 0.7, 1.5, 2.0, 1.3, 1 / 3, 0.1])
@each("name", SCALED)
@each("bits", [32, 64])
def test_floats_are_rounded_as_they_are_where_the_conditions_hold(
    name: str, scale: float, rounding: Callable[[Any], int], bits: int
) -> None:
    made = SCALED[name]
    kind: Any = numpy.float32 if bits == 32 else numpy.float64
    factor, inside = kind(scale), 0
    guards = Guards()
    with recording(guards):
        size = rounding(made(Ratio.of(h(101)), float(factor)))
    for number in (*range(200), 1009, 4096, 65537, 99991):
        if all(guard.holds({"H": number}) for guard in guards.reasons):
            constants = lambda x: made(kind(x), factor)  # noqa: E731
            expected = int(numpy.rint(constants(number)) if rounding is round else rounding(constants(number)))
            assert value(term(size), {"H": number}) == expected, number
            inside += 1
    assert inside


@each("number", [0.5, 0.1, 0.3, 0.7, 1.1, 1.3, 0.15, 1 / 3])
@each("bits", [32, 64])
def test_the_side_of_a_scale_is_that_on_which_its_whole_and_half_products_lie(number: float, bits: int) -> None:
    kind: Any = numpy.float32 if bits == 32 else numpy.float64
    fraction, side = scale(float(kind(number)), False)
    assert fraction == Fraction(number).limit_denominator(1000)
    exact = {n: fraction * n for n in range(1, 2001) if 2 * fraction * n % 1 == 0}
    errors = [Fraction(float(kind(number) * kind(n))) - product for n, product in exact.items()]
    assert side == (-1 if min(errors) < 0 else int(max(errors) > 0))


def test_rounding_a_size_leaves_it_as_it_is() -> None:
    size = h()
    assert all(f(size) is size for f in (math.trunc, math.floor, math.ceil, round))


def test_a_scaled_size_is_one_that_a_float_of_32_bits_holds() -> None:
    guards = Guards()
    with recording(guards):
        assert int(h().scaled(0.5)) == 112
    assert all(guard.holds({"H": 2**24}) for guard in guards.reasons)
    assert not all(guard.holds({"H": 2**24 + 1}) for guard in guards.reasons)


def test_a_size_beside_a_float_is_compared_exactly() -> None:
    size = dim(2, symbol("H"))
    assert not size >= 2.5
    assert size > 1.5
    assert -Ratio.of(size) < -1.5


def test_the_negative_of_what_is_rounded_misses_to_the_other_side() -> None:
    negatives = [-Ratio(Fraction(3, 2), H, 2, side) for side in (0, 1, -1)]
    assert [ratio.identity for ratio in negatives] == [(-H, 2, 0), (-H, 2, -1), (-H, 2, -1)]
    assert all(ratio.number == Fraction(-3, 2) for ratio in negatives)


ROUNDINGS: dict[str, Callable[[Any], int]] = {
    "int": lambda n: int(n**0.5),
    "floor": lambda n: math.floor(n**0.5),
    "ceil": lambda n: math.ceil(n**0.5),
    "round": lambda n: round(n**0.5),
}


@pytest.mark.parametrize("name", ROUNDINGS)
def test_a_root_rounds_to_its_number_just_where_the_conditions_hold(name: str) -> None:
    rounded = ROUNDINGS[name]
    for hint in range(1, 60):
        guards = Guards()
        with recording(guards):
            number = rounded(h(hint))
        assert number == rounded(hint)
        holds = {n: all(guard.holds({"H": n}) for guard in guards.reasons) for n in range(1, 90)}
        assert holds == {n: rounded(n) == number for n in range(1, 90)}
