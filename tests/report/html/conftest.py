"""What the tests of pages share: a browser for the tests of a file, opened when the first of them needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.report.html.browser import open_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    driver = open_browser()
    yield driver
    driver.quit()
