"""Figures of traces: which files there are, and that the same trace gives the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run, run
from tests.report.html.test_trace import made

import flopwise
from flopwise.report.commands.trace import draw, draw_both

pytest.importorskip("matplotlib")

__all__ = ["run"]  # a fixture

STARTS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.mark.parametrize("format", STARTS)
def test_the_same_trace_is_drawn_the_same(tmp_path: Path, format: str) -> None:
    trace = made(60)
    first: dict[str, bytes] = {}
    for folder in ("a", "b"):
        paths = [Path(path) for path in draw(trace, str(tmp_path / folder), format)]
        paths += map(Path, draw_both(flopwise.compare_traces(trace, made(70)), str(tmp_path / folder), format))
        assert [path.name for path in paths] == [
            f"{name}.{format}" for name in ("layers", "timeline", "roofline", "differences")
        ]
        contents = {path.name: path.read_bytes() for path in paths}
        assert all(content.startswith(STARTS[format]) for content in contents.values())
        assert contents == (first or contents)
        first = contents


def test_what_a_trace_has_no_figures_for_is_not_drawn(tmp_path: Path, run: Run) -> None:
    profile = tmp_path / "profile.json"
    layer = {"timeMs": 4, "averageMs": 2, "medianMs": 2, "percentage": 50}
    profile.write_text(json.dumps([{"count": 2}, {"name": "a $x$", **layer}, {"name": "b", **layer}]))
    assert run("trace", profile, "--figures", tmp_path / "one").code == 0
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["layers.png"]
    assert run("trace", profile, profile, "--figures", tmp_path / "two", "--figure-format", "svg").code == 0
    assert [path.name for path in (tmp_path / "two").iterdir()] == ["differences.svg"]
    result = run("trace", profile, "--figures", profile)
    assert (result.code, result.err.count("\n")) == (2, 1)
