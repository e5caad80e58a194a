"""What workers of the tests do: it must be importable in another process."""

from __future__ import annotations

import os
import signal
import time


def work(job: str) -> str:
    """The job in capitals, or the trouble that it names."""
    if job == "hang":
        time.sleep(60)
    if job == "grow":
        grown = []
        while True:
            grown.append(bytearray(32 << 20))
            time.sleep(0.01)
    if job == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if job == "fail":
        raise ValueError("of no\nuse")
    return job.upper()
