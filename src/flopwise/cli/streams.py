"""The standard streams, which may be closed, full or read no further: none of that may end in a traceback."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO

from flopwise.errors import InputError, printable


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
