"""One job at a time in a process of its own, which may hang, grow or die: it costs one result, and no other job."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass
from typing import Any

from flopwise._child import Child, EndedError, LargeError, LateError, LostError, StoppedError
from flopwise.analyses.zoo import worker

#: Seconds that a process has to start; a machine may be busy.
_START = 300.0

#: A process that holds more than this share of its memory after a job is replaced before the next.
_FULL = 0.75


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job."""

    #: What the worker returned; None where it failed.
    value: Any
    #: Why there is no value; "" where there is one.
    error: str
    seconds: float
    #: Whether another process might do better: this one died, grew, or stumbled over what nobody foresaw.
    again: bool = False


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
        self._process: Child | None = None

    def do(self, job: object) -> Outcome:
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

    def _once(self, job: object) -> Outcome:
        start = time.monotonic()
        try:
            process = self._process  # another thread may end it at any time
            if process is None:
                process = Child(f"{worker.__name__}:serve", variables={"OMP_NUM_THREADS": "1", **os.environ})
                self._process = process
                process.receive(_START, stop=self.stop)
        except LostError as error:
            self.end()
            if isinstance(error, StoppedError):
                raise
            return Outcome(None, f"no process could be started: {_reason(error)}", time.monotonic() - start)
        return self._outcome(process, job)

    def _outcome(self, process: Child, job: object) -> Outcome:
        """The outcome of a job in a running process."""
        start, doing = time.monotonic(), ""
        process.send({"work": self.work, "job": job}, self.seconds)
        try:
            while "step" in (reply := process.receive(start + self.seconds - time.monotonic(), self.memory, self.stop)):
                doing = f" while {reply['step']}"
        except LostError as error:
            self.end()
            if isinstance(error, StoppedError):
                raise
            if isinstance(error, LateError):
                reason = f"took more than {self.seconds:g} s"
            elif isinstance(error, LargeError):
                reason = f"took more than {self.memory / 2**30:g} GiB of memory"
            else:
                reason = _reason(error)
            return Outcome(None, reason + doing, time.monotonic() - start, again=not isinstance(error, LateError))
        took = time.monotonic() - start
        if process.resident() > _FULL * self.memory:
            self.end()
        if "error" in reply:
            return Outcome(None, reply["error"], took, again=not reply["expected"])
        return Outcome(reply["value"], "", took)


def _reason(error: LostError) -> str:
    """The reason why a process has ended."""
    if not isinstance(error, EndedError) or error.code is None:
        return str(error)
    if error.code < 0:
        return f"the process ended ({signal.Signals(-error.code).name})"
    last = f": {error.words[: worker.LONGEST]}" if error.code and error.words else ""
    return f"the process ended (exit code {error.code}{last})"
