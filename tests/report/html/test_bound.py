"""The page of a bound, and its figure: what they draw, in a browser too, and that names run no script."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from onnx import helper
from tests.analyses.timing.models import chain, model
from tests.analyses.timing.test_engine import ALL, bound
from tests.cli.conftest import Run, run
from tests.report.html.browser import Page, data_of

import flopwise
from flopwise.report.commands.bound import bound_report
from flopwise.report.html.bound import page_data, waterfall
from flopwise.report.report import as_text

__all__ = ["run"]  # a fixture


def page(found: Any) -> str:
    return as_text(bound_report(found), "html")


@pytest.mark.parametrize("peak", [100.0, None])
def test_the_roof_of_memory_ends_under_that_of_arithmetic(peak: float | None) -> None:
    """In figures of matplotlib; without a peak it goes on to the border."""
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from flopwise.report.commands.bound import Dot, draw_roofline

    roofs = [{"unit": "B/s", "value": 4.0, "kind": "measured", "label": "memory"}]
    roofs += [] if peak is None else [{"unit": "FLOP/s", "value": peak, "kind": "stated", "label": "peak"}]
    axes = Figure().subplots()
    draw_roofline(axes, [Dot("Conv", 1.0, 4.0, 9.0), Dot("Gemm", 400.0, 90.0, 9.0)], roofs)
    low, high = axes.get_xlim()
    line = axes.lines[0]
    assert list(line.get_xdata()) == [low, high if peak is None else 25.0]
    assert list(line.get_ydata()) == [4 * low, 4 * high if peak is None else 100.0]
    assert [text.get_text().partition(" ")[0] for text in axes.texts] == ["memory", *(["peak"] if peak else [])]


def test_the_steps_of_a_waterfall_lead_from_the_floor_to_the_measured_time() -> None:
    for found in (bound(ALL), flopwise.bound(chain(), device="h100")):
        steps = waterfall(found)
        assert steps[0]["label"] == "physical floor"
        for before, after in itertools.pairwise(steps):
            assert after["kind"] == "sum" or after["from"] == before["to"]
        for place, step in enumerate(steps[1:], 1):
            if step["kind"] == "sum":
                assert step["to"] == pytest.approx(steps[place - 1]["to"])
    measured = waterfall(bound(ALL))
    assert measured[-1] == {"label": "measured", "from": 0.0, "to": 100_000.0, "kind": "sum"}
    assert any(step["label"] == "engine floor" and step["to"] == pytest.approx(90_000) for step in measured)


def test_the_page_holds_all_rows_and_the_roofs() -> None:
    found = flopwise.bound(chain(), device="h100")
    text = page(found)
    data = data_of(text)
    assert data["layers"]["name"] == [row.name for row in found.rows]
    assert {roof["label"] for roof in data["roofs"]} == {"tfloat32", "L1", "memory"}
    assert data["waterfall"] == page_data(found)["waterfall"]
    assert "default-src" in text


@pytest.mark.parametrize("measured", [True, False])
def test_in_a_browser(browser: Any, tmp_path: Path, measured: bool) -> None:
    found = bound(ALL) if measured else flopwise.bound(chain(), device="h100")
    shown = Page(browser, page(found), tmp_path)
    assert shown.run("return document.querySelectorAll('#rows-body tr').length") == len(found.rows)
    assert shown.run("return document.querySelectorAll('#roofline-plot circle.dot').length") > 0
    assert shown.run("return document.querySelectorAll('#waterfall-plot rect').length") == len(waterfall(found))
    shown.run("document.querySelector('#rows-body tr').click()")
    assert shown.run("return document.querySelectorAll('#rows-body tr.on').length") == 1
    assert not [line for line in browser.get_log("browser") if line["level"] == "SEVERE"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_fault_of_accessibility(browser: Any, tmp_path: Path, theme: str) -> None:
    shown = Page(browser, page(bound(ALL)), tmp_path)
    shown.theme(theme)
    try:
        assert shown.faults() == []
    finally:
        shown.theme("")


def test_names_from_a_model_run_no_script(browser: Any, tmp_path: Path) -> None:
    name = "</script><script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name=name)
    found = flopwise.bound(model([node], {"x": (4, 4)}, ["y"], {"w": (4, 4)}), device="h100")
    shown = Page(browser, page(found), tmp_path)
    assert shown.run("return document.title") != "taken"
    assert name in shown.run("return document.querySelector('#rows-body').textContent")


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_figures(tmp_path: Path, run: Run, ending: str, start: bytes) -> None:
    pytest.importorskip("matplotlib")
    path, figure = tmp_path / "chain.onnx", tmp_path / f"time.{ending}"
    path.write_bytes(chain())
    assert run("bound", path, "--device", "h100", "--figure", figure).code == 0
    first = figure.read_bytes()
    assert first.startswith(start)
    assert run("bound", path, "--device", "h100", "--figure", figure).code == 0
    assert figure.read_bytes() == first


def test_a_figure_of_another_kind(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "chain.onnx"
    path.write_bytes(chain())
    result = run("bound", path, "--device", "h100", "--figure", tmp_path / "time.gif")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "a figure ends in .png, .svg, .pdf" in result.err
