"""Sheets: lines of items with their total, and the parts that people and programs see."""

from __future__ import annotations

from flopwise.report.sheet.sheet import Field, Head, Line, Look, Sheet

WORDS: list[Field[str]] = [
    Field(Head("name", "word", "text"), lambda word: word, total="Total"),
    Field(Head("class", "class", "text"), lambda word: ""),
    Field(Head("length", "length", "number"), len, total=8),
]

SHEET = Sheet.of(WORDS, ("conv", "gemm"), lambda word: "heavy" if word == "conv" else "", skip_empty=True)


def test_a_line_for_each_item_and_their_total() -> None:
    assert SHEET.lines == (Line(("conv", "", 4), "heavy"), Line(("gemm", "", 4)))
    assert SHEET.total == Line(("Total", "", 8))
    assert SHEET.texts(SHEET.lines[0], Look()) == ["conv", "", "4"]
    assert Sheet.of(WORDS[1:2], ("conv",)).total is None


def test_people_see_no_empty_columns() -> None:
    seen = SHEET.for_people()
    assert [head.key for head in seen.heads] == ["name", "length"]
    assert seen.total == Line(("Total", 8))
    assert SHEET._replace(skip_empty=False).for_people() == SHEET._replace(skip_empty=False)


def test_programs_see_columns_that_add_up() -> None:
    rest = SHEET._replace(lines=(*SHEET.lines, Line(("2 more", "", 9), "rest")), notes=("a note",), about=("net",))
    assert rest.for_programs() == Sheet(SHEET.heads, SHEET.lines)
