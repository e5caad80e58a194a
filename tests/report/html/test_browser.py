"""The HTML page in a headless Chromium: its figures equal the JSON, it sorts, filters, links and prints."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from tests.report.html.browser import Page
from tests.report.html.test_page import HOSTILE, chain

import flopwise
from flopwise.report.commands.profile import render

RESNET = "examples/tiny_resnet.onnx"


@pytest.fixture
def resnet(browser: Any, tmp_path: Path) -> Page:
    return Page(browser, render(flopwise.profile(RESNET), "html"), tmp_path)


def test_the_figures_equal_the_json(resnet: Page) -> None:
    expected = flopwise.profile(RESNET).to_dict()
    cards: dict[str, str] = resnet.run(
        "return Object.fromEntries([...document.querySelectorAll('.card')].map(c => [c.dataset.key, c.dataset.value]))"
    )
    for key, value in cards.items():
        assert int(value) == expected["totals"][key], key
    assert {"count", "macs", "params", "weight_bytes", "output_bytes", "peak_activation_bytes"} <= set(cards)
    for key in ("name", "op"):
        assert resnet.column(key) == [layer[key] for layer in expected["layers"]]
    for key in ("params", "macs", "count", "weight_bytes", "output_bytes"):
        shown = [int(text.replace(",", "")) for text in resnet.column(key)]
        assert shown == [layer[key] for layer in expected["layers"]], key
        total = resnet.find(f"#table tfoot td[data-key='{key}']").text
        assert int(total.replace(",", "")) == expected["totals"][key]
    assert resnet.errors() == []


def test_a_click_on_a_title_sorts_and_another_turns_it_round(resnet: Page) -> None:
    expected = [layer["params"] for layer in flopwise.profile(RESNET).to_dict()["layers"]]
    resnet.click("#table th[data-key='params'] button")
    assert [int(t.replace(",", "")) for t in resnet.column("params")] == sorted(expected, reverse=True)
    assert resnet.find("#table th[data-key='params']").get_attribute("aria-sort") == "descending"
    resnet.click("#table th[data-key='params'] button")
    assert [int(t.replace(",", "")) for t in resnet.column("params")] == sorted(expected)
    resnet.click("#table th[data-key='name'] button")
    names = resnet.column("name")
    assert names == sorted(names, key=str.lower)


def test_what_is_unknown_sorts_first_and_is_no_number(browser: Any, tmp_path: Path) -> None:
    page = Page(browser, render(flopwise.profile("examples/custom_op.onnx"), "html"), tmp_path)
    page.click("#table th[data-key='count'] button")
    assert page.column("count")[0] == "?"
    assert page.find("#table tfoot td[data-key='count']").text == "≥ 1,280"
    assert "Spline" in page.find("#gaps").text
    assert page.find(".card[data-key='count'] .value").text.startswith("≥")


def test_the_filter_leaves_what_fits_and_adds_it_up(resnet: Page) -> None:
    layers = flopwise.profile(RESNET).to_dict()["layers"]
    resnet.pick("#filter", "stage2 conv")
    fitting = [layer for layer in layers if "stage2" in layer["name"] and "conv" in layer["name"].lower()]
    assert resnet.column("name") == [layer["name"] for layer in fitting]
    total = resnet.find("#table tfoot td[data-key='params']").text
    assert int(total.replace(",", "")) == sum(layer["params"] for layer in fitting)
    resnet.pick("#filter", "nothing is called this")
    assert resnet.column("name") == []
    assert "No layer" in resnet.find("#table").text
    resnet.click("#filter-clear")
    assert len(resnet.column("name")) == len(layers)


def test_the_convention_changes_in_the_page(resnet: Page) -> None:
    names: list[str] = resnet.run("return flopwise.data.conventions.map(c => c.name)")
    for index, name in enumerate(names):
        resnet.pick("#convention", str(index))
        expected = flopwise.profile(RESNET, convention=name).to_dict()["totals"]["count"]
        assert int(resnet.find(".card[data-key='count']").get_attribute("data-value")) == expected
        assert name in resnet.find("#convention-about").text
        assert name in resnet.run("return document.querySelector(\"#table th[data-key='count']\").textContent").lower()
    assert resnet.errors() == []


def test_the_measure_changes_the_areas_and_colours(resnet: Page) -> None:
    for measure in ("params", "weight_bytes", "output_bytes", "count"):
        resnet.pick("#measure", measure)
        assert resnet.run("return document.querySelectorAll('#where-view .leaf').length") > 3
        assert resnet.run("return flopwise.state.measure") == measure
        assert "100" in resnet.find("#operator-bars").text or "%" in resnet.find("#operator-bars").text
    assert resnet.errors() == []


def test_a_row_leads_to_its_node_and_a_node_to_its_row(resnet: Page) -> None:
    resnet.click("#graph-close")
    assert resnet.run("return document.querySelectorAll('.node[data-id=\"l20\"]').length") == 0
    resnet.click("#table tr[data-layer='20']")
    assert "chosen" in resnet.find(".node[data-id='l20']").get_attribute("class")
    assert resnet.find("#chosen").is_displayed()
    name = resnet.run("return flopwise.data.layers.name[20]")
    assert name in resnet.find("#chosen").text
    resnet.click("#to-graph")
    assert resnet.run("return document.activeElement.dataset.id") == "l20"
    other = resnet.run(
        "return [...document.querySelectorAll('.node')].map(n => n.dataset.id).find(i => i[0] == 'l' && i != 'l20')"
    )
    resnet.click(f".node[data-id='{other}']")
    assert "chosen" in resnet.find(f"#table tr[data-layer='{other[1:]}']").get_attribute("class")
    resnet.click("#to-table")
    assert resnet.run("return document.activeElement.dataset.layer") == other[1:]
    assert resnet.errors() == []


def test_modules_open_and_close_in_the_graph(resnet: Page) -> None:
    resnet.click("#graph-close")
    closed = resnet.run("return document.querySelectorAll('.node').length")
    resnet.click(".node.module")
    opened = resnet.run("return document.querySelectorAll('.node').length")
    assert opened > closed
    resnet.click(".cluster rect")
    assert resnet.run("return document.querySelectorAll('.node').length") == closed
    for _ in range(4):
        resnet.click("#graph-open")
    layers = resnet.run("return [...document.querySelectorAll('.node')].filter(n => n.dataset.id[0] == 'l').length")
    assert layers == len(flopwise.profile(RESNET).rows)
    assert "1×8×32×32" in resnet.run("return [...document.querySelectorAll('.edge-label')].map(t => t.textContent)")


def test_the_treemap_goes_into_modules_and_back(resnet: Page) -> None:
    resnet.click("#where-view .cell.module")
    assert resnet.count("#crumbs button") > 1
    resnet.click("#crumbs button")
    assert resnet.count("#crumbs button") == 1


def test_keys_do_what_the_pointer_does(resnet: Page) -> None:
    resnet.keys("#table tr[tabindex='0']", "ArrowDown", "ArrowDown")
    assert resnet.run("return flopwise.state.chosen") == 2
    resnet.keys("#table tr[data-layer='2']", "End")
    assert resnet.run("return flopwise.state.chosen") == len(flopwise.profile(RESNET).rows) - 1
    resnet.keys(f"#table tr[data-layer='{resnet.run('return flopwise.state.chosen')}']", "Home", "Enter")
    assert resnet.run("return document.activeElement.dataset.id") == "l0"
    resnet.keys(".node[data-id='l0']", "ArrowDown")
    assert resnet.run("return document.activeElement.dataset.id") == "l1"
    resnet.keys("body", "Escape")
    assert not resnet.find("#chosen").is_displayed()
    resnet.keys("body", "/")
    assert resnet.run("return document.activeElement.id") == "filter"
    tabbed = resnet.run(
        'return [...document.querySelectorAll(\'.node[tabindex="0"], #table tbody tr[tabindex="0"]\')].length'
    )
    assert tabbed == 2  # one stop for the graph and one for the table


def test_light_and_dark_by_the_system_and_by_the_switch(resnet: Page) -> None:
    def ground(scheme: str) -> str:
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        resnet.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        colour: str = resnet.run("return getComputedStyle(document.body).backgroundColor")
        return colour

    light, dark = ground("light"), ground("dark")
    assert light != dark
    resnet.click("#theme")
    assert ground("dark") == light
    resnet.click("#theme")
    assert ground("light") == dark
    resnet.run("localStorage.clear()")
    resnet.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_names_from_a_model_run_no_script(browser: Any, tmp_path: Path) -> None:
    names = [HOSTILE, "<svg onload=document.title=1>", "javascript:alert(1)", "a/<b>/c", "' onclick='x"]
    page = Page(browser, render(flopwise.profile(chain(names, paths=[HOSTILE, "", "", "x.<i>", ""])), "html"), tmp_path)
    assert page.column("name") == names
    page.click("#table tr[data-layer='0']")
    page.click("#where [data-view='flame']")
    for _ in range(3):
        page.click("#graph-open")
    assert page.run("return document.title") == "models/chain.onnx – flopwise"
    assert page.run("return document.querySelectorAll('img, b + b > i, main svg svg').length") == 0
    assert (
        page.run("return [...document.querySelectorAll('*')].filter(e => e.getAttribute('onerror') || e.onload).length")
        == 0
    )
    assert page.errors() == []


def test_thousands_of_layers_scroll_and_are_found(browser: Any, tmp_path: Path) -> None:
    names = [f"/stage{i // 250}/block{i // 10}/linear{i % 10}/MatMul" for i in range(2000)]
    profile = flopwise.profile(
        chain(names, paths=[f"stage{i // 250}.block{i // 10}.linear{i % 10}" for i in range(2000)])
    )
    page = Page(browser, render(profile, "html"), tmp_path)
    page.click("#layers .fold")  # all of them are alike
    assert len(page.column("name")) < 400
    page.keys("#table tr[tabindex='0']", "End")
    page.run("flopwise.choose(1234, '')")
    assert names[1234] in page.column("name")
    assert page.run("return document.querySelectorAll('.node[data-id=\"l1234\"].chosen').length") == 1
    page.click("#table th[data-key='index'] button")
    assert page.column("name")[0] == names[-1]
    assert page.find("#table tfoot td[data-key='macs']").text.replace(",", "") == str(profile.total("macs"))
    assert page.run("return document.querySelectorAll('.node').length") <= 602
    assert page.errors() == []


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_the_page_is_never_wider_than_the_window(browser: Any, tmp_path: Path, width: int) -> None:
    device = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page = Page(browser, render(flopwise.profile(RESNET), "html"), tmp_path)
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", device)
    assert page.run("return document.documentElement.scrollWidth") <= width
    page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_print_has_all_rows_and_comes_back(resnet: Page) -> None:
    resnet.pick("#filter", "")
    printed = resnet.browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})
    assert len(printed["data"]) > 50_000
    resnet.run("window.dispatchEvent(new Event('beforeprint')); window.dispatchEvent(new Event('afterprint'))")
    assert len(resnet.column("name")) == len(flopwise.profile(RESNET).rows)
    assert resnet.errors() == []


def test_a_model_without_layers_has_a_page(browser: Any, tmp_path: Path) -> None:
    page = Page(browser, render(flopwise.profile(flopwise.Graph("nothing", "hand", "", (), (), ())), "html"), tmp_path)
    assert "no layers" in page.find("#table").text
    assert page.errors() == []


def test_a_training_step_has_cards_and_columns(browser: Any, tmp_path: Path) -> None:
    profile = flopwise.profile(RESNET, train=True, optimizer="adam")
    page, expected = Page(browser, render(profile, "html"), tmp_path), profile.to_dict()
    shown = page.run(
        "return Object.fromEntries([...document.querySelectorAll('#training .card')].map(c => "
        "[c.dataset.key, c.dataset.value]))"
    )
    assert set(shown) == {
        *("backward_macs", "backward_flops", "optimizer_flops"),
        *("gradient_bytes", "state_bytes", "saved_bytes", "memory_bytes"),
    }
    for key, value in shown.items():
        assert int(value) == expected["training"][key], key
    for key in ("backward_macs", "backward_flops", "saved_bytes"):
        assert [int(t.replace(",", "")) for t in page.column(key)] == [layer[key] for layer in expected["layers"]]
        assert int(page.find(f"#table tfoot td[data-key='{key}']").text.replace(",", "")) == expected["training"][key]
    views = page.run("return flopwise.data.conventions.map(c => [c.name, c.backward !== null])")
    assert dict(views)["torch"]
    page.pick("#convention", str([name for name, _ in views].index("torch")))
    own = flopwise.profile(RESNET, train=True, convention="torch").to_dict()
    assert [int(t.replace(",", "").replace("–", "0")) for t in page.column("backward") if t != "–"] == [
        layer["backward"] for layer in own["layers"]
    ]
    page.pick("#measure", "saved_bytes")
    assert page.errors() == []


def test_without_training_the_page_says_nothing_of_it(resnet: Page) -> None:
    assert not resnet.find("#training").is_displayed()
    assert resnet.column("backward_macs") == []


def test_the_address_remembers_what_is_chosen(resnet: Page) -> None:
    resnet.pick("#convention", "1")
    resnet.click("#table th[data-key='params'] button")
    resnet.click("#table tbody tr:nth-child(2)")
    resnet.pick("#filter", "stage2")
    chosen = resnet.run("return [flopwise.convention().name, flopwise.state.chosen]")
    names = resnet.column("name")
    address = resnet.browser.current_url
    assert "#?" in address
    resnet.browser.get("about:blank")
    again = Page.at(resnet.browser, address)
    assert again.run("return [flopwise.convention().name, flopwise.state.chosen]") == chosen
    assert again.column("name") == names
    assert again.errors() == []


def test_the_graph_is_searched(resnet: Page) -> None:
    layers = flopwise.profile(RESNET).to_dict()["layers"]
    fitting = [index for index, layer in enumerate(layers) if "stage2" in layer["name"] and layer["op"] == "Conv"]
    resnet.pick("#graph-search", "stage2 conv")
    for place, index in enumerate(fitting[:2]):
        resnet.keys("#graph-search", "Enter")
        assert resnet.run("return flopwise.state.chosen") == index
        assert resnet.find("#graph-found").text == f"{place + 1} of {len(fitting)}"
    assert resnet.count("#graph-view .chosen") >= 1


def test_charts_and_tables_are_saved(resnet: Page) -> None:
    """As SVG, PNG and CSV; the cells are those of the document that the command line writes."""
    saved = (
        "window.saved = []; flopwise.saved = URL.createObjectURL;"
        "URL.createObjectURL = (blob) => { blob.arrayBuffer().then((all) => "
        "saved.push([blob.type, new TextDecoder().decode(all)])); return 'data:,' }"
    )
    resnet.run(saved)
    buttons = "document.querySelectorAll('.saves button, button.saves')"
    resnet.browser.execute_script(f"{buttons}.forEach((one) => one.click())")
    resnet.wait(f"saved.length === {buttons}.length")
    files: list[tuple[str, str]] = resnet.run("return saved")
    kinds = [kind for kind, _ in files]
    assert kinds.count("image/svg+xml") == kinds.count("image/png") == 5
    assert all(text.startswith("<svg ") for kind, text in files if kind == "image/svg+xml")
    (table,) = (text for kind, text in files if kind == "text/csv")
    lines = list(csv.DictReader(table.splitlines()))
    layers = flopwise.profile(RESNET).to_dict()["layers"]
    assert [(line["layer"], line["params"], line["MACs"]) for line in lines] == [
        (layer["name"], str(layer["params"]), str(layer["macs"])) for layer in layers
    ]


def test_a_device_has_its_ridge_on_the_chart_of_intensity(resnet: Page) -> None:
    """Left of peak arithmetic over bandwidth lies what the bound calls limited by memory; the address remembers it."""
    assert resnet.count("#intensity .ridge") == 0
    index = resnet.run(
        "return [...document.getElementById('device').options].findIndex((o) => o.textContent === arguments[0]) - 1",
        "NVIDIA H100 SXM5 80GB",
    )
    resnet.pick("#device", str(index))
    said = resnet.find("#intensity-ridge").text
    rows = [row for row in flopwise.bound(RESNET, device="h100").rows if row.work.flops and row.work.nbytes]
    waiting = sum(row.roof == "memory" for row in rows)
    assert f"Memory-bound: {waiting} of {len(rows)} layers" in said
    assert resnet.count("#intensity .ridge") == 1
    address = resnet.browser.current_url
    resnet.browser.get("about:blank")
    again = Page.at(resnet.browser, address)
    assert again.find("#intensity-ridge").text == said
    assert again.errors() == []
