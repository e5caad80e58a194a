"""Laws of shortening, filling and wrapping."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopwise.errors import printable
from flopwise.report.formats import table
from flopwise.report.formats.table import aligned, cells, pad, shorten, widest, wrap
from flopwise.report.sheet.sheet import Look, Sheet

PRINTABLE = st.text().map(printable)


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


@given(st.lists(st.tuples(PRINTABLE, PRINTABLE), min_size=1))
def test_aligned_texts_are_as_wide_as_their_columns(rows: list[tuple[str, str]]) -> None:
    widths = widest(rows)
    assert all([cells(text) for text in aligned(row, widths, (False, True))] == widths for row in rows)


def test_only_texts_at_the_left_are_shortened() -> None:
    assert aligned(("abcdefgh", "12345678"), (5, 5), (False, True), "…") == ["a…fgh", "12345678"]
    assert widest([]) == []


@pytest.mark.parametrize("width", [None, 80])
def test_what_a_table_is_about_is_measured_part_by_part(width: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters that are measured grow as the inputs of a model do, of which there may be very many."""
    measured = 0

    def counted(text: str) -> int:
        nonlocal measured
        measured += len(text)
        return cells(text)

    monkeypatch.setattr(table, "cells", counted)
    parts = ("model.tflite", *[f"x{i}: 1x4" for i in range(5000)])
    text = table.render_sheet(Sheet((), (), about=parts), Look(width=width))
    assert measured < 4 * sum(map(len, parts))
    assert width is None or max(map(len, text.splitlines())) <= width
    assert text.startswith("model.tflite · x0: 1x4 · x1: 1x4")
