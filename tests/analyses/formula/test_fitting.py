"""Expressions from values alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopwise.analyses.formula.fitting import Fitter, relation, solve
from flopwise.analyses.formula.polynomial import Term, value

#: Sizes of three symbols; lines along each, far points, and points at which floors jump.
POINTS = [
    {"N": n, "H": h, "W": w}
    for n, h, w in [
        (3, 101, 103),
        (5, 101, 103),
        (3, 118, 103),
        (3, 101, 120),
        (40, 5003, 6007),
        (17, 224, 225),
        (29, 255, 257),
        (2, 256, 160),
        (31, 353, 191),
        (11, 777, 127),
        (13, 161, 129),
        (7, 95, 511),
    ]
]
ELSEWHERE = [{"N": 19, "H": 301, "W": 217}, {"N": 1, "H": 160, "W": 4096}, {"N": 50, "H": 2047, "W": 96}]

Size = Callable[[int, int, int], int]

ROWS: list[tuple[Size, str]] = [
    (lambda n, h, w: 7, "7"),
    (lambda n, h, w: h, "H"),
    (lambda n, h, w: 3 * h + 5, "3*H + 5"),
    (lambda n, h, w: 6000 - h, "-H + 6000"),
    (lambda n, h, w: h // 32, "floor((H)/32)"),
    (lambda n, h, w: (h - 1) // 32 + 1, "floor((H + 31)/32)"),
    (lambda n, h, w: (h - 75) // 32, "floor((H - 75)/32)"),
    (lambda n, h, w: 64 * (-(-w // 64)) + 3, "64*floor((W + 63)/64) + 3"),
    (lambda n, h, w: h * 3 // 2, "H + floor((H)/2)"),
    (lambda n, h, w: n * h, "H*N"),
    (lambda n, h, w: 12 * n * h * w, "12*H*N*W"),
    (lambda n, h, w: h + w, "H + W"),
    (lambda n, h, w: n * (h + w), "H*N + N*W"),
    (lambda n, h, w: h * (h + 1) // 2, "floor((H**2 + H)/2)"),
    (lambda n, h, w: min(h, 200), "min(H, 200)"),
    (lambda n, h, w: max(w - 5, 150), "max(W - 5, 150)"),
]


@pytest.mark.parametrize(("size", "text"), ROWS, ids=[text for _, text in ROWS])
def test_forms(size: Size, text: str) -> None:
    fitter = Fitter(POINTS)
    found = fitter.fit(tuple(size(*p.values()) for p in POINTS))
    assert found is not None
    assert repr(found) == text
    for point in ELSEWHERE:
        assert value(found, point) == size(*point.values())


def test_products_of_what_was_found() -> None:
    fitter = Fitter(POINTS)
    rows = fitter.fit(tuple((p["H"] + 1) // 2 for p in POINTS))
    columns = fitter.fit(tuple((p["W"] + 1) // 2 for p in POINTS))
    total = fitter.fit(tuple(p["H"] + p["W"] for p in POINTS))
    product = fitter.fit(tuple(64 * p["N"] * ((p["H"] + 1) // 2) * ((p["W"] + 1) // 2) for p in POINTS))
    assert product == 64 * fitter_symbol(fitter, "N") * rows * columns  # type: ignore[operator]
    assert fitter.fit(tuple(p["N"] * (p["H"] + p["W"]) for p in POINTS)) == fitter_symbol(fitter, "N") * total  # type: ignore[operator]


def fitter_symbol(fitter: Fitter, name: str) -> Term:
    return fitter.known[fitter.symbols[name]]


def test_floor_of_an_expression_near_by() -> None:
    fitter = Fitter(POINTS)
    near = fitter.fit(tuple(p["H"] + p["W"] for p in POINTS))
    assert near is not None
    found = fitter.fit(tuple((p["H"] + p["W"]) // 16 for p in POINTS), [near])
    assert repr(found) == "floor((H + W)/16)"


@pytest.mark.parametrize("size", [lambda n, h, w: (n * 7919 + h * 104729 + w) % 1009, lambda n, h, w: h ^ w])
def test_what_follows_no_form_is_not_fitted(size: Size) -> None:
    assert Fitter(POINTS).fit(tuple(size(*p.values()) for p in POINTS)) is None


def test_a_symbol_of_one_size_is_a_constant() -> None:
    fitter = Fitter([{"N": 1, "H": h} for h in (10, 17, 30)])
    assert fitter.fit((1, 1, 1)) == 1
    assert repr(fitter.fit((10, 17, 30))) == "H"


@given(
    st.integers(1, 12),
    st.integers(1, 64),
    st.integers(-100, 100),
    st.lists(st.integers(100, 5000), min_size=8, max_size=12, unique=True),
)
def test_a_relation_holds_at_its_points(factor: int, parts: int, shift: int, sizes: list[int]) -> None:
    values = [(factor * s + shift) // parts for s in sizes]
    found = relation(sizes, values)
    if len(set(values)) > 1:
        assert found is not None
        for s in (found.low, found.high):
            assert [(found.factor * u + s) // found.parts for u in sizes] == values


def test_open_shifts_ask_for_the_size_that_settles_them() -> None:
    points = [{"H": h} for h in (101, 118, 5003, 160, 180)]
    fitter = Fitter(points)
    fitter.fit(tuple((p["H"] + 31) // 32 for p in points))
    doubt = fitter.doubts[0]
    assert (doubt.symbol, doubt.parts) == ("H", 32)
    more = [*points, {"H": doubt.residue + 10 * 32}]
    narrower = Fitter(more)
    narrower.fit(tuple((p["H"] + 31) // 32 for p in more))
    assert not narrower.doubts or narrower.doubts[0].open < doubt.open


def test_solve() -> None:
    assert solve([[1, 2], [2, 4]], [3, 7]) is None
    assert solve([[1, 1, 1], [1, 2, 3]], [5, 7, 9]) == [3, 2]
    assert solve([[2, 4], [1, 2]], [6, 12]) == [3, 0]
