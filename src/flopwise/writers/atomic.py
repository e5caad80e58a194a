"""Files that appear only when they are complete."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from typing import IO

from flopwise.errors import InputError


@contextlib.contextmanager
def atomic_file(path: str) -> Iterator[IO[bytes]]:
    """A binary file to write to; it takes the place of ``path`` when the context ends without an error.

    A link stays a link, and a file that is replaced keeps its permissions.

    Raises:
        OSError: the file cannot be written.
    """
    target = os.path.realpath(path)
    handle, draft = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".flopwise-", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        mode = stat.S_IMODE(os.stat(target).st_mode) if os.path.exists(target) else 0o666 & ~_umask()
        os.chmod(draft, mode)
        os.replace(draft, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def write(content: bytes, path: str | os.PathLike[str]) -> None:
    """Write a file whole or not at all.

    Raises:
        InputError: it cannot be written.
    """
    try:
        with atomic_file(os.fspath(path)) as file:
            file.write(content)
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: cannot be written ({error.strerror})") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
