"""A workbook holds what CSV holds, with numbers as numbers, and no cell is a formula."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.cli.conftest import EXAMPLES

from flopwise.cli import main
from flopwise.report.formats.csv import render_sheet as csv_text
from flopwise.report.sheet.sheet import Head, Line, Look, Sheet

pytest.importorskip("xlsxwriter")

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def cells(data: bytes) -> Iterator[list[str | float]]:
    """The rows of a workbook's only page, read by its own XML."""
    with zipfile.ZipFile(io.BytesIO(data)) as book:
        strings = [
            "".join(text.text or "" for text in item.iter(f"{MAIN}t"))
            for item in ElementTree.fromstring(book.read("xl/sharedStrings.xml"))
        ]
        page = ElementTree.fromstring(book.read("xl/worksheets/sheet1.xml"))
    assert not list(page.iter(f"{MAIN}f")), "a formula"
    for row in page.iter(f"{MAIN}row"):
        values: list[str | float] = []
        for cell in row:
            letters = re.sub(r"\d", "", cell.get("r", ""))
            column = sum((ord(letter) - 64) * 26**i for i, letter in enumerate(reversed(letters)))
            values += [""] * (column - 1 - len(values))
            text = cell.findtext(f"{MAIN}v") or ""
            values.append(strings[int(text)] if cell.get("t") == "s" else float(text))
        yield values


def test_a_workbook_says_what_csv_says(tmp_path: Path) -> None:
    book, text = tmp_path / "layers.xlsx", tmp_path / "layers.csv"
    tiny = str(EXAMPLES / "tiny_resnet.onnx")
    assert main(["profile", tiny, "-o", str(book)]) == main(["profile", tiny, "-o", str(text)]) == 0
    first = book.read_bytes()
    assert main(["profile", tiny, "-o", str(book)]) == 0
    assert book.read_bytes() == first
    heads, *rows = cells(first)
    lines = list(csv.reader(io.StringIO(text.read_text())))
    assert heads == lines[0]
    for row, line in zip(rows, lines[1:], strict=True):
        padded = [*row, *[""] * (len(line) - len(row))]
        assert [f"{v:.0f}" if isinstance(v, float) else v for v in padded] == line


def test_texts_are_no_formulas_and_long_numbers_keep_their_digits() -> None:
    from flopwise.report.formats.xlsx import render_sheet

    heads = (Head("name", "name", "text"), Head("macs", "MACs", "number"))
    sheet = Sheet(heads, (Line(("=1+1", 2**53)), Line(("@SUM(A1)", 2**80)), Line(("", None)), Line(("{=A1}", 0.5))))
    _, *rows = cells(render_sheet(sheet, Look()))
    assert rows[:2] == [["'=1+1", 2.0**53], ["'@SUM(A1)", str(2**80)]]
    assert rows[-1] == ["{=A1}", 0.5]
    assert "'=1+1" in csv_text(sheet, Look())
