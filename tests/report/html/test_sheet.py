"""The page of a report that is a table has the cells of its text, and names stay names."""

from __future__ import annotations

from typing import Any

from tests.report.html.browser import Page, data_of

import flopwise
from flopwise.answers.memory.report import memory_report
from flopwise.report.commands.weights import weights_report
from flopwise.report.html.page import render_sheets
from flopwise.report.report import as_text
from flopwise.report.sheet.sheet import Head, Line, Look, Sheet

RESNET = "examples/tiny_resnet.onnx"


def test_cells_figures_and_notes_are_those_of_the_text() -> None:
    report = memory_report(flopwise.memory(RESNET))
    text, (sheet,) = as_text(report), data_of(as_text(report, "html"))["sheets"]
    for line in (*sheet["lines"], [sheet["total"]], *([figure] for figure in sheet["summary"])):
        assert all(cell in text for cell in line[0])
    assert len(sheet["summary"]) == 4


def test_a_name_cannot_become_markup() -> None:
    name = "</script><img onerror=alert(1)>"
    page = render_sheets([Sheet((Head("name", "name", "text"),), (Line((name,)),), notes=(name,))], Look())
    assert "<img" not in page
    assert data_of(page)["sheets"][0]["lines"] == [[[name], "", 0]]


def test_a_click_sorts_and_words_filter(browser: Any, tmp_path: Any) -> None:
    weights = flopwise.weights(RESNET, histogram=False)
    page = Page(browser, as_text(weights_report(weights), "html"), tmp_path)
    cells = "return [...document.querySelectorAll('.layers tbody tr td:nth-child(3)')].map((cell) => cell.textContent)"
    lengths = [int(text.replace(",", "")) for text in page.run(cells)]
    page.click(".layers th:nth-child(3) button")
    assert [int(text.replace(",", "")) for text in page.run(cells)] == sorted(lengths, reverse=True)
    page.pick("input[type=search]", "stem norm")
    assert page.run(cells) == ["32"]
    assert page.faults() == []
    assert page.errors() == []
