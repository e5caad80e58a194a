"""The section "A command with an analysis" of ``adding.md``, carried out.

An analysis, its report and its command.
"""

from __future__ import annotations

from pathlib import Path

from tests.adding.page import built, check_commands

TITLE = "A command with an analysis"


def test_the_section_works(tmp_path: Path) -> None:
    check_commands(TITLE, built(TITLE, tmp_path))
