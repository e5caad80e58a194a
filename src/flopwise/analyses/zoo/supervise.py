"""Worker processes that may hang, grow or die: each job costs one result, and no other job notices."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

#: How often workers are looked at, in seconds.
_TICK = 0.2


@dataclass(frozen=True)
class Outcome:
    """What became of a job."""

    job: Any
    #: What the worker returned; None where it failed.
    value: Any
    #: Why there is no value; "" where there is one.
    error: str
    seconds: float


class _Worker:
    """A process, the pipe to it, and the job that it works on."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(work, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.job: Any = None
        self.since = 0.0

    def give(self, job: Any) -> None:
        self.job, self.since = job, time.monotonic()
        self.pipe.send(job)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _serve(work: Callable[[Any], Any], pipe: Connection) -> None:
    """The loop of a worker process."""
    import signal

    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # an interrupt is the parent's, who lets the workers finish or ends them
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            pipe.send((work(job), ""))
        except BaseException as error:
            pipe.send((None, f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"))


def run(
    work: Callable[[Any], Any], jobs: Iterable[Any], workers: int = 1, seconds: float = 600.0, memory: int = 1 << 30
) -> Iterator[Outcome]:
    """The outcome of each job, as they come.

    Args:
        work: what a worker does; a function at the top of a module.
        jobs: what it is called with, one at a time.
        workers: processes.
        seconds: how long a job may take; then its process is ended.
        memory: bytes that a worker may grow by in a job; then its process is ended.
    """
    queue = iter(jobs)
    idle: list[_Worker] = []
    busy: list[_Worker] = []
    try:
        while True:
            for job in queue:
                worker = idle.pop() if idle else _Worker(work)
                worker.give(job)
                busy.append(worker)
                if len(busy) >= workers:
                    break
            if not busy:
                return
            ready = wait([worker.pipe for worker in busy], _TICK)
            for worker in list(busy):
                took = time.monotonic() - worker.since
                outcome = _outcome(worker, worker.pipe in ready, took, seconds, memory)
                if outcome is None:
                    continue
                busy.remove(worker)
                if outcome.value is None and worker.job is None:
                    worker.end()
                else:
                    idle.append(worker)
                yield outcome
    finally:
        for worker in (*busy, *idle):
            worker.end()


def _outcome(worker: _Worker, ready: bool, took: float, seconds: float, memory: int) -> Outcome | None:
    """What became of a worker's job by now; None while it works. A worker that is to be ended has no job any more."""
    job = worker.job
    if ready:
        try:
            value, error = worker.pipe.recv()
            return Outcome(job, value, error, took)
        except (EOFError, OSError):
            worker.process.join()
            worker.job = None
            return Outcome(job, None, f"the process ended ({_reason(worker.process.exitcode)})", took)
    if took > seconds:
        worker.job = None
        return Outcome(job, None, f"took more than {seconds:g} s", took)
    if _resident(worker.process.pid) > memory:
        worker.job = None
        return Outcome(job, None, f"took more than {memory / 2**30:g} GiB of memory", took)
    return None


def _reason(code: int | None) -> str:
    import signal

    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"


def _resident(process: int | None) -> int:
    """Bytes of memory that a process has in use; 0 where nobody knows."""
    try:
        with open(f"/proc/{process}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        pass
    try:
        import psutil

        return int(psutil.Process(process).memory_info().rss)
    except Exception:  # it has ended, or psutil is missing
        return 0
