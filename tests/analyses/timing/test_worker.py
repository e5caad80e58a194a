"""A child that hangs, crashes or takes all memory is a status, and the next job runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.analyses.timing.sessions import kernel, program, session
from tests.analyses.timing.simulated import ENGINE

from flopwise.errors import ModelError


@pytest.mark.parametrize(
    ("fault", "status"),
    [("hang", "timeout"), ("segfault", "crashed"), ("abort", "crashed"), ("memory", "memory")],
)
def test_a_fault_is_a_status_and_the_others_are_measured(fault: str, status: str, tmp_path: Path) -> None:
    nodes = [kernel("a", 1000), kernel("b", 2000, fault=fault), kernel("c", 3000)]
    found = session(program(*nodes), tmp_path, patience=1.0)
    by_key = {m.key: m for m in found.measurements}
    states = [by_key[node.key].status for node in found.executed]
    assert states == ["ok", status, "ok"]
    assert by_key[found.executed[2].key].best_ns == pytest.approx(3000)
    assert found.best_ns > 0


def test_what_an_engine_refuses_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "program.json").write_text("{")
    from flopwise.analyses.timing import worker

    request = {
        "engine": ENGINE,
        "model": str(tmp_path / "program.json"),
        "inputs": {},
        "options": {"level": "all", "threads": 1},
        "seconds": 0.1,
        "folder": str(tmp_path),
    }
    with pytest.raises(ModelError, match=r"simulated ended with status 1: json\.decoder") as error:
        worker.run(request)
    assert "\n" not in str(error.value)


def test_events_are_told(tmp_path: Path) -> None:
    said: list[str] = []
    session(program(kernel("a", 1000)), tmp_path, report=said.append)
    assert said[0] == f"starting {ENGINE}"
    assert any(text.startswith("preparing benchmark 1 of 1") for text in said)
