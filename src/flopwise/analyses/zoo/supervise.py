"""One job at a time in a process of its own, which may hang, grow or die: it costs one result, and no other job."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from typing import Any

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

    job: Any
    #: What the worker returned; None where it failed.
    value: Any
    #: Why there is no value; "" where there is one.
    error: str
    seconds: float
    #: Whether another process might do better: this one died, grew, or stumbled over what nobody foresaw.
    again: bool = False


class StoppedError(Exception):
    """Nobody wants the result any more."""


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
        """What becomes of a job. What fails in a process that did others before is tried once more in a new one.

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
        """End the process, whatever it is doing."""
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def _once(self, job: Any) -> Outcome:
        if self._process is None:
            self._process = _Process()
            ready = self._answer(_START, 0)
            if ready.error:
                self.end()
                return Outcome(job, None, f"no process could be started: {ready.error}", ready.seconds)
        with contextlib.suppress(OSError):  # a process that is gone says so below
            self._process.send({"work": self.work, "job": job})
        reply = self._answer(self.seconds, self.memory)
        if reply.value is None or self._process.resident() > _FULL * self.memory:
            self.end()
        if reply.value is None:
            return Outcome(job, None, reply.error, reply.seconds, reply.again)
        if "error" in reply.value:
            return Outcome(job, None, reply.value["error"], reply.seconds, not reply.value["expected"])
        return Outcome(job, reply.value["value"], "", reply.seconds)

    def _answer(self, seconds: float, memory: int) -> Outcome:
        """The answer of the process as the value, or why there is none."""
        assert self._process is not None
        start, doing = time.monotonic(), ""
        while True:
            took = time.monotonic() - start
            if self.stop.is_set():
                self.end()
                raise StoppedError
            with contextlib.suppress(queue.Empty):
                line = self._process.answers.get(timeout=_TICK)
                if line is None:
                    reason = f"the process ended ({self._process.reason()}){doing}"
                    return Outcome(None, None, reason, took, again=True)
                answer = json.loads(line)
                if "step" not in answer:
                    return Outcome(None, answer, "", took)
                doing = f" while {answer['step']}"
                continue
            self._process.sweep()
            if took > seconds:
                return Outcome(None, None, f"took more than {seconds:g} s{doing}", took)
            if memory and self._process.resident() > memory:
                reason = f"took more than {memory / 2**30:g} GiB of memory{doing}"
                return Outcome(None, None, reason, took, again=True)


class _Process:
    """A worker process, and the queue of its answers; None in it says that the process has ended."""

    def __init__(self) -> None:
        self.answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        environment = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **os.environ}
        self._child = subprocess.Popen(
            [sys.executable, "-c", worker.COMMAND, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._child.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            for line in self._child.stdout:
                self.answers.put(line)
        self.answers.put(None)

    def send(self, request: dict[str, Any]) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(request) + "\n")
        self._child.stdin.flush()

    def end(self) -> None:
        self._kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._errors):
            with contextlib.suppress(OSError, ValueError):
                pipe.close()  # type: ignore[union-attr]

    def reason(self) -> str:
        """Why the process has ended."""
        code = self._wait()
        if code < 0:
            return signal.Signals(-code).name
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(self._errors.tell() - 2000, 0))
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"exit code {code}{': ' + last[: worker.LONGEST] if code and last else ''}"

    def _wait(self) -> int:
        """Its exit code, once it has ended, and whatever it started with it."""
        self.sweep(0)
        return self._child.wait()

    def sweep(self, options: int = getattr(os, "WNOHANG", 0)) -> None:
        """End what the process has started, if it has ended itself: a child may hold its pipe open."""
        if sys.platform != "win32" and hasattr(os, "waitid") and self._child.returncode is None:
            with contextlib.suppress(ChildProcessError):  # until it is waited for, no other process gets its number
                if os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOWAIT | options) is not None:
                    self._kill()

    def _kill(self) -> None:
        """End the process and all that belong to its group: those that a model has started too."""
        if self._child.returncode is not None:
            return
        if sys.platform == "win32":
            self._child.kill()
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses a group that has ended
                os.killpg(self._child.pid, signal.SIGKILL)

    def resident(self) -> int:
        """Bytes of memory that the process has in use; 0 where that cannot be known."""
        try:
            with open(f"/proc/{self._child.pid}/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):
            pass
        try:
            import psutil

            return int(psutil.Process(self._child.pid).memory_info().rss)
        except Exception:  # it has ended, or psutil is missing
            return 0
