"""The site builds, and nothing in it leads nowhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
from tests.docs.blocks import ROOT

pytest.importorskip("mkdocs")
pytest.importorskip("mkdocstrings")
pytest.importorskip("mkdocs_click")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.upstream
def test_every_link_leads_somewhere(site: Path) -> None:
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    anchors = {page: {unquote(name) for name in re.findall(r'\bid="([^"]+)"', text)} for page, text in pages.items()}
    broken = []
    for page, text in pages.items():
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            if re.match(r"[a-z]+:|//|/", link) or page.name == "404.html":
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / unquote(path)).resolve() if path else page
            names = anchors.get(target, set()) | {"__top", ""}
            if not target.exists() or (target in anchors and unquote(anchor) not in names):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert not broken


def test_the_pages_fetch_nothing(site: Path) -> None:
    """Fonts, scripts and styles are in the site; mermaid's drawings are the one thing that a browser fetches."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|iframe)[^>]*\bsrc="(?:https?:)?//[^"]*"', text)
        assert not re.findall(r'<link[^>]*rel="stylesheet"[^>]*href="(?:https?:)?//', text)


def test_every_page_is_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if f" {page}\n" not in nav + "\n"] == []
