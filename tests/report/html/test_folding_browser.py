"""What repeats, in a headless Chromium: folded in the graph, the areas, the levels and the table, and opened again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.report.html.browser import Page
from tests.report.html.models import LENGTH, WIDTH, transformer

import flopwise
from flopwise.graph import Graph, Node, Tensor
from flopwise.report.commands.profile import render

BLOCKS = 12


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Page:
    """The page of a profile that lists the table of positions, which rests on constants alone."""
    return Page(browser, render(flopwise.profile(transformer(BLOCKS), fold=False), "html"), tmp_path)


def texts(page: Page, selector: str) -> list[str]:
    found: list[str] = page.run("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)
    return found


def boxes(page: Page) -> str:
    return " | ".join(texts(page, "#graph-view .node"))


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_the_graph_draws_what_repeats_once(page: Page) -> None:
    assert f"{BLOCKS} × Block" in " ".join(texts(page, ".cluster"))
    folded = page.count(".node")
    assert "attn" in boxes(page)
    assert "mlp" in boxes(page)
    page.click("#graph .fold")
    assert page.run("return document.querySelector('#graph .fold').getAttribute('aria-pressed')") == "false"
    assert "+ 0" in boxes(page)
    assert f"+ {BLOCKS - 1}" in boxes(page)
    page.click("#graph .fold")
    assert page.count(".node") == folded
    page.click("#graph-close")
    assert f"+ {BLOCKS} × Block" in boxes(page)
    assert page.errors() == []


def test_it_opens_into_attention_and_mlp(page: Page) -> None:
    page.click("#graph-close")
    page.click(".node.module")
    for part in ("attn", "mlp"):
        assert f"+ {part}" in boxes(page)
    page.click(".node.module[data-id]")
    assert "Softmax ×12" in boxes(page)
    assert page.errors() == []


def test_all_twins_are_the_same_box(page: Page) -> None:
    for block in (0, 5, BLOCKS - 1):
        layer = page.run("return flopwise.data.layers.name.indexOf(arguments[0])", f"layers.{block}.attn.softmax")
        page.run("flopwise.choose(arguments[0], '')", layer)
        assert "Softmax ×12" in texts(page, ".node.chosen")[0]
        assert f"layers.{block}.attn" in page.find("#chosen").text
        assert page.count("#table tr.chosen") == 1


def test_a_table_of_positions_has_signs_in_place_of_wires(page: Page) -> None:
    page.click("#graph .fold")
    page.click("#graph-close")
    page.click(".node.module")
    assert sum("↳ rotary" in text for text in texts(page, ".node .sign")) == BLOCKS
    wires = page.count("path.edge")
    page.click(".node[data-id='l1']")
    assert page.count("path.edge") == wires + BLOCKS
    page.keys("body", "Escape")
    assert page.count("path.edge") == wires


def test_constants_have_no_boxes(browser: Any, tmp_path: Path) -> None:
    """What copies a stored value is left out, and stands in the box of the layer that takes it."""
    graph = transformer(2)
    zero = Tensor("zero", (WIDTH,), "float32", "weight")
    copies = [Tensor(f"copy{i}", (WIDTH,), "float32") for i in range(9)]
    nodes = [
        *(Node("Identity", f"copy{i}", (zero if i == 0 else copies[i - 1],), (copies[i],)) for i in range(9)),
        *graph.nodes[:-1],
        Node("Add", "bias", (graph.nodes[-2].output(), copies[-1]), (Tensor("biased", (LENGTH, WIDTH), "float32"),)),
        graph.nodes[-1],
    ]
    for fold in (True, False):
        profile = flopwise.profile(Graph("copies", "hand", "", graph.inputs, graph.outputs, tuple(nodes)), fold=fold)
        page = Page(browser, render(profile, "html"), tmp_path)
        many = page.run("return flopwise.data.layers.name.filter(name => name.startsWith('copy')).length")
        assert many == (0 if fold else 9)
        assert "Identity" not in boxes(page)
        assert ("constants" in page.find("#graph-sub").text) == (many > 0)
        if many:
            page.click("#table tr[data-layer='0']")
            assert "bias" in texts(page, ".node.chosen")[0]
        assert page.errors() == []


def test_the_table_folds_and_opens(page: Page) -> None:
    rows = page.column("name")
    assert len(rows) == 4
    assert rows[2] == f"{BLOCKS} × Block, 0 … {BLOCKS - 1}"
    total = number(page.find("#table tfoot td[data-key='macs']").text)
    assert sum(map(number, page.column("macs"))) == total
    page.click("#table tr.module")
    opened = page.column("name")[3:7]
    assert opened[::2] == ["attn, Attention", "mlp, MLP"]
    assert all(name.startswith("layers.0.add") and name.endswith("and 11 like it") for name in opened[1::2])
    page.click("#table tr.module[data-item='1']")
    assert sum("attn" in name and "11 like it" in name for name in page.column("name")) == 9
    assert page.find("#table tr.module .twisty").get_attribute("aria-expanded") == "true"
    page.click("#table tr.module")
    assert page.column("name") == rows
    page.click("#layers .fold")
    assert len(page.column("name")) == page.run("return flopwise.count")
    assert number(page.find("#table tfoot td[data-key='macs']").text) == total
    assert page.errors() == []


def test_a_folded_table_sorts_and_is_searched_layer_by_layer(page: Page) -> None:
    page.click("#table th[data-key='macs'] button")
    assert page.column("name")[0].startswith(f"{BLOCKS} × Block")
    page.pick("#filter", "layers.7. matmul")
    assert len(page.column("name")) == 8
    assert all(name.startswith("layers.7.") for name in page.column("name"))
    page.pick("#filter", "")
    page.pick("#filter-work", str(page.run("return flopwise.data.kinds.indexOf('attention')")))
    assert len(page.column("name")) == 3 * BLOCKS
    page.click("#filter-clear")
    assert len(page.column("name")) == 4


def test_keys_open_and_close_rows(page: Page) -> None:
    row = "#table tr.module"
    page.keys(row, "ArrowRight")
    assert len(page.column("name")) == 8
    page.keys(row, "ArrowDown", "ArrowRight")
    assert len(page.column("name")) == 17
    page.keys("#table tr[tabindex='0']", "ArrowDown", "ArrowDown", "Enter")
    assert page.run("return document.activeElement.closest('#graph-view') !== null")
    page.keys("#table tr.chosen", "ArrowLeft")
    assert page.run("return document.activeElement.dataset.item") == "1"
    page.keys("#table tr[data-item='1']", "ArrowLeft", "ArrowLeft", "ArrowLeft")
    assert len(page.column("name")) == 4


def test_keys_in_the_graph_open_and_close_modules(page: Page) -> None:
    page.click("#graph-close")
    page.keys(".node.module", "Enter")
    opened = page.count(".node")
    assert opened > 4
    assert page.run("return document.activeElement.classList.contains('node')")
    page.run("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'Backspace', bubbles: true}))")
    assert page.count(".node") < opened
    assert page.run("return document.activeElement.textContent").count("Block")


def test_the_levels_of_modules(page: Page) -> None:
    page.click("#where [data-view='flame']")
    cells = texts(page, ".flame-cell")
    assert cells[0].startswith("decoder")
    for part in (f"{BLOCKS} × Block", "attn", "mlp", "up", "head"):
        assert any(cell.startswith(part) for cell in cells), part
    widths = page.run(
        "return Object.fromEntries([...document.querySelectorAll('.flame-cell')].map(c => "
        "[c.textContent.split(',')[0], Number(c.querySelector('rect').getAttribute('width'))]))"
    )
    profile = flopwise.profile(transformer(BLOCKS))
    mlp = sum(row.flops for row in profile.rows if ".mlp" in row.name) / profile.total("flops")
    assert widths["mlp"] / widths["decoder"] == pytest.approx(mlp, abs=0.01)
    page.keys(".flame-cell[tabindex='0']", "ArrowDown", "ArrowDown", "Enter")
    assert page.count("#crumbs button") > 1
    assert page.run("return document.activeElement.classList.contains('flame-cell')")
    page.run("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'Backspace', bubbles: true}))")
    assert page.count("#crumbs button") < 3
    page.click(".flame-cell.leaf")
    assert page.find("#chosen").is_displayed()
    page.click("#where [data-view='areas']")
    assert page.count(".flame-cell") == 0
    assert page.errors() == []


def test_scales_of_the_depth(page: Page) -> None:
    for scale, says in (("clipped", "clipped at"), ("linear", "top of the scale"), ("log", "log scale")):
        page.pick("#depth-scale", scale)
        assert any(says in text for text in texts(page, "#strips .axis")), scale
    assert page.errors() == []


def test_boxes_that_scroll_say_so(page: Page) -> None:
    device = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", device)
    try:
        page.wait("document.querySelector('#layers .cue').classList.contains('more-right')")
        page.run("document.getElementById('table').scrollLeft = 1e6")
        page.wait("!document.querySelector('#layers .cue').classList.contains('more-right')")
        page.wait("document.querySelector('#layers .cue').classList.contains('more-left')")
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", ["areas", "flame"])
def test_no_serious_fault_of_accessibility(page: Page, theme: str, view: str) -> None:
    page.theme(theme)
    page.click(f"#where [data-view='{view}']")
    page.click("#table tr.module")
    page.click("#table tr[data-layer]")
    try:
        assert page.faults() == []
    finally:
        page.theme("")
