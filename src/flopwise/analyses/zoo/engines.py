"""Who runs the workers: processes of this machine, or a cluster of Ray or Dask.

Whatever the engine, a model is profiled in a process of its own, which writes its rows itself; only what became of it
comes back.
"""

from __future__ import annotations

import atexit
import contextlib
import re
import socket
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TypeAlias

from flopwise.analyses.zoo import profiling
from flopwise.analyses.zoo.profiling import Job
from flopwise.analyses.zoo.supervise import Supervisor
from flopwise.errors import InputError

#: How often a model is tried whose cluster worker has died under it.
TRIES = 3

#: Seconds that a cluster has to answer.
PATIENCE = 20.0

#: What stands between the address of a cluster and its port.
_ADDRESS = re.compile(r"(?:[a-z]+://)?\[?(?P<host>[^\[\]/@]+)\]?:(?P<port>\d{1,5})")

#: Memory for the objects of a local Ray: outcomes are small.
_OBJECTS = 100 << 20


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
        raise InputError(f"an address is for a cluster ({', '.join(e for e in ENGINES if e != 'processes')})")
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


def _ray(jobs: Jobs, workers: int, limits: Limits, address: str | None) -> Outcomes:
    """Tasks of Ray, one for a model and a CPU: https://docs.ray.io/en/latest/ray-core/tasks.html."""
    ray = _imported("ray", "ray")
    ours = not ray.is_initialized()
    if ours:
        local = {"num_cpus": workers, "object_store_memory": _OBJECTS, "include_dashboard": False}
        with _connect("ray", address), tempfile.TemporaryDirectory(prefix="flopwise-") as empty:
            ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level="error",
                runtime_env={"working_dir": empty},  # without one, its workers import from the current folder
                **({} if address else local),
            )
    try:
        task = ray.remote(num_cpus=1, max_retries=TRIES - 1)(attempt)
        waiting, running = iter(jobs), {}
        width = max(int(ray.cluster_resources().get("CPU", 1)), 1) * 2
        while True:
            for job in waiting:
                running[task.remote(job, limits)] = job
                if len(running) >= width:
                    break
            if not running:
                return
            (ready, *_), _ = ray.wait(list(running), num_returns=1)
            job = running.pop(ready)
            try:
                done = ray.get(ready)
            except ray.exceptions.RayError as error:
                done = _lost(job, error)
            yield done
    finally:
        if ours:
            ray.shutdown()


def _dask(jobs: Jobs, workers: int, limits: Limits, address: str | None) -> Outcomes:
    """Futures of Dask, one for a model: https://distributed.dask.org/en/stable/client.html."""
    distributed = _imported("distributed", "dask")
    with contextlib.ExitStack() as stack:
        build = ""
        with _connect("dask", address):
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


def _imported(package: str, engine: str) -> ModuleType:
    try:
        return import_module(package)
    except ImportError:
        raise InputError(f"the engine {engine} needs {package}: pip install 'flopwise[zoo,{engine}]'") from None


@contextlib.contextmanager
def _connect(engine: str, address: str | None) -> Iterator[None]:
    """Whatever a cluster answers when it is not there becomes one line; Ray by itself would ask for many minutes."""
    try:
        place = _ADDRESS.fullmatch(address or "")
        if place is not None:
            socket.create_connection((place["host"], int(place["port"])), PATIENCE).close()
        yield
    # Ray's ConnectionError and Dask's timeouts are among these
    except (OSError, OverflowError, ValueError, RuntimeError, ImportError) as error:
        where = f"{engine} at {address}" if address else f"a local cluster of {engine}"
        raise InputError(f"{where}: cannot be reached ({' '.join(str(error).split())[:300]})") from error


#: Name of each engine -> what runs jobs on it.
ENGINES: dict[str, Callable[[Jobs, int, Limits, str | None], Outcomes]] = {
    "processes": _processes,
    "ray": _ray,
    "dask": _dask,
}
