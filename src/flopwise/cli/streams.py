"""The standard streams, which may be closed, full or read no further: none of that may end in a traceback.

On the terminal, a sign of life for what takes longer than two seconds.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from flopwise.errors import InputError, printable

if TYPE_CHECKING:
    from rich.status import Status

#: Seconds before anything is shown.
PATIENCE = 2.0


def open_closed() -> None:
    """Give closed standard streams the null device, so that no file that is opened later takes their place.

    Python's ``sys.stdout`` stays None where it is closed, and ``emit`` says so.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process runs


def is_file() -> bool:
    """True where standard output goes into an ordinary file."""
    with contextlib.suppress(OSError):  # it is closed
        return stat.S_ISREG(os.fstat(1).st_mode)
    return False


def emit(text: str) -> None:
    """Print a report; characters that the terminal cannot show are escaped.

    Raises:
        InputError: standard output is closed, or cannot be written to.
        BrokenPipeError: whoever reads it has seen enough.
    """
    if sys.stdout is None:
        raise InputError("standard output is closed; write a file with -o")
    encoding = sys.stdout.encoding or "ascii"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        silence(sys.stdout)
        raise InputError(f"standard output cannot be written ({error.strerror or error})") from error


def say(message: str, prefix: str = "flopwise: ") -> None:
    """One line on stderr. Control characters, which could come from a model's names, are shown, not sent."""
    line = printable(" ".join(message.split()))
    try:
        print(f"{prefix}{line}", file=sys.stderr, flush=True)
    except (OSError, ValueError):  # there is no one to tell
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Send what a stream still holds to the null device, so that the end of the process does not fail on it."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Progress:
    """Shows what is going on once it has taken a while, if a person is there to see it on a terminal that can.

    >>> with Progress() as progress:
    ...     progress("reading")
    """

    def __init__(self) -> None:
        self._label = "working"
        self._status: Status | None = None
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
