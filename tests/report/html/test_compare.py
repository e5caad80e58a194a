"""The HTML page of a comparison as a file: what is in it, without a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.report.html.browser import data_of
from tests.report.html.test_page import HOSTILE, Elements, chain, symbolic

import flopwise
from flopwise.analyses.compare.comparison import OF_MODEL, Comparison
from flopwise.analyses.quantities import FIGURES
from flopwise.cli import cli
from flopwise.errors import InputError
from flopwise.graph import Graph
from flopwise.report.commands.compare import comparison_report
from flopwise.report.report import as_text

TWO = ("examples/tiny_resnet.onnx", "examples/custom_op.onnx")


def page_of(comparison: Comparison, **how: Any) -> str:
    return as_text(comparison_report(comparison, **how), "html")


@pytest.mark.parametrize(
    "comparison",
    [
        lambda: flopwise.compare(*TWO),
        lambda: flopwise.compare(*TWO, "examples/tiny_resnet.onnx", batch_size=1),
        lambda: flopwise.compare(TWO[0], convention=["flops", "fvcore"]),
        lambda: flopwise.compare(TWO[0], batch_size=[1, 8]),
    ],
)
def test_the_data_are_the_figures_of_the_json(comparison: Any) -> None:
    compared = comparison()
    found, expected = data_of(page_of(compared)), compared.to_dict()
    for key in (*FIGURES, *OF_MODEL):
        assert found["totals"][key] == {name: expected["totals"][key][name] for name in ("values", "exact")}, key
    for number, group in enumerate(expected["layers"]):
        for model, name in enumerate(group["names"]):
            there = found["layers"]["name"][model][number]
            assert (group["names"][0] if there == 0 else there) == name
            for key in FIGURES:
                value = found["layers"]["values"][key][model][number]
                assert value == ("" if name is None else group[key]["values"][model]), (key, number)
        assert found["layers"]["changed"][number] == group["changed"]
        assert [found["ways"][way] or None for way in found["layers"]["ways"][number]] == group["matched_by"]
    assert [found["ops"][line["op"]] for line in found["operators"]] == [o["op"] for o in expected["operators"]]
    assert [model["convention"]["name"] for model in found["models"]] == [
        model["convention"]["name"] for model in expected["models"]
    ]


def test_what_is_asked_for_is_shown_first() -> None:
    found = data_of(page_of(flopwise.compare(*TWO), figures=["macs", "weight_bytes"], full=True))
    assert found["shown"] == ["macs", "weight_bytes"]
    assert found["full"] is True
    with pytest.raises(InputError, match="unknown figure"):
        page_of(flopwise.compare(*TWO), figures=["cost"])


def test_notes_name_the_models_that_they_are_about() -> None:
    notes = data_of(page_of(flopwise.compare(*TWO)))["notes"]
    assert [(note["gap"], note["models"]) for note in notes if "Spline" in note["text"]] == [(True, [1])]


def test_names_cannot_leave_the_data_or_the_title() -> None:
    names = [HOSTILE, "<!--<script>", "[[data]]"]
    compared = flopwise.compare(
        *(flopwise.profile(chain(names, size)) for size in (8, 9)), labels=[HOSTILE, "[[scripts]]"]
    )
    page = page_of(compared)
    elements = Elements(page).found
    assert not [tag for tag, _ in elements if tag in ("img", "iframe", "object", "embed", "link")]
    assert not [attrs for _, attrs in elements if any(key.startswith("on") or key == "src" for key in attrs)]
    assert page.count("<title>") == 1
    assert data_of(page)["layers"]["name"][0] == names
    assert page.isascii()


def test_figures_in_symbols_have_their_differences() -> None:
    sympy = pytest.importorskip("sympy")
    n = sympy.Symbol("n", positive=True, integer=True)

    found = data_of(page_of(flopwise.compare(symbolic(n), symbolic(2 * n), labels=["one", "two"])))
    assert found["totals"]["macs"]["values"] == ["64*n", "128*n"]
    assert found["totals"]["macs"]["differences"] == ["0", "64*n"]
    assert found["layers"]["symbols"]["macs"] == {"0": ["0", "64*n"]}
    assert found["layers"]["symbols"].keys() == {"count", "macs", "flops", "activations", "output_bytes"}


def test_models_without_layers_have_a_page() -> None:
    nothing = Graph("nothing", "hand", "", (), (), ())
    assert data_of(page_of(flopwise.compare(nothing, nothing)))["layers"]["op"] == []


def test_5000_layers_stay_under_5_mb() -> None:
    names = [f"/model/stage.{i // 500}/block.{i // 10}/linear{i % 10}/MatMul" for i in range(5000)]
    one, other = flopwise.profile(chain(names)), flopwise.profile(chain([name[:-1] for name in names], size=9))
    assert len(page_of(flopwise.compare(one, other)).encode()) < 5_000_000


def test_the_command_line_writes_a_page(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert CliRunner().invoke(cli, ["compare", *TWO, "-o", str(out)]).exit_code == 0
    assert data_of(out.read_text("utf-8"))["schema"] == "flopwise.html-compare/1"
