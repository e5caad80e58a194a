"""The sign of life: only where somebody is, on a terminal that can move its cursor."""

from __future__ import annotations

import sys

import pytest

from flopwise.cli import progress


@pytest.mark.parametrize(("terminal", "starts"), [("xterm-256color", True), ("dumb", False)])
def test_a_dumb_terminal_gets_none(terminal: str, starts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", terminal)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress.Progress() as shown:
        assert shown._timer.is_alive() is starts
