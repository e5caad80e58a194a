"""A worker process: one job after another for its supervisor, who watches and may end it.

The steps of a job go to the supervisor before its result.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from importlib import import_module

from flopwise._child import Parent
from flopwise.errors import FlopwiseError, message

#: Longest message of an error.
LONGEST = 500


def serve() -> None:
    """Answer jobs for as long as there is a parent."""
    with contextlib.suppress(ValueError, OSError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent, who ends its workers
    parent = Parent()
    _PARENTS.append(parent)
    parent.tell({"ready": True})
    for request in parent.requests():
        parent.tell(_result(request["work"], request["job"]))


def step(name: str) -> None:
    """Tell the parent what the job is doing now, for what it says if it has to end it."""
    for parent in _PARENTS:
        parent.tell({"step": name[:LONGEST]})


#: Where steps go; nowhere in a process that is no worker.
_PARENTS: list[Parent] = []


def _result(work: str, job: object) -> dict[str, object]:
    """The result of a function for a job, or the error that it ends with."""
    module, _, name = work.partition(":")
    _forget_peak()
    try:
        return {"value": getattr(import_module(module), name)(job)}
    except BaseException as error:
        expected = isinstance(error, FlopwiseError)
        text = message(error)[:LONGEST]
        return {"error": f"{type(error).__name__}: {text}".rstrip(": "), "expected": expected}


def peak_memory() -> int | None:
    """Bytes that this process had in use at most since its job began; since its start where that is all there is."""
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _forget_peak() -> None:
    """Begin the measurement of memory anew: https://docs.kernel.org/filesystems/proc.html (clear_refs)."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
