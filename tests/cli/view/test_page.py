"""The page of ``flopwise view`` in a headless Chromium: a drop, its tabs, and nothing that leaves the page."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.report.html.browser import Page, open_browser

import flopwise
from flopwise.cli.view.server import Server, Viewer

RESNET = "examples/tiny_resnet.onnx"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    driver = open_browser()
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    viewer = Viewer([])
    with Server(viewer) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield serving
        serving.shutdown()
    viewer.close()


@pytest.fixture
def view(browser: Any, server: Server) -> Page:
    return Page.at(browser, server.url)


def drop(view: Page, *files: str | Path) -> None:
    view.run("delete document.documentElement.dataset.shown")  # else that of the files before is taken for theirs
    view.browser.find_element("css selector", "#pick").send_keys("\n".join(str(Path(f).resolve()) for f in files))


def shown(view: Page, tab: str) -> Any:
    """Go to a tab, and give what is in its frame: text, and data."""
    view.wait("document.documentElement.dataset.shown")
    if view.run("return document.documentElement.dataset.shown !== arguments[0]", tab):
        view.click(f"#tab-{tab}")
    view.wait("document.documentElement.dataset.shown === arguments[0]", tab)
    return view.run("return document.querySelector('#view iframe:not([hidden])')?.srcdoc ?? null")


def figures(page: str) -> Any:
    return json.loads(page.partition('id="data">')[2].partition("</script>")[0])


def test_a_dropped_model_is_looked_at_in_tabs(view: Page) -> None:
    assert view.faults() == []
    drop(view, RESNET)
    totals = flopwise.profile(RESNET).to_dict()["totals"]
    assert figures(shown(view, "profile"))["totals"]["macs"] == totals["macs"]
    assert view.run("return document.querySelector('[data-key=inputs]').placeholder") == "image:float32:1x3x64x64"
    assert shown(view, "graph") == shown(view, "profile")
    view.pick("[data-key=batch]", "8")
    view.wait("document.getElementById('command').textContent.includes('--batch-size=8')")
    eight = flopwise.profile(RESNET, batch_size=8).to_dict()["totals"]
    assert figures(shown(view, "profile"))["totals"]["macs"] == eight["macs"]
    assert "131,072" not in shown(view, "weights")
    assert figures(shown(view, "memory"))["sheets"][0]["lines"]
    assert shown(view, "formula") is None
    assert "no open dimension" in view.find("#state.fault").text
    view.theme("dark")
    assert shown(view, "memory")
    view.keys("#tab-memory", "ArrowRight")
    view.wait("document.documentElement.dataset.shown === 'bound'")
    assert view.faults() == []
    view.theme("")
    assert view.errors() == []


def test_the_frame_reaches_nothing_and_the_page_its_server_alone(view: Page, tmp_path: Path) -> None:
    drop(view, RESNET)
    shown(view, "profile")
    assert (
        view.run("try { return document.querySelector('iframe').contentWindow.document.title } catch { return 'no' }")
        == "no"
    )
    frame = view.browser.find_element("css selector", "#view iframe")
    view.browser.switch_to.frame(frame)
    assert view.run("return document.documentElement.dataset.ready") == "true"
    assert view.run("return origin") == "null"
    tried = "const done = arguments[0]; fetch('https://example.org/').then(() => done('sent'), () => done('kept'))"
    assert view.browser.execute_async_script(tried) == "kept"
    view.browser.switch_to.default_content()
    assert view.browser.execute_async_script(tried) == "kept"
    asked: list[str] = view.run(
        "return performance.getEntriesByType('resource').map((entry) => new URL(entry.name).host)"
    )
    assert set(asked) == {view.run("return location.host")}


def test_two_models_are_compared_and_a_damaged_file_is_one_line(view: Page, tmp_path: Path) -> None:
    (tmp_path / "damaged.onnx").write_bytes(b"\x08\x07\xff\xff\xff")
    drop(view, RESNET, "examples/alexnet.prototxt")
    assert len(figures(shown(view, "compare"))["models"]) == 2
    drop(view, "examples/transformer_block.onnx")
    view.click("#sizes button")
    view.wait("document.getElementById('command').textContent.includes('--dim=batch=1 --dim=sequence=128')")
    view.wait("!document.querySelector('#state.fault')")
    drop(view, tmp_path / "damaged.onnx")
    view.wait("document.getElementById('state').textContent.startsWith('damaged.onnx: ')")
    assert len(view.find("#state.fault").text) < 300
    drop(view, "README.md")
    view.wait("document.getElementById('state').textContent.startsWith('README.md: no model')")


def test_a_file_that_is_dropped_again_takes_its_own_place(view: Page, tmp_path: Path) -> None:
    import onnx

    model = onnx.load(RESNET)
    (tmp_path / "mine").mkdir()
    onnx.save(model, tmp_path / "mine" / "tiny_resnet.onnx")
    for file in (RESNET, "examples/alexnet.prototxt", RESNET):
        drop(view, file)
        assert shown(view, "profile")
    names = "return [...document.querySelectorAll('#files li > button:first-child')].map((name) => name.title)"
    assert view.run(names) == ["alexnet.prototxt", "tiny_resnet.onnx"]
    model.graph.node[-1].op_type = "LogSoftmax"  # another file of the same name lies beside it
    onnx.save(model, tmp_path / "mine" / "tiny_resnet.onnx")
    drop(view, tmp_path / "mine" / "tiny_resnet.onnx")
    assert "LogSoftmax" in shown(view, "profile")
    assert len(view.run(names)) == 3


def test_the_address_remembers_what_is_looked_at(view: Page) -> None:
    drop(view, RESNET)
    shown(view, "profile")
    view.pick("[data-key=batch]", "8")
    view.wait("document.getElementById('command').textContent.includes('--batch-size=8')")
    view.browser.switch_to.frame(view.browser.find_element("css selector", "#view iframe"))
    view.wait("document.documentElement.dataset.ready === 'true'")
    view.run("flopwise.choose(5)")
    view.browser.switch_to.default_content()
    view.wait("location.hash.includes('page=')")
    address = view.browser.current_url
    view.browser.get("about:blank")
    again = Page.at(view.browser, address)
    assert "drop it to see it" in again.find("#drop-state").text
    drop(again, RESNET)
    again.wait("document.documentElement.dataset.shown === 'profile'")
    assert "--batch-size=8" in again.find("#command").text
    again.browser.switch_to.frame(again.browser.find_element("css selector", "#view iframe"))
    again.wait("flopwise.state.chosen === 5")
    again.browser.switch_to.default_content()
    assert again.errors() == []


def test_on_a_phone_nothing_is_wider_than_the_screen(view: Page) -> None:
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    view.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        drop(view, RESNET)
        for tab in ("profile", "memory", "bound"):
            assert shown(view, tab)
            assert view.run("return document.documentElement.scrollWidth") <= 390
            view.browser.switch_to.frame(view.browser.find_element("css selector", "#view iframe:not([hidden])"))
            view.wait("document.documentElement.dataset.ready === 'true'")
            assert view.run("return document.documentElement.scrollWidth <= innerWidth"), tab
            view.browser.switch_to.default_content()
        assert view.faults() == []
    finally:
        view.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
