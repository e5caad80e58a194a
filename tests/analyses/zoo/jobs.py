"""What workers of the tests do: it must be importable in another process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from flopwise.analyses.zoo.worker import step
from flopwise.errors import InputError

_DONE: list[str] = []


def work(job: str) -> str:
    """The job in capitals, or the trouble that it names."""
    _DONE.append(job)
    if job == "linger":
        step("lingering")
        time.sleep(60)
    if job.startswith("fork"):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        if job == "fork and hang":
            step(str(child.pid))
            time.sleep(60)
        if job == "fork and die":
            pid = os.fork()
            if not pid:
                time.sleep(60)
            print(pid, file=sys.stderr, flush=True)
            os._exit(3)
        return str(child.pid)
    if job == "hang":
        time.sleep(60)
    if job == "grow":
        grown = []
        while True:
            grown.append(bytearray(32 << 20))
            time.sleep(0.01)
    if job == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if job == "exit":
        print("the last words", file=sys.stderr, flush=True)
        os._exit(3)
    if job == "fail":
        raise ValueError("of no\nuse")
    if job == "refuse":
        raise InputError("no")
    if job == "fresh" and len(_DONE) > 1:
        raise RuntimeError("another job was here before")
    if job == "print":
        print('{"value": "printed"}', flush=True)
        os.write(1, b"noise\n")
    return job.upper()
