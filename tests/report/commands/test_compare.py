"""A comparison in a narrow terminal: what it is for stays, and what is left out is named as it would be titled."""

from __future__ import annotations

from pathlib import Path

import pytest

import flopwise
from flopwise.report.commands.compare import comparison_report
from flopwise.report.commands.differences import difference_report
from flopwise.report.formats.table import cells
from flopwise.report.report import as_text
from flopwise.report.sheet.sheet import Look

RESNET = Path(__file__).parents[3] / "examples" / "tiny_resnet.onnx"


def lines(by: str, width: int | None) -> list[str]:
    comparison = flopwise.compare(RESNET, convention=["macs", "fvcore"])
    return as_text(comparison_report(comparison, by), "table", Look(width=width)).splitlines()


@pytest.mark.parametrize("width", [60, 70, 80])
@pytest.mark.parametrize("by", ["op", "layer"])
def test_the_difference_stays_longer_than_what_is_the_same_by_definition(by: str, width: int) -> None:
    text = lines(by, width)
    assert max(map(cells, text)) <= width
    titles = next(line for line in text if "MACs A" in line)
    assert "B - A" in titles
    assert "parameters" not in titles


def test_columns_left_out_are_named_by_their_titles() -> None:
    said = " ".join(" ".join(lines("layer", 80)).split())
    assert "left out at this width: parameters A, parameters B, B - A of parameters, % of parameters" in said


def test_names_of_layers_differ_in_a_narrow_table() -> None:
    rows = [line.split()[0] for line in lines("layer", 80) if "BatchNormalization  " in line]
    assert len(rows) == len(set(rows)) == 15


def test_one_model_is_named_once() -> None:
    first = lines("total", None)[0]
    assert first == f"{RESNET} · image float32 1×3×64×64 · A = macs (MAC) · B = fvcore (MAC)"


@pytest.mark.parametrize("width", [40, 60, 200])
def test_a_total_in_two_units_says_how_they_compare(width: int) -> None:
    profiles = [flopwise.profile(RESNET, convention=name) for name in ("fvcore", "benanza")]
    text = as_text(difference_report(profiles), "table", Look(width=width))
    assert "= 3.82 MFLOP (1 MAC = 2 FLOP)" in " ".join(text.split())
    assert max(map(cells, text.splitlines())) <= width
