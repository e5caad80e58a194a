"""Values as text: names safe to print, numbers with every digit and in short, bounds, shapes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopwise.errors import printable
from flopwise.report.sheet.sheet import (
    AtLeast,
    Kind,
    Look,
    Value,
    ascii_only,
    bounded,
    by_size,
    exact,
    human,
    percent,
    ratio,
    total_of,
)


@given(st.text())
def test_clean_text_is_printable_and_stays_as_it_is(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(printable(text)) == printable(text)
    printable(text).encode()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\nb", r"a\x0ab"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\x9b31m", r"\x9b31m"),
        ("\u202e", r"\u202e"),
        ("\udc80", r"\udc80"),
        ("\U000e0001", r"\U000e0001"),
        ("卷积", "卷积"),
    ],
)
def test_clean(name: str, shown: str) -> None:
    assert printable(name) == shown


@given(st.text())
def test_ascii_only(text: str) -> None:
    assert ascii_only(printable(text)).isascii()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.00 k"),
        (1001, "1.00 k"),
        (9994, "9.99 k"),
        (9996, "10.0 k"),
        (99949, "99.9 k"),
        (999499, "999 k"),
        (999500, "1.00 M"),
        (4089184256, "4.09 G"),
        (10**12, "1.00 T"),
        (2 * 10**15, "2.00 P"),
        (3 * 10**18, "3.00 E"),
        (4 * 10**21, "4.00 Z"),
        (5 * 10**24, "5.00 Y"),
        (6 * 10**27, "6.00 R"),
        (7 * 10**30, "7.00 Q"),
        (999_600 * 10**30, "1.00e36"),
        (8 * 10**33, "8.00e33"),
        (-4096, "-4.10 k"),
    ],
)
def test_human(number: int, text: str) -> None:
    assert human(number) == text
    assert human(number, "FLOP").endswith("FLOP")
    assert human(number, "FLOP").startswith(text)


@given(st.integers(0, 10**40))
def test_human_is_within_half_of_a_percent(number: int) -> None:
    digits, _, prefix = human(number).partition(" ")
    value = float(digits) * 1000.0 ** " kMGTPEZYRQ".index(prefix or " ")
    assert value == pytest.approx(number, rel=0.0051)
    assert exact(number).replace(",", "") == str(number)


@given(st.floats(0, 100))
def test_percent_is_zero_only_for_nothing(share: float) -> None:
    assert (percent(share) == "0.0") == (share == 0)


@pytest.mark.parametrize(
    ("value", "kind", "plain", "short"),
    [
        (4089184256, "number", "4,089,184,256", "4.09 G"),
        (4096, "bytes", "4,096", "4.10 kB"),
        (AtLeast(1000), "number", "≥ 1,000", "≥ 1.00 k"),
        (None, "number", "?", "?"),
        (None, "text", "", ""),
        ("", "number", "", ""),
        (12.345, "percent", "12.3", "12.3"),
        (12.345, "ratio", "12.3", "12.3"),
        (((1, 3), None), "shapes", "1×3, ?", "1×3, ?"),
        (((1,), (2,), ()), "shapes", "1, 2 +1", "1, 2 +1"),
    ],
)
def test_values(value: Value, kind: Kind, plain: str, short: str) -> None:
    assert Look().value(value, kind) == plain
    assert Look(human=True).value(value, kind) == short


def test_a_narrow_table_shows_one_shape() -> None:
    assert Look(width=80, ascii=True).value(((1, 2), ()), "shapes") == "1x2 +1"


def test_a_number_has_the_short_form_of_its_convention() -> None:
    assert Look(human=True).value(AtLeast(2000), "number", lambda n: f"{n} ops") == "≥ 2000 ops"


def test_totals_are_bounds_where_some_figures_are_unknown() -> None:
    assert total_of([1, 2]) == 3
    assert type(total_of([1, 2])) is int
    assert type(total_of([1, None])) is type(total_of([1, AtLeast(2)])) is AtLeast
    assert total_of([None, None]) is None
    assert total_of([]) == 0


def test_a_figure_is_a_bound_unless_it_is_exact() -> None:
    assert type(bounded(5, True)) is int
    assert type(bounded(5, False)) is AtLeast
    assert bounded(None, True) is bounded(None, False) is None


def test_what_is_unknown_comes_first_and_then_the_largest() -> None:
    values: list[Value] = ["b", 3, None, 5.5, "a", AtLeast(4)]
    assert sorted(values, key=by_size) == [None, 5.5, 4, 3, "a", "b"]


@pytest.mark.parametrize(("share", "text"), [(0.05, "0.1"), (0.0499, "<0.1"), (-0.05, "-0.1"), (-0.0499, "> -0.1")])
def test_a_share_that_rounds_to_something_is_shown(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(("value", "text"), [(99.94, "99.9"), (100.0, "100"), (-100.4, "-100"), (1000.0, "1,000")])
def test_a_ratio_has_no_fraction_from_100_on(value: float, text: str) -> None:
    assert ratio(value) == text


@pytest.mark.parametrize(("width", "text"), [(None, "1, 2"), (120, "1, 2"), (119, "1 +1")])
def test_a_wide_table_shows_two_shapes(width: int | None, text: str) -> None:
    assert Look(width=width).value(((1,), (2,)), "shapes") == text
