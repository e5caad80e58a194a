"""A headless Chromium, if there is one with its driver: for the tests of the HTML page."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

#: Where Chromium and its driver may be.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


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
