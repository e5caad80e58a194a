"""Laws of shortening, wrapping and cleaning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopwise.errors import printable
from flopwise.report.sheet.text import ascii_only, cells, pad, shorten, wrap
from flopwise.report.sheet.units import exact, human, percent

PRINTABLE = st.text().map(printable)


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


@given(PRINTABLE, st.integers(0, 40))
def test_shortened_text_fits_and_keeps_both_ends(text: str, width: int) -> None:
    short = shorten(text, width)
    assert cells(short) <= width
    if cells(text) <= width:
        assert short == text
    elif "…" not in text and width >= 3 and "…" in short:
        head, tail = short.split("…")
        assert text.startswith(head)
        assert text.endswith(tail)


@given(PRINTABLE, st.integers(0, 40))
def test_padded_text_is_as_wide_as_asked(text: str, width: int) -> None:
    assert cells(pad(text, width)) == cells(pad(text, width, right=True)) == max(width, cells(text))


@given(PRINTABLE, st.integers(8, 40))
def test_wrapped_lines_fit_and_hold_all_words(text: str, width: int) -> None:
    lines = list(wrap(text, width))
    assert all(cells(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_wide_and_combining_characters() -> None:
    assert cells("卷积") == 4
    assert cells("e\u0301") == 1
    assert shorten("卷积卷积卷积", 7) == "卷…卷积"


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
        (6 * 10**27, "6000 Y"),
        (-4096, "-4.10 k"),
    ],
)
def test_human(number: int, text: str) -> None:
    assert human(number) == text
    assert human(number, "FLOP").endswith("FLOP")


@given(st.integers(0, 10**40))
def test_human_is_within_half_of_a_percent(number: int) -> None:
    digits, _, prefix = human(number).partition(" ")
    value = float(digits) * 1000.0 ** " kMGTPEZY".index(prefix or " ")
    assert value == pytest.approx(number, rel=0.0051)
    assert exact(number).replace(",", "") == str(number)


@given(st.floats(0, 100))
def test_percent_is_zero_only_for_nothing(share: float) -> None:
    assert (percent(share) == "0.0") == (share == 0)
