"""The HTML page of a comparison in a headless Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.report.html.browser import Page
from tests.report.html.test_page import HOSTILE, chain, symbolic

import flopwise
from flopwise.analyses.compare.comparison import Comparison
from flopwise.analyses.quantities import FIGURES
from flopwise.graph import Graph
from flopwise.report.commands.compare import comparison_report
from flopwise.report.commands.profile import render
from flopwise.report.report import as_text

RESNET = "examples/tiny_resnet.onnx"


def compared() -> Comparison:
    """A chain, and the same with one layer larger, one renamed, one less and one more."""
    one = chain([f"block/{i}" for i in range(8)])
    other = chain([*(f"block/{i}" for i in range(6)), "renamed", "new", "block/7"], size=8)
    return flopwise.compare(one, chain([n.name for n in other.nodes], size=16), labels=["small", "large"])


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Page:
    return Page(
        browser, as_text(comparison_report(compared(), figures=["macs", "params"], full=True), "html"), tmp_path
    )


def numbers(texts: list[str]) -> list[int | None]:
    """The cells as JSON has them: None for what is not there or not known."""
    cells = [text.replace(",", "").replace("−", "-").replace("+", "") for text in texts]
    return [None if text in ("–", "?", "") else int(text) for text in cells]


def test_the_figures_equal_the_json(page: Page) -> None:
    expected = compared().to_dict()
    assert page.column("name") == [layer["names"][0] or "" for layer in expected["layers"]]
    for key in ("macs", "params"):
        for model in (0, 1):
            assert numbers(page.column(f"{key}:{model}")) == [
                layer[key]["values"][model] for layer in expected["layers"]
            ]
            total = page.find(f"#table tfoot td[data-key='{key}:{model}']").text
            assert numbers([total]) == [expected["totals"][key]["values"][model]]
        for shown, layer in zip(numbers(page.column(f"{key}:1:difference")), expected["layers"], strict=True):
            difference = layer[key]["difference"][1]
            alone = [-(layer[key]["values"][0] or 0), layer[key]["values"][1]][layer["names"][0] is None]
            assert shown == (alone if difference is None else difference)
        total = page.find(f"#table tfoot td[data-key='{key}:1:difference']").text
        assert numbers([total]) == [expected["totals"][key]["difference"][1]]
    for key in FIGURES[1:]:
        cells = page.run(
            "const cells = document.querySelectorAll(`#totals-table tr[data-key='${arguments[0]}'] td`);"
            "return [...cells].map(c => c.textContent)",
            key,
        )
        if key == "flops":  # the count says it already
            assert cells == []
            continue
        entry = expected["totals"][key]
        assert numbers(cells[:3]) == [*entry["values"], entry["difference"][1]], key
    assert page.errors() == []


@pytest.mark.parametrize("swapped", [False, True])
def test_differences_are_coloured_and_new_layers_are_named(browser: Any, tmp_path: Path, swapped: bool) -> None:
    found = flopwise.compare(*compared().profiles[:: -1 if swapped else 1], labels=["one", "other"])
    page, expected = Page(browser, as_text(comparison_report(found), "html"), tmp_path), found.to_dict()["layers"]
    moods = page.run(
        "return [...document.querySelectorAll('#table tbody td[data-key=\"count:1:difference\"]')]"
        ".map(c => c.className.split(' ').pop())"
    )
    assert set(moods) == {"less" if swapped else "more"}
    shares = page.column("count:1:percent")
    assert [s == "new" for s in shares] == [layer["names"][0] is None for layer in expected]
    assert [s == "gone" for s in shares] == [layer["names"][1] is None for layer in expected]
    assert ("gone" if swapped else "new") in shares


def test_it_sorts_by_the_difference(page: Page) -> None:
    before = sorted(filter(None, numbers(page.column("macs:1:difference"))))
    page.click("#table th[data-key='macs:1:difference'] button")
    assert numbers(page.column("macs:1:difference")) == before[::-1]
    page.click("#table th[data-key='macs:1:difference'] button")
    assert numbers(page.column("macs:1:difference")) == before


def test_it_filters_by_words_operator_and_kind(page: Page) -> None:
    layers = compared().to_dict()["layers"]
    page.pick("#filter", "renamed")
    assert len(page.column("name")) == 1
    page.click("#filter-clear")
    for kind, model in (("only:0", 1), ("only:1", 0)):
        page.pick("#filter-kind", kind)
        assert len(page.column("name")) == sum(layer["names"][model] is None for layer in layers)
    page.pick("#filter-kind", "same")
    assert page.column("name") == []
    assert "No layer fits" in page.find("#table").text
    page.click("#filter-clear")
    page.click("#operators button.op")
    assert len(page.column("name")) == len(layers)


def test_a_measure_changes_bars_and_columns(page: Page) -> None:
    page.pick("#measure", "weight_bytes")
    expected = [layer["weight_bytes"]["values"][1] for layer in compared().to_dict()["layers"]]
    assert numbers(page.column("weight_bytes:1")) == expected
    assert "weight bytes" in page.find("#depth-sub").text
    assert page.errors() == []


def test_a_chosen_layer_shows_all_its_figures(page: Page) -> None:
    assert not page.find("#chosen").is_displayed()
    page.click("#table tr[data-layer='2']")
    box = page.find("#chosen")
    layer = compared().to_dict()["layers"][2]
    assert f"{layer['output_bytes']['values'][1]:,}" in box.text
    assert "matched by" in box.text
    page.keys("#table tr[data-layer='2']", "ArrowDown")
    assert page.find("#table tr.chosen").get_attribute("data-layer") == "3"
    page.keys("body", "Escape")
    assert not page.find("#chosen").is_displayed()


def test_several_models_and_a_lower_bound(browser: Any, tmp_path: Path) -> None:
    found = flopwise.compare(RESNET, "examples/custom_op.onnx", RESNET, batch_size=1)
    page = Page(browser, as_text(comparison_report(found), "html"), tmp_path)
    assert page.find("#other-pick").is_displayed()
    page.pick("#other", "2")
    assert "C − A" in page.find("#table th[data-key='bar']").text
    cells = page.run(
        "return [...document.querySelectorAll(`#totals-table tr[data-key='macs'] td`)].map(c => c.textContent)"
    )
    assert cells[1].startswith("≥ ")
    assert cells[2:4] == ["?", ""]
    assert cells[4:] == [cells[0], "0", "0 %"]
    assert "Spline" in page.find("#gaps").text
    assert page.errors() == []


def test_conventions_side_by_side(browser: Any, tmp_path: Path) -> None:
    found = flopwise.compare(RESNET, convention=["flops", "macs"])
    page = Page(browser, as_text(comparison_report(found), "html"), tmp_path)
    assert "Convention flops" in page.find("#conventions").text
    assert "Convention macs" in page.find("#conventions").text
    assert page.find("#table th[data-key='count:1']").text == "MACs B"
    assert page.errors() == []


def test_names_from_a_model_run_no_script(browser: Any, tmp_path: Path) -> None:
    names = [HOSTILE, "<svg onload=document.title=1>", "' onclick='x"]
    found = flopwise.compare(chain(names), chain(names[:2]), labels=[HOSTILE, "b"])
    page = Page(browser, as_text(comparison_report(found, full=True), "html"), tmp_path)
    assert page.column("name") == names
    page.click("#table tr[data-layer='0']")
    assert page.run("return document.title") == f"{HOSTILE} and b – flopwise"
    assert page.run("return document.querySelectorAll('img').length") == 0
    assert page.errors() == []


def test_thousands_of_layers_scroll_and_are_found(browser: Any, tmp_path: Path) -> None:
    names = [f"/block{i // 10}/linear{i % 10}/MatMul" for i in range(5000)]
    found = flopwise.compare(chain(names), chain(names, size=9), labels=["one", "other"])
    page = Page(browser, as_text(comparison_report(found), "html"), tmp_path)
    assert len(page.column("name")) < 400
    assert page.run("return performance.timing.domContentLoadedEventEnd - performance.timing.navigationStart") < 3000
    page.run("flopwise.choose(1234, 'depth')")
    assert names[1234] in page.column("name")
    page.pick("#filter", "block77/")
    assert page.column("name") == [name for name in names if "block77/" in name]
    assert page.errors() == []


def test_a_print_and_a_narrow_window(page: Page) -> None:
    printed = page.browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})
    assert len(printed["data"]) > 20_000
    for width in (360, 800, 1400):
        device = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", device)
        assert page.run("return document.documentElement.scrollWidth") <= width
    page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert page.errors() == []


def test_models_without_layers_have_a_page(browser: Any, tmp_path: Path) -> None:
    nothing = Graph("nothing", "hand", "", (), (), ())
    page = Page(browser, as_text(comparison_report(flopwise.compare(nothing, nothing)), "html"), tmp_path)
    assert "no layers" in page.find("#table").text
    assert page.errors() == []


def test_figures_in_symbols(browser: Any, tmp_path: Path) -> None:
    sympy = pytest.importorskip("sympy")
    n = sympy.Symbol("n", positive=True, integer=True)
    graphs = [symbolic(rows) for rows in (n, 2 * n, 4)]
    page = Page(browser, as_text(comparison_report(flopwise.compare(*graphs), figures=["macs"]), "html"), tmp_path)
    assert [page.column(f"macs:{model}") for model in range(3)] == [["64*n"], ["128*n"], ["256"]]
    assert page.column("macs:1:difference") == ["64*n"]
    assert page.find("#table tfoot td[data-key='macs:0']").text == "?"
    assert "not known in numbers" in page.find("#strips").text
    assert page.errors() == []
    page = Page(browser, render(flopwise.profile(graphs[0]), "html"), tmp_path)
    assert page.find("#table tfoot td[data-key='macs']").text == "?"
    assert page.errors() == []


def test_conventions_on_one_model_say_why_they_differ(browser: Any, tmp_path: Path) -> None:
    found = flopwise.compare(RESNET, convention=["flops", "macs"])
    Page(browser, as_text(comparison_report(found), "html"), tmp_path)
    (difference,) = found.differences
    rows = [row.text for row in browser.find_elements("css selector", "#causes tbody tr")]
    assert [row.split(":")[0] for row in rows] == [cause.what for cause in difference.causes]
    shown = numbers([cell.text for cell in browser.find_elements("css selector", "#causes tbody td.num")])
    assert shown == [cause.difference for cause in difference.causes]
    assert sum(n or 0 for n in shown) == difference.difference
    assert not Page(browser, as_text(comparison_report(compared()), "html"), tmp_path).find("#causes").is_displayed()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_fault_of_accessibility(page: Page, theme: str) -> None:
    page.theme(theme)
    page.click("#table tr[data-layer]")
    try:
        assert page.faults() == []
    finally:
        page.theme("")


def test_thousands_of_layers_are_bands(browser: Any, tmp_path: Path) -> None:
    names = [f"/block{i // 10}/linear{i % 10}/MatMul" for i in range(4000)]
    found = flopwise.compare(chain(names), chain(names, size=9), labels=["one", "other"])
    page = Page(browser, as_text(comparison_report(found), "html"), tmp_path)
    assert "neighbours" in page.find("#depth-sub").text
    assert page.count("#strips .band") > 0
