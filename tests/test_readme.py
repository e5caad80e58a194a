"""README's table is what its command prints, and its test command is the one that CI runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flopwise.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_is_real(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    shown = re.search(r"^\$ flopwise (.*)\n((?:.*\n)*?)```", README, re.MULTILINE)
    assert shown is not None
    monkeypatch.chdir(ROOT)
    assert main(shown[1].split()) == 0
    assert capsys.readouterr().out.startswith(shown[2].rstrip())


def test_the_generated_pages_are_current() -> None:
    from flopwise.report.reference.formats import formats_page
    from flopwise.report.reference.tables import conventions_page, operators_page

    hint = "run python docs/generate.py"
    assert (ROOT / "docs/formats.md").read_text(encoding="utf-8") == formats_page(), hint
    assert (ROOT / "docs/operators.md").read_text(encoding="utf-8") == operators_page(), hint
    assert (ROOT / "docs/conventions.md").read_text(encoding="utf-8") == conventions_page(), hint


def test_links_lead_somewhere() -> None:
    for page in (ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")):
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
