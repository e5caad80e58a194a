"""Where a data set lies: a folder on this machine, or one behind a URL of any file system that fsspec knows."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flopwise.errors import InputError
from flopwise.readers.source.location import is_url, shown
from flopwise.writers.atomic import whole

if TYPE_CHECKING:
    import pyarrow


class Place:
    """A folder; its files appear only when they are complete, and any process that can see it may write to it."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Open a folder by its path, or by a URL such as ``s3://bucket/zoo`` or ``dir::file:///data``.

        Raises:
            InputError: fsspec is missing, or does not know such a URL.
        """
        text = os.fsdecode(folder)
        self.name = shown(text)
        #: What any process of this machine, or of a cluster that sees the same files, opens it by.
        self.address = text if is_url(text) or "::" in text else os.path.abspath(text)
        #: Its file system, where it lies there, and whether that is on this machine's own disks.
        self.files, self.root, self.local = _opened(self.address)
        if self.local and os.path.exists(self.root) and not os.path.isdir(self.root):
            raise InputError(f"{self.name}: is a file; a data set is a folder")

    def path(self, name: str = "") -> str:
        """The path of a file of the folder on its file system."""
        return f"{self.root.rstrip('/')}/{name}" if name else self.root

    def list(self, folder: str, ending: str = "") -> list[str]:
        """The files of a folder inside, by their names in this place, in order."""
        self._look_again()
        try:
            names = [str(path).rstrip("/").rpartition("/")[2] for path in self.files.ls(self.path(folder), False)]
        except FileNotFoundError:
            return []
        return [f"{folder}/{name}" for name in sorted(names) if name.endswith(ending) and name[0] != "."]

    def exists(self, name: str) -> bool:
        """Whether there is such a file or folder."""
        self._look_again()
        return bool(self.files.exists(self.path(name)))

    def _look_again(self) -> None:
        with contextlib.suppress(Exception):  # not every file system caches what it has listed
            self.files.invalidate_cache()

    def write(self, name: str, data: Any) -> None:
        """Write a file, whole or not at all.

        Raises:
            InputError: it cannot be written.
        """
        try:
            if self.local:
                os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
                with whole(self.path(name)) as file:
                    file.write(data)
            else:
                self.files.makedirs(self.path(name).rpartition("/")[0], exist_ok=True)
                self.files.pipe_file(self.path(name), bytes(data))
        except OSError as error:
            raise InputError(f"{self.name}: {name} cannot be written ({error.strerror or error})") from error

    def read(self, name: str) -> bytes:
        """The bytes of a file."""
        return bytes(self.files.cat_file(self.path(name)))

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[Any]:
        """A file to read from, which can seek.

        Raises:
            InputError: it is not there, or no Parquet file.
        """
        import pyarrow

        try:
            with self.files.open(self.path(name)) as file:
                yield file
        except (OSError, pyarrow.ArrowException) as error:  # Arrow's are ValueErrors and OSErrors as well
            reason = " ".join(str(error).split())
            raise InputError(f"{self.path(name)}: is damaged ({reason}); {_remedy(name)}") from error

    def remove(self, *names: str) -> None:
        """Remove files; those that are gone already are no error."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self.files.rm_file(self.path(name))

    def remove_folder(self, name: str) -> None:
        """Remove a folder and what is in it."""
        with contextlib.suppress(OSError if self.local else FileNotFoundError):
            self.files.rm(self.path(name), recursive=True)


def _opened(url: str) -> tuple[Any, str, bool]:
    try:
        from fsspec.core import url_to_fs
        from fsspec.implementations.local import LocalFileSystem
    except ImportError:
        raise InputError(f"{shown(url)}: a data set needs fsspec: pip install 'flopwise[zoo]'") from None
    try:
        files, root = url_to_fs(url)
    except (ImportError, ValueError, OSError) as error:
        raise InputError(f"{shown(url)}: cannot be opened ({' '.join(str(error).split())})") from error
    return files, str(root), type(files) is LocalFileSystem


@contextlib.contextmanager
def alone(place: Place) -> Iterator[None]:
    """Hold a folder on this machine against a second build.

    Raises:
        InputError: another build writes there.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        fcntl = None  # type: ignore[assignment]
    if not place.local or fcntl is None:
        yield
        return
    try:
        os.makedirs(place.root, exist_ok=True)
        lock = open(place.path(".lock"), "w")  # noqa: SIM115 - it is closed below
    except OSError as error:
        raise InputError(f"{place.name}: cannot be written ({error.strerror or error})") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{place.name}: another build writes to this data set") from None
        yield


def parquet(table: pyarrow.Table, rows: int | None = None) -> Any:
    """A table as the bytes of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", row_group_size=rows)
    return sink.getvalue()


def _remedy(name: str) -> str:
    """How to go on when a file of a data set is damaged."""
    folder, _, file = name.rpartition("/")
    again = "and the same zoo build makes its rows again"
    if folder == "parts":
        return f"delete {folder}/{file.partition('.')[0]}.*, {again}"
    if not re.fullmatch(r"[0-9]{5,}\.parquet", file):
        return "it is not a file of the data set: move it away"
    if folder == "models":
        return f"delete it, {again}"
    return f"delete it and what is in models/, {again}"
