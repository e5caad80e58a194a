"""Generated pages are current, and links between pages lead somewhere; tests/docs runs what stands in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_generated_pages_are_current() -> None:
    from flopwise.report.reference.pages import conventions_page, formats_page, operators_page

    hint = "run python docs/generate.py"
    assert (ROOT / "docs/reference/formats.md").read_text(encoding="utf-8") == formats_page(), hint
    assert (ROOT / "docs/reference/operators.md").read_text(encoding="utf-8") == operators_page(), hint
    assert (ROOT / "docs/reference/conventions.md").read_text(encoding="utf-8") == conventions_page(), hint


def test_links_lead_somewhere() -> None:
    for page in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")):
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
