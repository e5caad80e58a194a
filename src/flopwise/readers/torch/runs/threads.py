"""Threads that a program starts during a run are recorded like the thread that runs it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from flopwise.formats.torch.kinds import Function
from flopwise.readers.torch.capture.recorder import Recorder
from flopwise.readers.torch.runs.substitutes import substituted

#: Seconds that the program waits for a thread after starting it, so that operations are recorded in the same order
#: each time; a thread that waits for the program in its turn goes on beside it afterwards.
_PATIENCE = 1.0

#: Seconds between two looks at a thread that was started; one that waits at the same place both times is let be.
_GLANCE = 0.005

#: Files whose code waits for other threads.
_WAITS = frozenset({threading.__file__, queue.__file__})

#: Modules whose threads wait for jobs, which are followed instead.
_POOLS = frozenset({"concurrent.futures.thread", "multiprocessing.pool"})


@contextlib.contextmanager
def followed(recorder: Recorder, recording: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
    """Record threads and jobs of pools that recorded threads start meanwhile.

    Args:
        recorder: what writes operations down.
        recording: what a thread enters in order to be recorded.
    """
    thread: Any = threading.Thread
    pool: Any = concurrent.futures.ThreadPoolExecutor
    start, submit = thread.start, pool.submit
    jobs = contextlib.ExitStack()
    patched: list[Any] = []

    def recorded(work: Callable[..., object]) -> Callable[..., object]:
        """A function that is recorded in any thread, at the position where it was handed over."""
        here = recorder.position.copy()

        def run(*args: object, **kwargs: Any) -> object:
            number, position = threading.get_ident(), recorder.position
            before = position.copy()
            position.adopt(here)
            recorder.threads.add(number)
            try:
                with recording():
                    return work(*args, **kwargs)
            finally:
                recorder.threads.discard(number)
                position.adopt(before)

        return run

    def start_recorded(self: Any) -> None:
        if threading.get_ident() not in recorder.threads:
            start(self)
            return
        if getattr(getattr(self, "_target", None), "__module__", "") in _POOLS:
            follow_jobs()
            start(self)
            return
        done = threading.Event()
        run = recorded(self.run)

        def run_and_say() -> None:
            try:
                run()
            finally:
                done.set()

        self.run = run_and_say
        start(self)
        _await(self, done)

    def submit_recorded(self: object, function: Callable[..., object], /, *args: object, **kwargs: Any) -> object:
        if threading.get_ident() not in recorder.threads:
            return submit(self, function, *args, **kwargs)
        future = submit(self, recorded(function), *args, **kwargs)
        concurrent.futures.wait([future], _PATIENCE)
        return future

    def follow_jobs() -> None:
        """Follow the pools of the standard library's older kind, as soon as the program has them."""
        kind: Any = getattr(sys.modules.get("multiprocessing.pool"), "ThreadPool", None)
        if kind is not None and not patched:
            patched.append(kind)
            jobs.enter_context(_jobs_in_turn(kind, recorder, recorded))

    follow_jobs()
    try:
        with substituted(thread, "start", start_recorded), substituted(pool, "submit", submit_recorded):
            yield
    finally:
        jobs.close()
        recorder.closed = True


def _await(thread: threading.Thread, done: threading.Event) -> None:
    """Wait until a thread is done, or until it waits for others itself."""
    place: tuple[int, int] | None = None
    for _ in range(round(_PATIENCE / _GLANCE)):
        if done.wait(_GLANCE):
            return
        frame = sys._current_frames().get(thread.ident or 0)
        before, place = place, None if frame is None else (id(frame), frame.f_lasti)
        if frame is not None and frame.f_code.co_filename in _WAITS and place == before:
            return


@contextlib.contextmanager
def _jobs_in_turn(kind: Any, recorder: Recorder, recorded: Callable[[Function], Function]) -> Iterator[None]:
    """Jobs that recorded threads hand to ``multiprocessing.pool.ThreadPool`` are recorded, each when the one before is
    done, so that they have the same order each time.
    """
    batches, apply = kind._guarded_task_generation, kind.apply_async

    def batches_recorded(
        self: object, job: object, function: Callable[..., object], items: Iterable[object]
    ) -> Iterable[object]:
        tasks: Iterable[Any] = batches(self, job, function, items)
        if threading.get_ident() not in recorder.threads:
            return tasks
        return _in_turn(tasks, function, recorded(function))

    def apply_recorded(
        self: object, func: Any, args: object = (), kwds: object = None, *callbacks: Any, **options: Any
    ) -> object:
        if threading.get_ident() not in recorder.threads:
            return apply(self, func, args, kwds or {}, *callbacks, **options)
        result = apply(self, recorded(func), args, kwds or {}, *callbacks, **options)
        result.wait(_PATIENCE)
        return result

    kind._guarded_task_generation, kind.apply_async = batches_recorded, apply_recorded
    try:
        yield
    finally:
        del kind._guarded_task_generation, kind.apply_async


def _in_turn(tasks: Iterable[Any], function: object, recorded: Function) -> Iterator[object]:
    """The tasks of a pool, each when the one before is done; those that run a function run its recorded form."""
    for job, place, own, args, kwargs in tasks:
        done = threading.Event()
        work = recorded if own is function else own

        def run(*args: object, work: Any = work, done: threading.Event = done, **kwargs: object) -> object:
            try:
                return work(*args, **kwargs)
            finally:
                done.set()

        yield job, place, run, args, kwargs
        done.wait(_PATIENCE)
