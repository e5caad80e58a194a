"""Where a report goes: the terminal, a pipe, or a file that is written whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flopwise.errors import InputError

if TYPE_CHECKING:
    from flopwise.report import Look


def write(text: str | bytes, path: str | None) -> None:
    """Print a report, or write it to a file that appears only when it is complete.

    Raises:
        InputError: the file cannot be written, or there is none for bytes.
    """
    if isinstance(text, str) and not text.endswith("\n"):
        text += "\n"
    if path is None:
        if isinstance(text, bytes):
            raise InputError("this format is not text: give it a file with -o")
        encoding = sys.stdout.encoding or "ascii"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
        return
    content = text.encode() if isinstance(text, str) else text
    try:
        if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "wb") as device:  # a device or a pipe cannot be replaced
                device.write(content)
            return
        from flopwise.writers.atomic import whole

        with whole(path) as file:
            file.write(content)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


def format_of(path: str | None, formats: Sequence[str]) -> str:
    """The format that a file's ending asks for; a table for the terminal, a pipe and an unknown ending.

    Raises:
        InputError: the ending is that of a format that is not among these.
    """
    from flopwise.report import format_for_path

    found = (path and format_for_path(path)) or "table"
    if found not in formats:
        raise InputError(f"{path}: there is no {found} of this; give -f {', '.join(formats)}, or another ending")
    return found


def place(path: str | None) -> dict[str, Any]:
    """What the place of a report allows: terminal columns (None for a pipe or file), colour, and whether only ASCII.

    Colour needs a terminal that is not dumb and a user who does not mind: https://no-color.org.
    """
    if path is not None:
        return {"width": None, "color": False, "ascii": False}
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "").replace("_", "")
    ascii = encoding not in ("utf8", "utf16", "utf32")
    if not sys.stdout.isatty():
        return {"width": None, "color": False, "ascii": ascii}
    import shutil

    color = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return {"width": shutil.get_terminal_size().columns, "color": color, "ascii": ascii}


def look_of(path: str | None, human: bool = False, header: bool = True) -> Look:
    """How a report should look in its place."""
    from flopwise.report import Look

    return Look(human=human, header=header, **place(path))
