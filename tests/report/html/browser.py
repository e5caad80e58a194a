"""A headless Chromium, if there is one with its driver, and a page in it: for the tests of the HTML pages."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

#: Where Chromium and its driver may be.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

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

    options = Options()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},{height}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return selenium.Chrome(options=options, service=Service(driver))


class Page:
    """A page in the browser."""

    def __init__(self, browser: Any, text: str, path: Path) -> None:
        self.browser = browser
        file = path / "page.html"
        file.write_text(text, "utf-8")
        browser.get_log("browser")
        browser.get(file.as_uri())
        self.wait("document.documentElement.dataset.ready === 'true'")

    def wait(self, condition: str, *arguments: Any) -> None:
        """Wait until an expression of the page is true; a busy machine may take its time.

        Raises:
            AssertionError: it is not, after a minute.
        """
        from selenium.common.exceptions import TimeoutException
        from selenium.webdriver.support.ui import WebDriverWait

        try:
            WebDriverWait(self.browser, PATIENCE, 0.02).until(lambda _: self.run(f"return {condition}", *arguments))
        except TimeoutException:
            raise AssertionError(f"the page never comes to: {condition}; its console says {self.errors()}") from None

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(script, *arguments)

    def find(self, selector: str) -> Any:
        return self.browser.find_element("css selector", selector)

    def click(self, selector: str) -> None:
        self.run(
            "document.querySelector(arguments[0]).dispatchEvent(new MouseEvent('click', {bubbles: true}))", selector
        )

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
