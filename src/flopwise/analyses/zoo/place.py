"""The place of a data set: a folder on this machine, or one behind a URL of any file system that fsspec knows.

A data set has a file of its own that says so, and only names that a build makes are ever written, moved or removed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

from flopwise.analyses.zoo.files import LocalFiles, RemoteFiles
from flopwise.errors import InputError, message
from flopwise.formats.sources.location import is_url, shown

if TYPE_CHECKING:
    import pyarrow

#: The file that says that a folder is a data set, and what is in it.
MARKER = "flopwise-zoo.txt"
_TEXT = (
    b"This folder is a data set of flopwise zoo build, which replaces and removes the files that it has made here.\n"
)

#: Folders of a data set -> what files that a build makes in them are called.
_PARTS, _TABLE = r"[0-9a-f]{32}\.(layers|models)\.parquet", r"[0-9]{5,9}\.parquet"
OWN: dict[str, str] = {
    **dict.fromkeys(("models", "layers", "unique", "fresh/models", "fresh/layers", "fresh/unique"), _TABLE),
    "parts": _PARTS,
    "fresh": "COMPLETE",
}

#: What a build leaves that was ended while it wrote a file.
_DRAFT = re.compile(r"\.flopwise-[a-z0-9_]{8,16}\.tmp")


class Place:
    """A data set's files, which appear only when they are complete; any process that can see it may write to it."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Open a folder by its path, or by a URL such as ``s3://bucket/zoo``.

        Raises:
            InputError: it is a file, or fsspec is missing or does not know such a URL.
        """
        text = os.fsdecode(folder)
        self.name = shown(text)
        if "\0" in text or not text:
            raise InputError(f"{text!r}: is no path of a folder")
        remote = is_url(text) or "::" in text
        #: What any process of this machine, or of a cluster that sees the same files, opens it by.
        self.address = text if remote else os.path.abspath(text)
        #: Its files, where it lies there, the file system of fsspec, and whether it is on this machine's own disks.
        self.system: Any
        self.system, self.root, self.local = _open_system(text) if remote else (None, self.address, True)
        self.files: LocalFiles | RemoteFiles = (
            LocalFiles(self.root) if self.local else RemoteFiles(self.system, self.root)
        )
        if self.local and os.path.exists(self.root) and not os.path.isdir(self.root):
            raise InputError(f"{self.name}: is a file; a data set is a folder")

    def path(self, name: str = "") -> str:
        """The path of a file of the folder on its file system."""
        return f"{self.root.rstrip('/')}/{name}" if name else self.root

    def list(self, folder: str) -> list[str]:
        """The files that builds have made in a folder inside, by their names in this place, in order.

        Raises:
            InputError: what has such a name is a link, a folder or the like, or cannot be read.
        """
        names = []
        for name, kind in sorted(self._kinds(folder).items()):
            if re.fullmatch(OWN[folder], name):
                if kind != "file":
                    raise InputError(f"{self.path(f'{folder}/{name}')}: is {_ARTICLES[kind]}; {_FOREIGN}")
                names.append(f"{folder}/{name}")
        return names

    def _kinds(self, folder: str) -> dict[str, str]:
        """The content of a folder inside; {} where there is none."""
        try:
            return self.files.kinds(folder)
        except FileNotFoundError:
            return {}
        except OSError as error:
            if self.local and not os.path.exists(self.root):  # above it is a file, which makedirs will say
                return {}
            raise InputError(
                self._obstacle(folder) or f"{self.path(folder)}: cannot be read ({_reason(error)})"
            ) from error

    def _obstacle(self, name: str) -> str:
        """The error for a file in the place of a folder inside, or of one around it; "" where there is none."""
        parts = name.split("/")
        for inner in ("/".join(parts[: count + 1]) for count in range(len(parts))):
            with contextlib.suppress(OSError):
                if (kind := self.files.kind(inner)) not in ("", "folder"):
                    return f"{self.path(inner)}: is {_ARTICLES[kind]}, where a data set has a folder; {_FOREIGN}"
        return ""

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Write a file, whole or not at all.

        Raises:
            InputError: it cannot be written, or this is no data set.
        """
        folder, _, file = name.rpartition("/")
        assert re.fullmatch(OWN[folder], file), name
        try:
            if self.local and self.files.kind(MARKER) != "file":
                raise InputError(f"{self.name}: is no data set here; every worker must see the same folder")
            if (kind := self.files.kind(name) or "file") != "file":
                raise InputError(f"{self.path(name)}: is {_ARTICLES[kind]}; {_FOREIGN}")
            self.files.write(name, data)
        except OSError as error:
            what = self._obstacle(folder) or f"{self.name}: {name} cannot be written ({_reason(error)})"
            raise InputError(what) from error

    def read(self, name: str) -> bytes:
        """The bytes of a file.

        Raises:
            InputError: it cannot be read.
        """
        try:
            with self.files.open(name) as file:
                return file.read()
        except OSError as error:
            raise InputError(f"{self.path(name)}: cannot be read ({_reason(error)})") from error

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """A file to read from, which can seek.

        Raises:
            InputError: it is not there, or no Parquet file.
        """
        import pyarrow

        try:
            with self.files.open(name) as file:
                yield file
        except (OSError, pyarrow.ArrowException) as error:  # Arrow's are ValueErrors and OSErrors as well
            reason = message(error)
            raise InputError(f"{self.path(name)}: is damaged ({reason}); {_remedy(name)}") from error

    def remove(self, *names: str) -> None:
        """Remove files that ``list`` gave; those that are gone already are no error.

        Raises:
            InputError: one cannot be removed.
        """
        for name in names:
            folder, _, file = name.rpartition("/")
            assert re.fullmatch(OWN[folder], file), name
            try:
                self.files.remove(name)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise InputError(f"{self.path(name)}: cannot be removed ({_reason(error)})") from error

    def clear(self, folder: str) -> None:
        """Remove the files that builds have made in a folder inside, and the folder if nothing else is in it."""
        self.remove(*self.list(folder))
        self.sweep(folder)
        with contextlib.suppress(OSError, NotImplementedError):
            self.files.remove_folder(folder)

    def sweep(self, folder: str) -> None:
        """Remove what a build left that was ended while it wrote."""
        for name, kind in self._kinds(folder).items():
            if kind == "file" and _DRAFT.fullmatch(name):
                with contextlib.suppress(OSError):
                    self.files.remove(f"{folder}/{name}")

    def check_free(self) -> None:
        """Refuse a folder that holds anything but a data set, and one with other things in the place of its files.

        Raises:
            InputError: this is one; the message says how to go on.
        """
        there = self._kinds("")
        if there.get(MARKER, "file") != "file":
            raise InputError(f"{self.path(MARKER)}: is {_ARTICLES[there[MARKER]]}; {_FOREIGN}")
        if there and MARKER not in there:
            raise InputError(f"{self.name}: {_NO_DATA_SET}")
        for folder in OWN:
            self.list(folder)


