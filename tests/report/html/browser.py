"""A headless Chromium, if there is one with its driver, and a page in it: for the tests of the HTML pages."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

#: Where Chromium and its driver may be.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

#: What a browser is started with: no window, nothing that calls home, nothing kept.
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

#: Seconds that a page may take on a busy machine before a test gives up.
PATIENCE = 60


def open_browser(width: int = 1400, height: int = 1000) -> Any:
    """A browser that keeps what its console says; the test is skipped where there is none."""
    selenium = pytest.importorskip("selenium.webdriver")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("needs Chromium and chromedriver")
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options, folder = Options(), tempfile.mkdtemp()
    options.binary_location = browser
    for argument in (*ARGUMENTS, f"--window-size={width},{height}", f"--user-data-dir={folder}"):
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": folder})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = selenium.Chrome(options=options, service=Service(driver))
    opened.set_script_timeout(PATIENCE)
    return opened


def data_of(page: str) -> Any:
    """The data that a page draws."""
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data
    return json.loads(data[1])


class Page:
    """A page in the browser.

    What a page draws it may draw in the next frame, and the frame after a scroll; so whoever acts or reads here first
    waits until the page has come to rest.
    """

    def __init__(self, browser: Any, text: str, path: Path) -> None:
        file = path / "page.html"
        file.write_text(text, "utf-8")
        self._open(browser, file.as_uri())

    @classmethod
    def at(cls, browser: Any, url: str) -> Page:
        """The page of an address."""
        page = cls.__new__(cls)
        page._open(browser, url)
        return page

    def _open(self, browser: Any, url: str) -> None:
        self.browser = browser
        browser.get_log("browser")
        browser.get(url)
        self.wait("document.documentElement.dataset.ready === 'true'")

    def wait(self, condition: str, *arguments: Any) -> None:
        """Wait until an expression of the page is true; a busy machine may take its time.

        Raises:
            AssertionError: it is not, after a minute.
        """
        from selenium.common.exceptions import TimeoutException
        from selenium.webdriver.support.ui import WebDriverWait

        def holds(_: Any) -> bool:
            return bool(self.browser.execute_script(f"return {condition}", *arguments))

        try:
            WebDriverWait(self.browser, PATIENCE, 0.02).until(holds)
        except TimeoutException:
            raise AssertionError(f"the page never comes to: {condition}; its console says {self.errors()}") from None

    def rest(self) -> None:
        """Wait for two frames: one in which the page hears of an act, and one in which it has drawn its answer."""
        self.browser.execute_async_script(
            "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(arguments[0])))"
        )

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns in the page at rest."""
        self.rest()
        return self.browser.execute_script(script, *arguments)

    def count(self, selector: str) -> int:
        """How many elements fit a selector."""
        many: int = self.run("return document.querySelectorAll(arguments[0]).length", selector)
        return many

    def find(self, selector: str) -> Any:
        """The first element that fits a selector, as soon as there is one."""
        self.wait("document.querySelector(arguments[0]) !== null", selector)
        self.rest()
        return self.browser.find_element("css selector", selector)

    def click(self, selector: str) -> None:
        """Click an element, as soon as it is there."""
        self.wait("document.querySelector(arguments[0]) !== null", selector)
        self.run(
            "document.querySelector(arguments[0]).dispatchEvent(new MouseEvent('click', {bubbles: true}))", selector
        )

    def theme(self, scheme: str) -> None:
        """Light or dark, as the system says."""
        features = [{"name": "prefers-color-scheme", "value": scheme}] if scheme else []
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def faults(self) -> list[str]:
        """The serious and critical faults of accessibility that axe-core finds, each with its first element."""
        spec = importlib.util.find_spec("axe_core_python")
        if spec is None or not spec.submodule_search_locations:
            pytest.skip("needs axe-core-python")
        axe = Path(spec.submodule_search_locations[0], "axe.min.js").read_text("utf-8")
        self.browser.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
        self.rest()
        found = self.browser.execute_async_script(
            "const done = arguments[0];"
            "axe.run(document, {resultTypes: ['violations']}).then(r => done(JSON.stringify(r.violations)),"
            " e => done(JSON.stringify([{id: String(e), impact: 'critical', nodes: []}])))"
        )
        return [
            f"{fault['id']} ({fault['impact']}, {len(fault['nodes'])}): "
            + "".join(f"{node['html'][:160]} {node.get('failureSummary', '')[:200]}" for node in fault["nodes"][:1])
            for fault in json.loads(found)
            if fault["impact"] in ("serious", "critical")
        ]

    def column(self, key: str) -> list[str]:
        """The cells of a column in the rows that are shown."""
        found: list[str] = self.run(
            "const cells = document.querySelectorAll(`#table tbody td[data-key='${arguments[0]}']`);"
            "return [...cells].map(c => c.classList.contains('text') ? c.title : c.textContent)",
            key,
        )
        return found

    def pick(self, selector: str, value: str) -> None:
        self.run(
            "const e = document.querySelector(arguments[0]); e.value = arguments[1];"
            "e.dispatchEvent(new Event('change')); e.dispatchEvent(new Event('input'));",
            selector,
            value,
        )

    def keys(self, selector: str, *names: str) -> None:
        """Press keys, beginning at an element."""
        self.run("document.querySelector(arguments[0]).focus({preventScroll: true})", selector)
        for name in names:
            self.run(
                "const event = new KeyboardEvent('keydown', {key: arguments[0], bubbles: true});"
                "document.activeElement.dispatchEvent(event)",
                name,
            )

    def errors(self) -> list[Any]:
        return [entry for entry in self.browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
