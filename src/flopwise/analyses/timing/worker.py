"""A child process that holds the engine, so that a hang, a crash or an exhausted memory is a status and no more.

Before each task the child writes its number to a small shared file; when the child dies or stays silent, the parent
reads there which benchmark it was, and starts the next child without it.
"""

from __future__ import annotations

import contextlib
import mmap
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from flopwise._child import Child, EndedError, LateError, Parent, limit_memory
from flopwise.errors import InputError, ModelError

#: Seconds that one benchmark may take before its child is given up; a whole model, or preparing it, gets so many times
#: more.
PATIENCE, MORE = 20.0, 30

#: Children that are started for one session before the rest is left unmeasured.
MOST_CHILDREN = 8

#: Seconds between two looks at a silent child.
POLL = 0.1

_SIZE = 4096


#: What is handed to a child or comes from it, as JSON can say it.
Event: TypeAlias = Mapping[str, Any]
Report: TypeAlias = Callable[[Event], None]


class WorkerError(ModelError):
    """The engine cannot run the model at all."""


def run(
    request: Event,
    report: Report = lambda event: None,
    prepared: Report = lambda event: None,
    patience: float = PATIENCE,
) -> Event:
    """The result of a session, measured in a child process.

    Args:
        request: "engine", "model", "inputs", "options", "seconds", "skip", "only", "folder".
        report: called with each event of the child.
        prepared: called with the executed nodes, once, before anything is measured.
        patience: seconds that one benchmark may take.

    Raises:
        WorkerError: the engine refuses the model, or dies on it as a whole.
    """
    skip: dict[str, str] = dict(request.get("skip", {}))
    seen = False
    for _ in range(MOST_CHILDREN):
        with _Session({**request, "skip": skip}) as child:
            for event in child.events(patience):
                if event["event"] == "prepared" and not seen:
                    seen = True
                    prepared(event)
                elif event["event"] == "done":
                    return dict(event["result"])
                elif event["event"] == "interrupted":
                    raise KeyboardInterrupt
                elif event["event"] == "refused":
                    raise WorkerError(event["message"])
                else:
                    report(event)
            current = child.current
            mode, _, key = current.partition(" ")
            status, why = child.fate
        if mode not in ("hot", "streamed") or key in skip:
            what = f"while running {current}" if current else "while preparing the model"
            raise WorkerError(f"{request['model']}: {request['engine']} {why} {what}")
        skip[key] = status
        report({"event": "lost", "key": key, "status": status, "why": why})
    raise WorkerError(f"{request['model']}: {request['engine']} failed {MOST_CHILDREN} times: {why}")


class _Session:
    """A running child."""

    def __init__(self, request: Event) -> None:
        self._request = request
        self._end: EndedError | None = None

    def __enter__(self) -> _Session:
        self._folder = tempfile.TemporaryDirectory(prefix="flopwise-")
        path = Path(self._folder.name) / "current"
        path.write_bytes(bytes(_SIZE))
        self._shared = path.open("r+b")
        self._map = mmap.mmap(self._shared.fileno(), _SIZE)
        self._child = Child(f"{__name__}:main", str(path))
        self._child.send(self._request)
        return self

    def __exit__(self, *_: object) -> None:
        self._child.end()
        self._map.close()
        self._shared.close()
        self._folder.cleanup()

    def events(self, patience: float) -> Iterator[Event]:
        """The messages of the child, until it is done, dies, or stays at one task for too long."""
        stopping, task, since = False, "", time.monotonic()
        while True:
            try:
                yield self._child.receive(POLL)
            except LateError:
                if self.current != task:
                    task, since = self.current, time.monotonic()
                short = task.partition(" ")[0] in ("hot", "streamed", "null")
                if time.monotonic() - since > patience * (1 if short else MORE):
                    return
                continue
            except EndedError as error:
                if stopping:  # it had nothing yet
                    raise KeyboardInterrupt from error
                self._end = error
                return
            except KeyboardInterrupt:
                if stopping:
                    raise
                stopping = True  # the child hands over what it has
                self._child.interrupt()
                continue
            since = time.monotonic()

    @property
    def current(self) -> str:
        """The task that the child was about to run."""
        return bytes(self._map[:_SIZE]).split(b"\0", 1)[0].decode("ascii", "replace")

    @property
    def fate(self) -> tuple[str, str]:
        """The status that names why it died, and the reason in words."""
        if self._end is None:
            return "timeout", "did not answer in time"
        code = self._end.code
        if code == -getattr(signal, "SIGKILL", 9):
            return "memory", "was killed, most likely because memory ran out"
        last = f": {self._end.words}" if self._end.words else ""
        if "MemoryError" in last or "bad_alloc" in last:
            return "memory", f"ran out of memory{last}"
        if code is not None and code < 0:
            return "crashed", f"died of {signal.Signals(-code).name}{last}"
        return "crashed", f"ended with status {code}{last}"


def main(path: str) -> None:
    """The child: read a request, measure, answer."""
    import gc

    from flopwise.analyses.timing.engines import Options, load
    from flopwise.analyses.timing.measure import measure

    parent = Parent()
    request = next(parent.requests())
    with open(path, "r+b") as shared, mmap.mmap(shared.fileno(), _SIZE) as current:

        def before(name: str) -> None:
            current[: len(name) + 1] = name.encode("ascii", "replace") + b"\0"

        last = 0.0

        def report(event: Event) -> None:
            nonlocal last
            if event["event"] not in ("building", "round") or time.monotonic() - last > 0.2:
                last = time.monotonic()
                parent.tell(event)

        try:
            limit_memory(_free_memory())
            options = Options(**request["options"])
            open_program = load(request["engine"])
            program = open_program(request["model"], request["inputs"], options, request["folder"])
            executed = [asdict(node) for node in program.executed]
            parent.tell({"event": "prepared", "executed": executed, "facts": dict(program.facts)})
            gc.collect()
            gc.disable()
            result = measure(program, request["seconds"], request.get("skip"), request.get("only"), report, before)
            parent.tell({"event": "done", "result": result})
        except (InputError, ModelError) as error:
            parent.tell({"event": "refused", "message": str(error)})
        except KeyboardInterrupt:
            parent.tell({"event": "interrupted"})


def _free_memory() -> int:
    """Bytes that are free: an allocation beyond them is to fail in this process, before the system kills another."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable"):
                return int(line.split()[1]) << 10
    return 1 << 62
