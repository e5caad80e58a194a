"""A sign of life on stderr for what takes longer than two seconds."""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType
from typing import Any

#: Seconds before anything is shown.
PATIENCE = 2.0


class Progress:
    """Shows what is going on once it has taken a while, if a person is there to see it on a terminal that can.

    >>> with Progress() as progress:
    ...     progress("reading")
    """

    def __init__(self) -> None:
        self._label = "working"
        self._status: Any = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._show)
        self._timer.daemon = True

    def __enter__(self) -> Progress:
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":  # which cannot move its cursor
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            if self._status is not None:
                self._status.stop()
                self._status = None

    def __call__(self, label: str) -> None:
        """Say what is being done now."""
        with self._lock:
            self._label = label
            if self._status is not None:
                self._status.update(f"{label} ...")

    def _show(self) -> None:
        from rich.console import Console

        with self._lock:
            self._status = Console(stderr=True).status(f"{self._label} ...")
            self._status.start()
