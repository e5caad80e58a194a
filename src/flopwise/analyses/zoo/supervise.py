"""One job at a time in a process of its own, which may hang, grow or die: it costs one result, and no other job."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from flopwise.analyses.child import Child
from flopwise.analyses.zoo import worker

#: How often a process is looked at, in seconds.
_TICK = 0.05

#: Seconds that a process has to start; a machine may be busy.
_START = 300.0

#: A process that holds more than this share of its memory after a job is replaced before the next.
_FULL = 0.75


@dataclass(frozen=True)
class Outcome:
    """What became of a job."""

    #: What the worker returned; None where it failed.
    value: Any
    #: Why there is no value; "" where there is one.
    error: str
    seconds: float
    #: Whether another process might do better: this one died, grew, or stumbled over what nobody foresaw.
    again: bool = False


class StoppedError(Exception):
    """The job was cancelled."""


class Supervisor:
    """Does jobs in a process, which it starts, watches, ends and replaces.

    Args:
        work: what is done, as ``module:function``; it takes and returns what JSON can say.
        seconds: how long a job may take.
        memory: bytes that the process may have in use.
        stop: when it is set, jobs end with ``StoppedError``.
    """

    def __init__(
        self, work: str, seconds: float = 600.0, memory: int = 1 << 30, stop: threading.Event | None = None
    ) -> None:
        self.work, self.seconds, self.memory = work, seconds, memory
        self.stop = stop or threading.Event()
        self._process: _Process | None = None

    def do(self, job: Any) -> Outcome:
        """The outcome of a job. One that fails in a process that did others before is tried again in a new one.

        Raises:
            StoppedError: it was interrupted.
        """
        used = self._process is not None
        outcome = self._once(job)
        if outcome.again and used:
            self.end()
            outcome = self._once(job)
        return outcome

    def end(self) -> None:
        """End the process at once."""
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def _once(self, job: Any) -> Outcome:
        if self._process is None:
            self._process = _Process()
            ready = self._answer(_START, 0)
            if ready.error:
                self.end()
                return Outcome(None, f"no process could be started: {ready.error}", ready.seconds)
        self._process.send({"work": self.work, "job": job})
        reply = self._answer(self.seconds, self.memory)
        if reply.value is None or self._process.resident() > _FULL * self.memory:
            self.end()
        if reply.value is None:
            return reply
        if "error" in reply.value:
            return Outcome(None, reply.value["error"], reply.seconds, not reply.value["expected"])
        return Outcome(reply.value["value"], "", reply.seconds)

    def _answer(self, seconds: float, memory: int) -> Outcome:
        """The answer of the process as the value, or why there is no answer."""
        assert self._process is not None
        start, doing = time.monotonic(), ""
        while True:
            took = time.monotonic() - start
            if self.stop.is_set():
                self.end()
                raise StoppedError
            with contextlib.suppress(queue.Empty):
                answer = self._process.answers.get(timeout=_TICK)
                if answer is None:
                    reason = f"the process ended ({self._process.reason()}){doing}"
                    return Outcome(None, reason, took, again=True)
                if "step" not in answer:
                    return Outcome(answer, "", took)
                doing = f" while {answer['step']}"
                continue
            self._process.sweep()
            if took > seconds:
                return Outcome(None, f"took more than {seconds:g} s{doing}", took)
            if memory and self._process.resident() > memory:
                reason = f"took more than {memory / 2**30:g} GiB of memory{doing}"
                return Outcome(None, reason, took, again=True)


class _Process(Child):
    """A worker process."""

    def __init__(self) -> None:
        variables = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **os.environ}
        super().__init__(["-c", worker.COMMAND, json.dumps(sys.path)], variables)

    def reason(self) -> str:
        """Why the process has ended."""
        self.sweep(0)
        code = self.process.wait()
        if code < 0:
            return signal.Signals(-code).name
        last = self.last_error()
        return f"exit code {code}{': ' + last[: worker.LONGEST] if code and last else ''}"

    def sweep(self, options: int = getattr(os, "WNOHANG", 0)) -> None:
        """End what the process has started, if it has ended itself: a child may hold its pipe open."""
        if sys.platform != "win32" and hasattr(os, "waitid") and self.process.returncode is None:
            with contextlib.suppress(ChildProcessError):  # until it is waited for, no other process gets its number
                if os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | options) is not None:
                    self.kill()

    def resident(self) -> int:
        """Bytes of memory that the process has in use; 0 where that cannot be known."""
        try:
            with open(f"/proc/{self.process.pid}/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):
            pass
        try:
            import psutil

            return int(psutil.Process(self.process.pid).memory_info().rss)
        except Exception:  # it has ended, or psutil is missing
            return 0
