"""The section "A convention" of ``adding.md``, carried out: a paper's way of counting."""

from __future__ import annotations

from pathlib import Path

from tests.adding.page import built, check_commands

TITLE = "A convention"


def test_the_section_works(tmp_path: Path) -> None:
    check_commands(TITLE, built(TITLE, tmp_path))
