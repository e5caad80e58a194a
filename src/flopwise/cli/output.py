"""Where a report goes: the terminal, a pipe, or a file that is written whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence

from flopwise.errors import InputError


def write(text: str, path: str | None) -> None:
    """Print a report, or write it to a file that appears only when it is complete.

    Raises:
        InputError: the file cannot be written.
    """
    if not text.endswith("\n"):
        text += "\n"
    if path is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "w", encoding="utf-8") as file:  # a device or a pipe cannot be replaced
                file.write(text)
            return
        _replace(path, text)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


def _replace(path: str, text: str) -> None:
    import contextlib
    import tempfile

    target = os.path.realpath(path)  # a link stays a link
    handle, draft = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".flopwise-", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        mode = stat.S_IMODE(os.stat(target).st_mode) if os.path.exists(target) else 0o666 & ~_umask()
        os.chmod(draft, mode)
        os.replace(draft, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def format_of(path: str | None, formats: Sequence[str]) -> str:
    """The format that a file's ending asks for; a table for the terminal, a pipe and an unknown ending."""
    from flopwise.report import format_for_path

    found = (path and format_for_path(path)) or "table"
    return found if found in formats else "table"


def width(path: str | None) -> int | None:
    """Columns of the terminal that the report goes to; None for a pipe or file, which may be as wide as it likes."""
    if path is not None or not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def coloured(path: str | None) -> bool:
    """Whether colour reaches a person: https://no-color.org and a terminal that is not dumb."""
    return width(path) is not None and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