#: Kind of a file -> the words for it, and what to do with one that no build has made.
_ARTICLES = {"file": "a file", "folder": "a folder", "link": "a link", "other": "a pipe or device"}
_FOREIGN = "no build has made that: move it away"
_NO_DATA_SET = "is not empty, and no data set that zoo build has made; give a new folder"


def _reason(error: OSError) -> str:
    return error.strerror or message(error)


def _open_system(url: str) -> tuple[object, str, bool]:
    """The file system of a URL, the path there, and whether it is this machine's own."""
    try:
        from fsspec.core import url_to_fs
        from fsspec.implementations.local import LocalFileSystem
    except ImportError:
        raise InputError(f"{shown(url)}: a data set behind a URL needs fsspec: pip install 'flopwise[zoo]'") from None
    try:
        system, root = url_to_fs(url)
    except (ImportError, ValueError, OSError) as error:
        raise InputError(f"{shown(url)}: cannot be opened ({' '.join(str(error).split())})") from error
    return system, str(root), type(system) is LocalFileSystem


@contextlib.contextmanager
def alone(place: Place) -> Iterator[None]:
    """Hold a data set, which is made where there is nothing, against a second build on this machine.

    Raises:
        InputError: the folder holds something else, another build writes there, or it cannot be written.
    """
    if not isinstance(place.files, LocalFiles):
        place.check_free()
        place.files.write(MARKER, _TEXT)
        yield
        return
    try:
        os.makedirs(place.root, exist_ok=True)
        place.check_free()
        number = place.files.lock(MARKER, _TEXT)
        if not os.access(place.root, os.W_OK):  # said before any model is profiled
            os.close(number)
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except FileNotFoundError:
        raise InputError(f"{place.name}: {_NO_DATA_SET}") from None
    except OSError as error:
        raise InputError(f"{place.name}: cannot be written ({_reason(error)})") from error
    try:
        try:
            import fcntl

            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # Windows
            pass
        except OSError:
            raise InputError(f"{place.name}: another build writes to this data set") from None
        yield
    finally:
        os.close(number)


def parquet(table: pyarrow.Table, rows: int | None = None) -> memoryview:
    """A table as the bytes of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", row_group_size=rows)
    return memoryview(sink.getvalue())


def _remedy(name: str) -> str:
    """Advice for a file of a data set that is damaged."""
    folder, _, file = name.rpartition("/")
    again = "and the same zoo build makes its rows again"
    if folder == "parts":
        return f"delete {folder}/{file.partition('.')[0]}.*, {again}"
    if folder == "models":
        return f"delete it, {again}"
    return f"delete it and what is in models/, {again}"
