"""A formula in every format."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from tests.analyses.formula import models

import flopwise
from flopwise.report.commands.formula import formula_report, values_report
from flopwise.report.formats.format import formats_of
from flopwise.report.report import as_text
from flopwise.report.sheet.sheet import Look

GOLDEN = Path(__file__).parent / "golden_formulas"
FORMATS = [format.name for format in formats_of(("sheet", "content")) if not format.binary]
NAMES = {
    "formula.txt": {},
    "formula_formula.txt": {"by": "formula", "top": 3, "columns": ["macs", "output_bytes"]},
    "formula.md": {"format": "markdown"},
    "formula.csv": {"format": "csv", "by": "layer"},
    "formula.json": {"format": "json"},
    "formula.tex": {"format": "latex", "top": 2},
}


def render(formula: flopwise.Formula, format: str = "table", look: Look | None = None, **how: object) -> str:
    return as_text(formula_report(formula, **how), format, look)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def formula() -> flopwise.Formula:
    return flopwise.formula(models.shuffled())


@pytest.mark.parametrize("name", NAMES)
def test_golden(formula: flopwise.Formula, name: str) -> None:
    assert render(formula, **NAMES[name]) == (GOLDEN / name).read_text()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "format"), [("formula_at.txt", "table"), ("formula_at.csv", "csv"), ("formula_at.json", "json")]
)
def test_golden_values(formula: flopwise.Formula, name: str, format: str) -> None:
    points = [{"N": n, "H": 64, "W": 128} for n in (1, 8)]
    assert as_text(values_report(formula, points), format) == (GOLDEN / name).read_text()


def test_values_are_those_of_the_profile(formula: flopwise.Formula) -> None:
    rows = list(csv.DictReader(io.StringIO(as_text(values_report(formula, [{"N": 2, "H": 24, "W": 40}]), "csv"))))
    profile = flopwise.profile(models.shuffled(), (2, 3, 24, 40))
    assert [int(rows[0][f]) for f in ("macs", "activations")] == [profile.total("macs"), profile.total("activations")]


def test_str(formula: flopwise.Formula) -> None:
    assert str(formula) == render(formula)


@pytest.mark.parametrize("format", FORMATS)
def test_lower_bounds_show(format: str) -> None:
    formula = flopwise.formula(models.mystery())
    text = render(formula, format)
    assert "128" in text
    if format not in ("csv", "json"):
        assert any(sign in text for sign in ("≥", r"\geq", r"\u2265"))
        assert "unknown: acme::Mystery" in text.replace("\\", "")
    if format == "json":
        assert json.loads(text)["layers"][1]["count"] is None
    values = as_text(values_report(formula, [{"batch": 1, "seq": 2}]), format)
    assert "256" in values


def test_ascii() -> None:
    formula = flopwise.formula(models.mystery())
    assert render(formula, look=Look(ascii=True)).isascii()
    assert ">= 128*batch*seq" in render(formula, look=Look(ascii=True))


def test_narrow_terminal(formula: flopwise.Formula) -> None:
    text = render(formula, look=Look(width=60))
    above = text.partition("operator")[0]
    assert all(len(line) <= 60 for line in above.splitlines())


def test_no_header(formula: flopwise.Formula) -> None:
    assert render(formula, look=Look(header=False)).startswith("FLOPs")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "tree"}, "unknown format 'tree'"),
        ({"by": "row"}, "cannot group by 'row'"),
        ({"columns": ["work"]}, "unknown column 'work'; known: count, macs"),
    ],
)
def test_errors(formula: flopwise.Formula, options: dict[str, object], message: str) -> None:
    with pytest.raises(flopwise.InputError, match=message):
        render(formula, **options)  # type: ignore[arg-type]


def test_hostile_names() -> None:
    net = models.Net()
    formula = flopwise.formula(net.model(net.op("Relu", "x"), x=["a\x1b[31m", "\u202e"]))
    for format in FORMATS:
        assert "\x1b" not in render(formula, format)
        assert "\u202e" not in render(formula, format)
