"""Seekable bytes: a file, an open stream or a buffer, read only where somebody asks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Protocol

from flopwise.errors import ModelError


class Source(Protocol):
    """Bytes with a length that can be read at any place."""

    #: What to call it in a message.
    name: str
    #: Length in bytes.
    size: int

    def read(self, offset: int, length: int) -> bytes:
        """Bytes [offset, offset + length).

        Raises:
            ModelError: the source ends before that.
        """

    def close(self) -> None:
        """Let go of what this source opened itself."""


def _whole(data: bytes, name: str, offset: int, length: int) -> bytes:
    if len(data) != length:
        raise ModelError(f"{name}: ends at byte {offset + len(data)}, but {length - len(data)} more were expected")
    return data


class FileSource:
    """A file on disk, opened at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        try:
            if not Path(path).is_file():
                reason = "is a directory" if Path(path).is_dir() else "no such file"
                raise ModelError(f"{self.name}: {reason}")
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - open until close()
        except (OSError, ValueError) as error:
            raise ModelError(f"{self.name}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
        self.size = os.fstat(self._file.fileno()).st_size

    def read(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        return _whole(self._file.read(length), self.name, offset, length)

    def close(self) -> None:
        self._file.close()


class StreamSource:
    """An open binary stream that can seek; its position is put back after each read, so the caller keeps it."""

    def __init__(self, stream: IO[bytes], name: str = "") -> None:
        self.name = name or str(getattr(stream, "name", "") or "<stream>")
        self._stream = stream
        try:
            here = stream.tell()
            self.size = stream.seek(0, os.SEEK_END)
            stream.seek(here)
        except (OSError, ValueError, AttributeError) as error:
            raise ModelError(f"{self.name}: cannot seek in it; save it to a file first") from error

    def read(self, offset: int, length: int) -> bytes:
        here = self._stream.tell()
        try:
            self._stream.seek(offset)
            parts: list[bytes] = []
            missing = length
            while missing and (part := self._stream.read(missing)):
                if not isinstance(part, bytes):
                    raise ModelError(f"{self.name}: gives text, not bytes; open it with mode 'rb'")
                parts.append(part)
                missing -= len(part)
        finally:
            self._stream.seek(here)
        return _whole(b"".join(parts), self.name, offset, length)

    def close(self) -> None:
        """Nothing: the stream is the caller's."""


class BytesSource:
    """Bytes in memory; only what is asked for is copied."""

    def __init__(self, data: bytes | bytearray | memoryview, name: str = "<bytes>") -> None:
        self.name = name
        self._view = memoryview(data).cast("B")
        self.size = len(self._view)

    def read(self, offset: int, length: int) -> bytes:
        return _whole(bytes(self._view[offset : offset + length]), self.name, offset, length)

    def close(self) -> None:
        """Nothing: the buffer is the caller's."""


def open_source(thing: object) -> Source:
    """A source for a path, bytes or an open binary stream.

    Raises:
        ModelError: it is none of these, or cannot be read.
    """
    if isinstance(thing, (str, os.PathLike)):
        return FileSource(thing)
    if isinstance(thing, (bytes, bytearray, memoryview)):
        return BytesSource(thing)
    if hasattr(thing, "read") and hasattr(thing, "seek"):
        return StreamSource(thing)  # type: ignore[arg-type] # duck-typed: anything that reads and seeks
    raise ModelError(f"cannot read a model from a {type(thing).__name__}; give a path, bytes or an open binary file")
