"""A Python process that answers its parent in lines of JSON, and may hang, crash or be ended at any moment."""

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
from collections.abc import Mapping, Sequence
from typing import Any


class Child:
    """A running process, in a group of its own: an interrupt reaches it through its parent alone."""

    def __init__(self, arguments: Sequence[str], variables: Mapping[str, str]) -> None:
        #: What it says; None once it has ended.
        self.answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=variables,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            for line in self.process.stdout:
                self.answers.put(json.loads(line))
        self.answers.put(None)

    def send(self, value: Mapping[str, Any]) -> None:
        """Hand it a value; one that has ended takes none."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.write(json.dumps(value).encode() + b"\n")
            self.process.stdin.flush()

    def kill(self) -> None:
        """End the process and all that belong to its group: those that it has started too."""
        if self.process.returncode is not None:
            return
        if sys.platform == "win32":
            self.process.kill()
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses a group that has ended
                os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> None:
        """End it, whatever it is doing, and let go of its pipes."""
        self.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.errors):
            with contextlib.suppress(OSError, ValueError):
                pipe.close()  # type: ignore[union-attr]

    def last_error(self) -> str:
        """The last line that it wrote to its standard error."""
        self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(self.errors.tell() - 2000, 0))
        lines = self.errors.read().decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
