"""A child process that holds the engine, so that a hang, a crash or an exhausted memory is a status and no more.

The two speak in lines of JSON over the child's standard streams. Before each task the child writes its number to a
small shared file; when the child dies or stays silent, the parent reads there which benchmark it was, and starts the
next child without it.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from queue import Empty
from typing import IO, Any

from flopwise.analyses.child import Child
from flopwise.errors import InputError, ModelError

#: Seconds that one benchmark may take before its child is given up; a whole model, or preparing it, gets so many times
#: more.
PATIENCE, MORE = 20.0, 30

#: Children that are started for one session before the rest is left unmeasured.
MOST_CHILDREN = 8

#: Seconds between two looks at a silent child.
POLL = 0.1

_SIZE = 4096


class WorkerError(ModelError):
    """The engine cannot run the model at all."""


def run(
    request: Mapping[str, Any],
    report: Callable[[Mapping[str, Any]], None] = lambda event: None,
    prepared: Callable[[Mapping[str, Any]], None] = lambda event: None,
    patience: float = PATIENCE,
) -> dict[str, Any]:
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
        with _Child({**request, "skip": skip}) as child:
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


class _Child:
    """A running child."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._request = request
        self._timed_out = False

    def __enter__(self) -> _Child:
        self._folder = tempfile.TemporaryDirectory(prefix="flopwise-")
        path = Path(self._folder.name) / "current"
        path.write_bytes(bytes(_SIZE))
        self._shared = path.open("r+b")
        self._map = mmap.mmap(self._shared.fileno(), _SIZE)
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._child = Child(["-m", __name__, str(path)], variables)
        self._child.send(self._request)
        return self

    def __exit__(self, *_: object) -> None:
        self._child.end()
        self._map.close()
        self._shared.close()
        self._folder.cleanup()

    def events(self, patience: float) -> Iterator[dict[str, Any]]:
        """What the child says, until it is done, dies, or stays at one task for too long."""
        stopping, task, since = False, "", time.monotonic()
        while True:
            try:
                event = self._child.answers.get(timeout=POLL)
            except Empty:
                if self.current != task:
                    task, since = self.current, time.monotonic()
                short = task.partition(" ")[0] in ("hot", "streamed", "null")
                if time.monotonic() - since > patience * (1 if short else MORE):
                    self._timed_out = True
                    self._child.kill()
                    self._child.process.wait()
                    return
                continue
            except KeyboardInterrupt:
                if stopping:
                    raise
                stopping = True  # the child hands over what it has
                with contextlib.suppress(ProcessLookupError):
                    self._child.process.send_signal(signal.SIGINT)
                continue
            since = time.monotonic()
            if event is None:
                self._child.process.wait()
                return
            yield event

    @property
    def current(self) -> str:
        """The task that the child was about to run."""
        return bytes(self._map[:_SIZE]).split(b"\0", 1)[0].decode("ascii", "replace")

    @property
    def fate(self) -> tuple[str, str]:
        """The status that names why it died, and the reason in words."""
        if self._timed_out:
            return "timeout", "did not answer in time"
        code = self._child.process.returncode
        if code == -getattr(signal, "SIGKILL", 9):
            return "memory", "was killed, most likely because memory ran out"
        line = self._child.last_error()
        last = f": {line}" if line else ""
        if "MemoryError" in last or "bad_alloc" in last:
            return "memory", f"ran out of memory{last}"
        if code is not None and code < 0:
            return "crashed", f"died of {signal.Signals(-code).name}{last}"
        return "crashed", f"ended with status {code}{last}"


def _say(stream: IO[bytes], value: Mapping[str, Any]) -> None:
    stream.write(json.dumps(value).encode() + b"\n")
    stream.flush()


def main(path: str) -> None:
    """The child: read a request, measure, answer."""
    import gc

    from flopwise.analyses.timing.engines import Options, load
    from flopwise.analyses.timing.measure import measure

    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what an engine prints must not get between the lines
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):  # the parent has gone
        return
    request = json.loads(line)
    with open(path, "r+b") as shared, mmap.mmap(shared.fileno(), _SIZE) as current:

        def before(name: str) -> None:
            current[: len(name) + 1] = name.encode("ascii", "replace") + b"\0"

        last = 0.0

        def report(event: Mapping[str, Any]) -> None:
            nonlocal last
            if event["event"] not in ("building", "round") or time.monotonic() - last > 0.2:
                last = time.monotonic()
                _say(out, event)

        try:
            _limit_memory()
            options = Options(**request["options"])
            program = load(request["engine"]).open_program(
                request["model"], request["inputs"], options, request["folder"]
            )
            executed = [asdict(node) for node in program.executed]
            _say(out, {"event": "prepared", "executed": executed, "facts": dict(program.facts)})
            gc.collect()
            gc.disable()
            result = measure(program, request["seconds"], request.get("skip"), request.get("only"), report, before)
            _say(out, {"event": "done", "result": result})
        except (InputError, ModelError) as error:
            _say(out, {"event": "refused", "message": str(error)})
        except KeyboardInterrupt:
            _say(out, {"event": "interrupted"})


def _limit_memory() -> None:
    """Let an allocation beyond the free memory fail in this process, before the system kills another."""
    with contextlib.suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        free = next(
            int(line.split()[1]) << 10
            for line in Path("/proc/meminfo").read_text().splitlines()
            if line.startswith("MemAvailable")
        )
        limit = pages * resource.getpagesize() + free
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    main(sys.argv[1])
