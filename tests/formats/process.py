"""Reading a model in a process of its own, to see what it takes and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

#: Never more than this, whatever the file.
MEGABYTES = 200

_SCRIPT = """
import json, resource, sys, time
from pathlib import Path
from flopwise.api.profile import profile
from flopwise.errors import FlopwiseError

def peak():
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage says includes the process that started this one
        return next(int(line.split()[1]) / 1024 for line in status.open() if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1 << 20)

for path in sys.argv[1:]:
    started, error, params = time.perf_counter(), "", 0
    try:
        params = profile(path).total("params")
    except FlopwiseError as refused:
        error = str(refused)
    seconds = time.perf_counter() - started
    print(json.dumps([error, params, seconds, peak()]), flush=True)
"""


class Outcome(NamedTuple):
    """How reading a file ended: the error's text ("" for none), parameters, seconds, and peak memory so far."""

    error: str
    params: int
    seconds: float
    megabytes: float


def outcomes(*paths: Path) -> list[Outcome]:
    """Read the files one after the other in one new process.

    Raises:
        AssertionError: the process did not end as it should.
    """
    ended = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONUTF8": "1"},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return [Outcome(*json.loads(line)) for line in ended.stdout.splitlines()]
