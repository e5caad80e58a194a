"""Polynomials behave as the integers that they stand for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopwise.analyses.formula.terms import Term, floor, largest, least, substituted, symbol, symbols, value
from flopwise.operators.counts import Counts

H, W = symbol("H"), symbol("W")
SMALL = st.integers(-9, 9)
SIZES = st.integers(0, 5000)
PARTS = st.integers(1, 64)


@st.composite
def terms(draw: st.DrawFn) -> Term:
    """A polynomial or number with floors and bounds in it."""
    term: Term = draw(SMALL) * H + draw(SMALL) * W + draw(SMALL)
    term = floor(term, draw(PARTS)) + draw(SMALL)
    term = term * (draw(SMALL) * W + draw(SMALL))
    return draw(st.sampled_from([least, largest]))(term, draw(SMALL) * H)


@given(terms(), terms(), PARTS, SIZES, SIZES)
def test_arithmetic_is_that_of_integers(a: Term, b: Term, parts: int, h: int, w: int) -> None:
    at = {"H": h, "W": w}
    x, y = value(a, at), value(b, at)
    assert value(a + b, at) == x + y
    assert value(a - b, at) == x - y
    assert value(3 - a, at) == 3 - x
    assert value(a * b, at) == x * y
    assert value(a // parts, at) == x // parts
    assert value(a % parts, at) == x % parts
    assert value(least(a, b), at) == min(x, y)
    assert value(largest(a, b), at) == max(x, y)


@given(terms(), SIZES, PARTS, SIZES, SIZES)
def test_substituting_is_evaluating_elsewhere(term: Term, offset: int, step: int, h: int, w: int) -> None:
    scaled = substituted(term, {"H": step * symbol("k") + offset})
    assert value(scaled, {"k": h, "W": w}) == value(term, {"H": step * h + offset, "W": w})


def test_equal_terms_are_one() -> None:
    assert (H + 1) * (H - 1) == H * H - 1
    assert hash((H + W) * 2) == hash(W + H + W + H)
    assert H - H == 0
    assert isinstance(H * 0, int)
    assert H != 1


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ((8 * H + 7) // 8, "H"),
        ((32 * H * W + 7) // 8, "4*H*W"),
        ((4 * H + 7) // 8, "floor((H + 1)/2)"),
        ((33 * H + 5) // 32, "H + floor((H + 5)/32)"),
        (((H + 1) // 2 + 1) // 2, "floor((H + 3)/4)"),
        (((H - 3) // 2 - 2) // 4, "floor((H - 7)/8)"),
        (least(H, 8) * W - 2, "W*min(H, 8) - 2"),
        (2 - H, "-H + 2"),
    ],
)
def test_text(term: Term, text: str) -> None:
    assert repr(term) == text


def test_counts_take_polynomials() -> None:
    counts = Counts(mac=2, add=1) * (H * W) + Counts(add=3)
    assert (counts.mac, counts.add, counts.exp) == (2 * H * W, H * W + 3, 0)
    assert counts.dot(Counts(mac=2, add=1)) == 5 * H * W + 3


@pytest.mark.parametrize(
    "use",
    [lambda: bool(H), lambda: H < 3, lambda: max(H, W), lambda: int(H), lambda: H / 2, lambda: H // 0],
)
def test_what_needs_a_value_is_refused(use: object) -> None:
    with pytest.raises(TypeError):
        use()  # type: ignore[operator]


def test_symbols_inside_floors_are_found() -> None:
    assert symbols((H + 1) // 2 * 3 + least(W, 4)) == {"H", "W"}
