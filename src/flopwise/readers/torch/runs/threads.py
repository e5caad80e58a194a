"""Threads that a program starts during a run are recorded like the thread that runs it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import thread as pools
from contextlib import AbstractContextManager
from typing import Any

from flopwise.readers.torch.capture.recorder import Recorder

#: Seconds that the program waits for a thread after starting it, so that operations are recorded in the same order
#: each time; a thread that waits for the program in its turn goes on beside it afterwards.
_PATIENCE = 1.0


@contextlib.contextmanager
def followed(recorder: Recorder, recording: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
    """Record threads and jobs of pools that recorded threads start meanwhile.

    Args:
        recorder: what writes operations down.
        recording: what a thread enters in order to be recorded.
    """
    thread: Any = threading.Thread
    pool: Any = concurrent.futures.ThreadPoolExecutor
    start, submit = thread.start, pool.submit

    def recorded(work: Callable[..., Any]) -> Callable[..., Any]:
        """A function that is recorded in any thread, at the position where it was handed over."""
        here = recorder.position.copy()

        def run(*args: Any, **kwargs: Any) -> Any:
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
        is_pool = getattr(self, "_target", None) in (pools._worker,)  # its jobs are followed
        if is_pool or threading.get_ident() not in recorder.threads:
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
        done.wait(_PATIENCE)

    def submit_recorded(self: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() not in recorder.threads:
            return submit(self, function, *args, **kwargs)
        future = submit(self, recorded(function), *args, **kwargs)
        concurrent.futures.wait([future], _PATIENCE)
        return future

    thread.start, pool.submit = start_recorded, submit_recorded
    try:
        yield
    finally:
        thread.start, pool.submit = start, submit
        recorder.closed = True
