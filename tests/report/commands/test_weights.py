"""The table of weights: what a terminal shows, and names and histograms in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flopwise.analyses.weights.result import Histogram
from flopwise.analyses.weights.weights import weights_of_arrays
from flopwise.report.commands.weights import bars, weights_report
from flopwise.report.formats.table import cells
from flopwise.report.report import as_text
from flopwise.report.sheet.sheet import Look


@pytest.fixture(scope="module")
def found() -> Any:
    rng = np.random.default_rng(1)
    return weights_of_arrays(
        {f"model.layers.{i}.attention.output.dense": rng.standard_normal(1000) * 10.0 ** (i - 9) for i in range(19)}
    )


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("columns", [None, ("name", "length", "histogram", "p50", "l2", "mean", "zero%")])
def test_lines_fit_the_terminal(found: Any, width: int, columns: Any) -> None:
    if columns is not None and width < 76:
        columns = columns[:2]
    text = as_text(weights_report(found, columns), look=Look(width=width))
    assert max(map(cells, text.splitlines())) <= width


def test_a_histogram_is_whole_or_not_there(found: Any) -> None:
    wide = as_text(weights_report(found), look=Look(width=160))
    assert "▁" in wide
    for look in (Look(width=160, ascii=True), Look()):
        assert as_text(weights_report(found), look=look).isascii() or "▁" not in as_text(
            weights_report(found), look=look
        )
    assert "▁" not in as_text(weights_report(found), look=Look(width=60))


def test_bars_show_every_element() -> None:
    assert bars(Histogram((0.0, 1.0, 2.0), (1_000_000, 1)), 2) == "█▁"
    assert bars(Histogram((0.0, 1.0, 2.0), (0, 0)), 2) == ""
    assert len(bars(Histogram(tuple(map(float, range(101))), (1,) * 100))) == 20


def test_rows_without_elements() -> None:
    nothing = weights_of_arrays({"x": np.zeros(0, np.float32), "y": np.float32([np.nan])})
    for format_ in ("table", "markdown", "csv", "latex"):
        assert "nan" not in as_text(weights_report(nothing, ("name", "length", "min", "mean", "p50")), format_)
    assert "?" in as_text(weights_report(nothing))


def test_printing_shows_the_table(found: Any) -> None:
    assert "model.layers.3.attention.output.dense" in str(found)
    assert found.to_dict()["totals"]["length"] == 19_000
