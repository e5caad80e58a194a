"""Seekable bytes: a file, an open stream or a buffer, read only where somebody asks."""

from __future__ import annotations

import contextlib
import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import IO

from flopwise.errors import ModelError
from flopwise.readers.source.foreign import in_directory


class Source(ABC):
    """Bytes with a length that can be read at any place."""

    #: What to call it in a message.
    name: str
    #: Length in bytes.
    size: int
    #: The folder in which files named in the model lie; None when the bytes did not come from a file.
    folder: Path | None = None
    #: Whether each read may cost a request over the network.
    remote: bool = False
    #: Whether several threads may read at the same time.
    threadsafe: bool = False

    def read(self, offset: int, length: int) -> bytes:
        """Bytes [offset, offset + length).

        Raises:
            ModelError: the source ends before that, or cannot be read.
        """
        missing = offset + length - self.size
        if missing > 0:  # asked first: a file may claim any length, and reading would allocate it
            raise ModelError(f"{self.name}: ends at byte {self.size}, but {missing} more were expected")
        try:
            data = self.part(offset, length)
        except (OSError, ValueError) as error:
            raise ModelError(f"{self.name}: cannot be read ({_reason(error)})") from error
        if len(data) != length:
            raise ModelError(f"{self.name}: changed while it was read; it ends at byte {offset + len(data)} now")
        return data

    def at_hand(self, offset: int) -> int:
        """The number of bytes from an offset on that can be read in one go; what follows has to be made first."""
        return self.size - offset

    @abstractmethod
    def part(self, offset: int, length: int) -> bytes:
        """The same bytes, fewer where the source ends."""

    def later(self) -> Callable[[], Source]:
        """A function that opens the same bytes again when this source is closed."""
        return lambda: self

    def network_summary(self) -> str:
        """The bytes that came over the network so far, in words; "" where none did."""
        return ""

    def beside(self, location: str, what: str) -> Source:
        """The file of a name in the same folder.

        Args:
            location: path of the file, from the folder.
            what: what wants it, for messages.

        Raises:
            ModelError: there is no folder, or no such file in it.
        """
        if self.folder is None:
            raise ModelError(
                f"{what} lies in the file {location!r} beside the model; give the model as a path to load it"
            )
        if "\0" in location:
            raise ModelError(f"{what} lies in the file {location!r}, and there is no such file")
        path = self.folder / location
        inside = os.path.realpath(path).startswith(os.path.join(os.path.realpath(self.folder), ""))
        if not inside:  # a link may lead out of the folder although the text does not
            raise ModelError(f"the data of {what} are in {location!r}, outside the model's folder; refused")
        if not os.path.exists(path):  # names that are near to it are the model's own
            raise ModelError(f"{what} lies in the file {location!r}, and there is no such file")
        return FileSource(path)

    def close(self) -> None:  # noqa: B027 - nothing to let go of is the usual case
        """Close what this source opened itself; what the caller opened stays open."""


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def exactly(stream: IO[bytes], name: str, length: int) -> bytes:
    """The next bytes of a stream that may give fewer at a time than asked for (the system stops at 2 GB)."""
    parts: list[bytes] = []
    missing = length
    while missing and (part := stream.read(missing)):
        if not isinstance(part, bytes):
            raise ModelError(f"{name}: gives text, not bytes; open it with mode 'rb'")
        parts.append(part)
        missing -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def head(path: str | os.PathLike[str], size: int) -> bytes:
    """The first bytes of a regular file; b"" of any other thing, as a pipe or a device would be read for ever."""
    try:
        if not os.path.isfile(path):
            return b""
        with open(path, "rb", buffering=0) as file:
            return file.read(size)
    except (OSError, ValueError):
        return b""


#: So many names of a folder are looked at for one that may have been meant.
MANY = 10_000


def missing(name: str) -> str:
    """The error for a file that is not there; a dotted name may have been meant for a callable.

    >>> missing("net.onnx"), missing("torchvision.models.resnet50")
    ('no such file', 'no such file; a callable is given as torchvision.models:resnet50')
    """
    home, _, last = name.rpartition(".")
    parts = name.split(".")
    dotted = len(parts) > 2 or os.path.isfile(f"{home}.py") if home else False
    if dotted and all(part.isidentifier() for part in parts):
        return f"no such file; a callable is given as {home}:{last}"
    if name.isidentifier() and (models := _in_libraries(name)):
        return f"no such file; a model of this name is {' or '.join(models)}"
    near = _nearest(name)
    return f"no such file; did you mean {near!r}?" if near else "no such file"


