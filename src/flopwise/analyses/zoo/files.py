"""Files of a data set by their names in it: in a folder of this machine, or on a file system that fsspec knows.

In a folder of this machine nothing follows a link, however fast somebody puts one there: each step goes from an open
folder to a name in it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from typing import IO, Any

from flopwise._results import Json

#: What is opened for reading or writing: no link, and no pipe that somebody would have to write to first.
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)

#: Whether the system knows names in an open folder.
_RELATIVE = {os.open, os.mkdir, os.unlink, os.rmdir, os.stat, os.rename} <= os.supports_dir_fd

#: Kind of a file by its mode.
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


class LocalFiles:
    """A folder of this machine; its path may be a link, nothing in it is followed.

    Names are ``name`` or ``folder/name``; errors are OSErrors.
    """

    def __init__(self, root: str) -> None:
        self.root = root

    def kinds(self, folder: str) -> dict[str, str]:
        """The content of a folder, "" for the data set's own: name -> "file", "folder", "link" or "other"."""
        with self._folder(folder) as place, os.scandir(place) as listing:
            return {entry.name: _kind_of(entry.stat(follow_symlinks=False)) for entry in listing}

    def kind(self, name: str) -> str:
        """The kind of a name's file, as in ``kinds``; "" where there is none."""
        folder, _, file = name.rpartition("/")
        with contextlib.suppress(FileNotFoundError), self._folder(folder) as place:
            path, at = self._at(place, file)
            return _kind_of(os.stat(path, dir_fd=at, follow_symlinks=False))
        return ""

    def open(self, name: str) -> IO[bytes]:
        """A file to read from, which can seek."""
        folder, _, file = name.rpartition("/")
        with self._folder(folder) as place:
            return os.fdopen(self._open_plain(place, file, os.O_RDONLY), "rb")

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Write a file, whole or not at all, and make its folder where there is none."""
        folder, _, file = name.rpartition("/")
        draft = f".flopwise-{secrets.token_hex(8)}.tmp"
        with self._folder(folder, make=True) as place:
            source, there = self._at(place, draft), self._at(place, file)
            try:
                with os.fdopen(self._open_plain(place, draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as writing:
                    writing.write(data)
                if isinstance(place, int):
                    os.replace(draft, file, src_dir_fd=place, dst_dir_fd=place)
                else:
                    os.replace(source[0], there[0])
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(source[0], dir_fd=source[1])
                raise

    def remove(self, name: str) -> None:
        """Remove a file."""
        folder, _, file = name.rpartition("/")
        with self._folder(folder) as place:
            path, at = self._at(place, file)
            os.unlink(path, dir_fd=at)

    def remove_folder(self, folder: str) -> None:
        """Remove a folder that is empty."""
        outer, _, name = folder.rpartition("/")
        with self._folder(outer) as place:
            path, at = self._at(place, name)
            os.rmdir(path, dir_fd=at)

    def lock(self, name: str, text: bytes) -> int:
        """An open file that holds no link: as it is there, or made with a text.

        Raises:
            FileNotFoundError: it is not there, and the folder is not empty.
        """
        with self._folder("") as place:
            while True:
                with contextlib.suppress(FileNotFoundError):
                    return self._open_plain(place, name, os.O_RDWR)
                if os.listdir(place):
                    raise FileNotFoundError(name)
                with contextlib.suppress(FileExistsError):  # another build was faster
                    number = self._open_plain(place, name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
                    os.write(number, text)
                    return number

    def _open_plain(self, place: int | str, name: str, flags: int) -> int:
        """A plain file, open.

        Raises:
            OSError: it is something else.
        """
        path, at = self._at(place, name)
        number = os.open(path, flags | _PLAIN, 0o666, dir_fd=at)
        if not stat.S_ISREG(os.fstat(number).st_mode):
            os.close(number)
            raise OSError(f"{name} is no plain file")
        return number

    @contextlib.contextmanager
    def _folder(self, folder: str, make: bool = False) -> Iterator[int | str]:
        """A folder inside, open; its path where the system knows no names in open folders."""
        if not _RELATIVE:
            path = os.path.join(self.root, folder)
            if make:
                os.makedirs(path, exist_ok=True)
            yield path
            return
        place = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in folder.split("/") if folder else ():
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, dir_fd=place)
                inner = os.open(name, os.O_RDONLY | _FOLDER, dir_fd=place)
                os.close(place)
                place = inner
            yield place
        finally:
            os.close(place)

    @staticmethod
    def _at(place: int | str, name: str) -> tuple[str, int | None]:
        """A name as the system's calls take it, with the folder that it is in."""
        return (name, place) if isinstance(place, int) else (os.path.join(place, name), None)


class RemoteFiles:
    """A folder of a file system of fsspec, with the methods of ``LocalFiles``."""

    def __init__(self, system: Any, root: str) -> None:
        self.system, self.root = system, root.rstrip("/")

    def kinds(self, folder: str) -> dict[str, str]:
        with contextlib.suppress(Exception):  # not every file system caches what it has listed
            self.system.invalidate_cache()
        self._refuse_link(folder)
        return {
            str(facts["name"]).rstrip("/").rpartition("/")[2]: _kind_in(facts)
            for facts in self.system.ls(self.path(folder), True)
        }

    def kind(self, name: str) -> str:
        with contextlib.suppress(FileNotFoundError):
            return _kind_in(self.system.info(self.path(name)))
        return ""

    def open(self, name: str) -> IO[bytes]:
        file: IO[bytes] = self.system.open(self.path(name))
        return file

    def write(self, name: str, data: bytes | memoryview) -> None:
        folder = name.rpartition("/")[0]
        self.system.makedirs(self.path(folder), exist_ok=True)
        self._refuse_link(folder)
        self.system.pipe_file(self.path(name), bytes(data))

    def remove(self, name: str) -> None:
        self.system.rm_file(self.path(name))

    def remove_folder(self, folder: str) -> None:
        self.system.rmdir(self.path(folder))

    def path(self, name: str) -> str:
        """The path of a name on the file system."""
        return f"{self.root}/{name}" if name else self.root

    def _refuse_link(self, folder: str) -> None:
        """Raise OSError if a folder inside is a link; object stores have none."""
        if folder and self.kind(folder) == "link":
            raise OSError("it is a link")


def _kind_of(facts: os.stat_result) -> str:
    """The kind of a file of this machine."""
    return _KINDS.get(stat.S_IFMT(facts.st_mode), "other")


def _kind_in(facts: Json) -> str:
    """The kind of a file by what fsspec says of it."""
    return "link" if facts.get("islink") else {"file": "file", "directory": "folder"}.get(facts["type"], "other")
