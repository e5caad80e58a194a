"""``flopwise view`` ends cleanly."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from tests.cli.view.served import served

pytestmark = pytest.mark.skipif(os.name != "posix" or sys.version_info < (3, 11), reason="signals; python -P")


@pytest.mark.parametrize("end", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_it_leaves_nothing_behind(end: str, tmp_path: Path) -> None:
    served("--no-browser", folder=tmp_path, end=getattr(signal, end))