def _nearest(path: str) -> str:
    """The path that is there and nearest to one that is not, the folders in it looked at one by one; "" if none is."""
    from difflib import get_close_matches

    folder, file = os.path.split(path)
    if folder and folder != path and not os.path.isdir(folder):
        folder = _nearest(folder)
        if not folder or os.path.exists(os.path.join(folder, file)):
            return os.path.join(folder, file) if folder else ""
    try:
        with os.scandir(folder or ".") as entries:
            there = [entry.name for entry, _ in zip(entries, range(MANY), strict=False)]
    except (OSError, ValueError):
        return ""
    near = get_close_matches(file, there, 1) if file else []
    return os.path.join(folder, near[0]) if near else ""


#: Library -> the pattern of the files that say of a model that it is there, and what stands in one of them.
_LIBRARIES = {
    "torchvision": ("models/**/*.py", "def {}("),
    "timm": ("models/*.py", "def {}("),
    "transformers": ("models/{}/configuration_*.py", "class "),
}


def _in_libraries(name: str) -> list[str]:
    """``library:name`` for each installed library that has a model of this name; its files are read, not run."""
    from importlib.util import find_spec

    found = []
    for library, (pattern, text) in _LIBRARIES.items():
        with contextlib.suppress(OSError, ValueError, ImportError):
            spec = find_spec(library)
            places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
            files = (file for place in places for file in place.glob(pattern.format(name)))
            if any(text.format(name) in file.read_text("utf-8") for file in files):
                found.append(f"{library}:{name}")
    return found


class FileSource(Source):
    """A file on disk, opened at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fsdecode(path)
        self.folder = Path(self.name).parent
        if os.path.isdir(self.name):
            raise ModelError(f"{self.name}: {in_directory(self.name) or 'is a directory'}")
        if not os.path.isfile(self.name):
            raise ModelError(
                f"{self.name}: {'not a regular file' if os.path.exists(self.name) else missing(self.name)}"
            )
        try:
            self._file = open(self.name, "rb", buffering=0)  # noqa: SIM115 - open until close()
        except (OSError, ValueError) as error:
            raise ModelError(f"{self.name}: cannot be read ({_reason(error)})") from error
        self.size = os.fstat(self._file.fileno()).st_size

    def part(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        data = self._file.read(length)
        return data if len(data) == length else data + exactly(self._file, self.name, length - len(data))

    def later(self) -> Callable[[], Source]:
        return functools.partial(FileSource, self.name)

    def close(self) -> None:
        self._file.close()


class StreamSource(Source):
    """An open binary stream that can seek; its position is put back after each read, so the caller keeps it.

    The model is all of the stream, wherever its position is.
    """

    def __init__(self, stream: IO[bytes], name: str = "") -> None:
        own = getattr(stream, "name", "")  # a number when the file has no name
        self.name = name or (own if isinstance(own, str) and own else "<stream>")
        self.folder = Path(self.name).parent if os.path.isfile(self.name) else None
        self._stream = stream
        try:
            here = stream.tell()
            stream.seek(0, os.SEEK_END)
            self.size = stream.tell()
            stream.seek(here)
        except (OSError, ValueError, AttributeError) as error:
            raise ModelError(f"{self.name}: cannot seek in it; save it to a file first") from error

    def part(self, offset: int, length: int) -> bytes:
        here = self._stream.tell()
        try:
            self._stream.seek(offset)
            return exactly(self._stream, self.name, length)
        finally:
            self._stream.seek(here)


class BytesSource(Source):
    """Bytes in memory; only the bytes that are read are copied."""

    def __init__(self, data: bytes | bytearray | memoryview, name: str = "<bytes>") -> None:
        self.name = name
        try:
            self._view = memoryview(data).cast("B")
        except (TypeError, ValueError) as error:
            raise ModelError(f"{name}: cannot be read ({error})") from error
        self.size = len(self._view)

    def part(self, offset: int, length: int) -> bytes:
        return bytes(self._view[offset : offset + length])
