"""The section "A column" of ``adding.md``, carried out: one line in the table of columns."""

from __future__ import annotations

from pathlib import Path

from tests.adding.page import built, check_commands

TITLE = "A column"


def test_the_section_works(tmp_path: Path) -> None:
    check_commands(TITLE, built(TITLE, tmp_path))
