"""The place of a data set: a folder on this machine, or one behind a URL of any file system that fsspec knows.

A data set has a file of its own that says so, and only names that a build makes are ever written, moved or removed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

from flopwise._results import Json
from flopwise.errors import InputError, message
from flopwise.formats.sources.location import is_url, shown

if TYPE_CHECKING:
    import pyarrow

# Files of a data set by their names in it: in a folder of this machine, or on a file system that fsspec knows.
#
# In a folder of this machine nothing follows a link, however fast somebody puts one there: each step goes from an open
# folder to a name in it.


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
