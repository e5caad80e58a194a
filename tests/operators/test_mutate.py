"""A sample of ``tests/mutate.py``: the changes that once showed how little was tested do not survive any more."""

from __future__ import annotations

import gc
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.mutate import NAMED, mutations
from tests.mutate_sources import faults
from tests.reach import Reached

ROOT = Path(__file__).parents[2]


def test_there_is_plenty_to_change() -> None:
    every = mutations(None)
    assert len(every) > 2000
    assert {m.kind for m in every} == {"count", "claim", "gradient", "role", "view", "carries", "effect", "shape"}
    assert {(m.op, m.what) for m in mutations(len(NAMED))} == set(NAMED)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is forked for each change")
def test_the_named_changes_are_noticed() -> None:
    command = [sys.executable, "-m", "tests.mutate", "-n", str(len(NAMED)), "--processes", "2", "--passing"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"0 of {len(NAMED)} mutations survived" in done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is forked for each change")
def test_a_fault_is_made_in_a_function_that_a_run_has_set_aside() -> None:
    fault = faults(1, 0, [Reached("", 0.0, frozenset({"src/flopwise/report/commands/tool_table.py:_to_shares"}))])[0]
    importlib.import_module("flopwise.report.commands.tool_table")
    child = os.fork()
    if not child:
        gc.freeze()
        try:
            fault.apply()
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
