"""Who runs the workers: processes of this machine, or a cluster of Dask.

Whatever the engine, a model is profiled in a process of its own, which writes its rows itself; only what became of it
comes back.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

from flopwise._child import Child, EndedError, LargeError, LateError, LostError, StoppedError
from flopwise.analyses.zoo import profiling, worker
from flopwise.analyses.zoo.profiling import Job
from flopwise.errors import InputError

# One job at a time in a process of its own, which may hang, grow or die: it costs one result, and no other job.

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


#: How often a model is tried whose cluster worker has died under it.
TRIES = 3

#: Seconds that a cluster has to answer.
PATIENCE = 20.0

#: What stands between the address of a cluster and its port.
_ADDRESS = re.compile(r"(?:[a-z]+://)?\[?(?P<host>[^\[\]/@]+)\]?:(?P<port>\d{1,5})")


@dataclass(frozen=True)
class Limits:
    """Limits of each model: seconds, and bytes of memory."""

    seconds: float = 600.0
    memory: int = 1 << 30


@dataclass(frozen=True)
class Done:
    """The outcome of a model."""

    key: str
    name: str
    #: Why it could not be profiled; "" if it was.
    error: str
    seconds: float
    #: Seconds of building, profiling and writing.
    parts: dict[str, float]


Jobs: TypeAlias = Sequence[Job]
Outcomes: TypeAlias = Generator[Done, None, None]


def run(engine: str, jobs: Jobs, workers: int, limits: Limits, address: str | None = None) -> Outcomes:
    """The outcomes of the models, as they come.

    Args:
        engine: a key of ENGINES.
        jobs: of ``flopwise.analyses.zoo.profiling.job``.
        workers: processes; of a cluster at an address, as many as it has.
        limits: of each model.
        address: of a cluster; None starts one on this machine.

    Raises:
        InputError: there is no such engine, it is not installed, or nobody answers at the address.
    """
    if engine not in ENGINES:
        raise InputError(f"no engine {engine!r}; engines: {', '.join(ENGINES)}")
    if address is not None and engine == "processes":
        raise InputError("an address is for a cluster (dask)")
    return ENGINES[engine](jobs, workers, limits, address)


def attempt(job: Job, limits: Limits, build: str = "") -> Done:
    """Profile a model in a process of its own, write its rows, or those of its failure, and return the outcome.

    Args:
        job: the model.
        limits: of time and memory.
        build: the name of a build of this process; "" where this is the worker of a cluster.

    Raises:
        StoppedError: the build was interrupted; then nothing is written.
    """
    outcome = _supervisor(limits, _STOPS.get(build)).do(job)
    if outcome.error:
        profiling.failed(job, outcome.error, outcome.seconds)
    return Done(job["key"], job["entry"]["name"], outcome.error, outcome.seconds, outcome.value or {})


#: The supervisor of each thread of a cluster's worker; its process serves one model after another.
_OWN = threading.local()
_EVERY: list[Supervisor] = []

#: Name of each build that threads of this process work for -> what stops them.
_STOPS: dict[str, threading.Event] = {}


@contextlib.contextmanager
def _stoppable() -> Iterator[str]:
    """The name of a build; at the end its threads stop, and their processes end."""
    name = uuid.uuid4().hex
    stop = _STOPS[name] = threading.Event()
    try:
        yield name
    finally:
        stop.set()


def _supervisor(limits: Limits, stop: threading.Event | None) -> Supervisor:
    """This thread's supervisor, made anew where the limits have changed."""
    supervisor: Supervisor | None = getattr(_OWN, "supervisor", None)
    if supervisor is None or (supervisor.seconds, supervisor.memory) != (limits.seconds, limits.memory):
        if supervisor is not None:
            supervisor.end()
        supervisor = _OWN.supervisor = Supervisor(profiling.WORK, limits.seconds, limits.memory, stop)
        _EVERY.append(supervisor)
        if len(_EVERY) == 1:
            atexit.register(_end_all)
    return supervisor


def _end_all() -> None:
    while _EVERY:
        _EVERY.pop().end()


def _lost(job: Job, error: BaseException) -> Done:
    """A model whose cluster worker has died as often as it was tried: its row is written here."""
    text = f"the worker of the cluster was lost {TRIES} times ({type(error).__name__})"
    profiling.failed(job, text, 0.0)
    return Done(job["key"], job["entry"]["name"], text, 0.0, {})


def _processes(jobs: Jobs, workers: int, limits: Limits, address: str | None) -> Outcomes:
    """Threads of this process, each of which supervises one process."""
    from concurrent.futures import ThreadPoolExecutor, as_completed

    pool = ThreadPoolExecutor(workers)
    try:
        with _stoppable() as build:
            for future in as_completed([pool.submit(attempt, job, limits, build) for job in jobs]):
                yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        _end_all()


def _dask(jobs: Jobs, workers: int, limits: Limits, address: str | None) -> Outcomes:
    """Futures of Dask, one for a model: https://distributed.dask.org/en/stable/client.html."""
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise InputError("the engine dask needs distributed: pip install 'flopwise[zoo,dask]'") from None
    with contextlib.ExitStack() as stack:
        build = ""
        with _connect(address):
            cluster: object = address or stack.enter_context(_local_dask(distributed, workers))
            client = stack.enter_context(distributed.Client(cluster, timeout=PATIENCE))
        if address is None:
            build = stack.enter_context(_stoppable())
        futures = client.map(attempt, jobs, limits=limits, build=build, pure=False, retries=TRIES - 1)
        owners = dict(zip((future.key for future in futures), jobs, strict=True))
        for future in distributed.as_completed(futures):
            job = owners.pop(future.key)
            try:
                done = future.result()
            except distributed.KilledWorker as error:
                done = _lost(job, error)
            yield done
            future.release()


@contextlib.contextmanager
def _local_dask(distributed: ModuleType, workers: int) -> Iterator[object]:
    """A cluster of threads of this process: each supervises a process, and nobody else can reach it."""
    path = list(sys.path)
    with (
        tempfile.TemporaryDirectory(prefix="flopwise-") as folder,
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=False,
            dashboard_address=None,
            silence_logs=50,
            local_directory=folder,
        ) as cluster,
    ):
        sys.path[:] = path  # the workers have put their folders there, which do not stay
        try:
            yield cluster
        finally:
            _end_all()


@contextlib.contextmanager
def _connect(address: str | None) -> Iterator[None]:
    """Whatever a cluster answers when it is not there becomes one line."""
    try:
        place = _ADDRESS.fullmatch(address or "")
        if place is not None:
            socket.create_connection((place["host"], int(place["port"])), PATIENCE).close()
        yield
    except (OSError, OverflowError, ValueError, RuntimeError, ImportError) as error:  # Dask's timeouts are OSErrors
        where = f"dask at {address}" if address else "a local cluster of dask"
        raise InputError(f"{where}: cannot be reached ({' '.join(str(error).split())[:300]})") from error


#: Name of each engine -> what runs jobs on it.
ENGINES: dict[str, Callable[[Jobs, int, Limits, str | None], Outcomes]] = {
    "processes": _processes,
    "dask": _dask,
}
