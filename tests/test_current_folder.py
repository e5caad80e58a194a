"""What is not taken from the current folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from flopwise._current_folder import import_path, without


def test_the_path_is_the_parents_without_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, other, link = tmp_path / "here", tmp_path / "other", tmp_path / "link"
    here.mkdir()
    other.mkdir()
    link.symlink_to(here)
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", ["", str(other), ".", str(here), str(link), "../other", "own.zip"])
    monkeypatch.setenv("PYTHONPATH", os.pathsep)  # names nothing; Python takes the current folder for it
    assert import_path() == [str(other), str(here / "../other"), str(here / "own.zip")]
    monkeypatch.setenv("PYTHONPATH", str(here))  # whoever names it wants it
    assert import_path() == [str(other), str(here), str(here / "../other"), str(here / "own.zip")]


def test_a_file_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with without("matplotlibrc"):
        assert Path.cwd() == tmp_path
    (tmp_path / "matplotlibrc").symlink_to("/nowhere")
    with without("matplotlibrc"):
        assert not os.path.lexists("matplotlibrc")
    assert Path.cwd() == tmp_path
