"""The files that are dropped onto the page: they come in pieces and lie in a temporary folder until the end."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Sequence

from flopwise._results import Json
from flopwise.errors import InputError

#: Bytes of one piece, and of all files together, at most.
PIECE, TOTAL = 16 << 20, 4 << 30

#: Drops of one page whose files lie apart, because names are taken.
PAGE = 100


def located(files: Sequence[Json]) -> tuple[str, list[str]]:
    """The folder in which a command is about some files, and their names from there.

    Args:
        files: each as ``{"drop": N, "name": NAME}``, which lies in the folder N.
    """
    folders = {str(file["drop"]) for file in files}
    if len(folders) == 1:
        return folders.pop(), [file["name"] for file in files]
    return "", [os.path.join(str(file["drop"]), file["name"]) for file in files]


class Drops:
    """A folder with a folder for each drop, by its number."""

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="flopwise-view-", ignore_cleanup_errors=True)
        self.folder = os.path.realpath(self._temporary.name)
        self._sizes: dict[str, int] = {}
        self._lock = threading.Lock()
        #: How many numbers of drops pages have been given.
        self.numbers = PAGE

    def append(self, drop: object, file: object, offset: int, piece: bytes) -> None:
        """Add the next piece to a file; the first one, at offset 0, makes the file anew.

        Raises:
            InputError: the name is not that of a file alone, the piece does not follow, or there is too much.
        """
        name = self.name(drop, file)
        path = os.path.join(self.folder, name)
        with self._lock:
            size = self._sizes.get(name, 0) if offset else 0
            if size != offset:
                raise InputError(f"{file}: has {size:,} bytes so far, so that no piece begins at {offset:,}")
            if sum(self._sizes.values()) + len(piece) > TOTAL:
                raise InputError(f"more than {TOTAL >> 30} GiB are not copied; start flopwise view {file}")
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            try:
                with open(path, "ab" if offset else "wb") as written:
                    written.write(piece)
            except OSError as error:
                raise InputError(f"{file}: cannot be kept ({error.strerror})") from error
            self._sizes[name] = size + len(piece)

    def name(self, drop: object, file: object) -> str:
        """The name of a dropped file, from the folder.

        Raises:
            InputError: what is given is not the number of a drop and the name of a file alone.
        """
        if type(drop) is not int or not 0 <= drop < self.numbers:
            raise InputError("no such drop")
        if not isinstance(file, str) or not file.isprintable() or file in (".", ".."):
            raise InputError("not the name of a file")
        if not 0 < len(os.fsencode(file)) < 256 or any(sign in file for sign in "/\\:\0"):
            raise InputError("not the name of a file")
        return os.path.join(str(drop), file)

    def has(self, name: str) -> bool:
        """True for a file that was dropped."""
        return name in self._sizes

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        self._temporary.cleanup()
