"""A sample of ``tests/mutate.py``: the changes that once showed how little was tested do not survive any more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.mutate import NAMED, mutations

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
