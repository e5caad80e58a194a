"""A process that does one job after another for its parent, who watches and may end it.

A job comes as a line of JSON on standard input, and so does its result on standard output, after the steps on the way.
The process ends with its parent, however that ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
from importlib import import_module
from typing import Any

from flopwise.errors import FlopwiseError

#: What the parent starts: the paths that it imports from, then this file's loop.
COMMAND = f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {__name__} import serve; serve()"

#: Longest message of an error.
LONGEST = 500


def serve() -> None:
    """Answer jobs until standard input ends."""
    with contextlib.suppress(ValueError, OSError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent, who ends its workers
    _end_with_parent()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    _STEPS.append(answers)
    os.dup2(2, 1)  # what a model prints is no answer
    jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    _answer(answers, {"ready": True})
    while True:
        request = json.loads(jobs.get())
        _answer(answers, _result(request["work"], request["job"]))


def step(name: str) -> None:
    """Tell the parent what the job is doing now, for what it says if it has to end it."""
    for answers in _STEPS:
        _answer(answers, {"step": name[:LONGEST]})


#: Where steps go; nowhere in a process that is no worker.
_STEPS: list[Any] = []


def _listen(jobs: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        jobs.put(line)
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # with what a model has started
    os._exit(0)  # the parent has gone; the job may hang


def _result(work: str, job: Any) -> dict[str, Any]:
    """What a function makes of a job, or the error that it ends with."""
    module, _, name = work.partition(":")
    _forget_peak()
    try:
        return {"value": getattr(import_module(module), name)(job)}
    except BaseException as error:
        expected = isinstance(error, FlopwiseError)
        text = " ".join(str(error).split())[:LONGEST]
        return {"error": f"{type(error).__name__}: {text}".rstrip(": "), "expected": expected}


def _answer(answers: Any, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


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


def _end_with_parent() -> None:
    """Ask Linux to end this process when its parent ends, for jobs that let no other thread run."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
