"""Where elements lie: a file's mapping, ranges of a remote file, a stream from an archive."""

from __future__ import annotations

import contextlib
import functools
import mmap
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from flopwise.errors import ModelError
from flopwise.graph.stored import Storage
from flopwise.readers.source.location import explained, in_words
from flopwise.readers.source.source import FileSource, Source, exactly

#: Bytes of one request for elements in a remote file.
FETCHED = 8 << 20


class SourceStorage(Storage):
    """A source whose bytes several threads read: a file by a mapping, anything else under a lock.

    It opens when somebody reads, and may do so again; then it must have the size that it had before.
    """

    def __init__(self, opened: Callable[[], Source]) -> None:
        self.reopened = opened
        self._lock = threading.RLock()
        self._source: Source | None = None
        self._size = -1
        self._map: mmap.mmap | None = None
        self._beside: dict[str, SourceStorage] = {}
        self._held = False

    def __reduce__(self) -> tuple[object, ...]:
        return SourceStorage, (self.reopened,)  # a copy, in another process too, opens the file by itself

    @classmethod
    def from_source(cls, source: Source) -> SourceStorage:
        """The storage of a source that is open, and stays so until ``close()``."""
        storage = cls(source.later())
        storage.hold()
        storage._take(source)
        return storage

    def _take(self, source: Source) -> Source:
        if self._size not in (-1, source.size):
            raise ModelError(f"{source.name}: changed while it was read; it has {source.size:,} bytes now")
        if isinstance(source, FileSource) and source.size:
            with contextlib.suppress(OSError, ValueError), open(source.name, "rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            if self._map is not None and len(self._map) < source.size:
                raise ModelError(f"{source.name}: changed while it was read")
        self._source, self._size = source, source.size
        return source

    @property
    def source(self) -> Source:
        """The source.

        Raises:
            ModelError: it cannot be opened, or is not what it was.
        """
        if self._source is None:
            with self._lock:
                if self._source is None:
                    return self._take(self.reopened())
        return self._source

    @property
    def name(self) -> str:
        """The source's name, for messages."""
        return self.source.name

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self.source.size

    def beside(self, location: str, what: str) -> SourceStorage:
        """The storage of a file in the same folder, opened when somebody reads.

        Args:
            location: path of the file, from the folder.
            what: what wants it, for messages.
        """
        with self._lock:
            if location not in self._beside:
                self._beside[location] = SourceStorage(functools.partial(self._open_beside, location, what))
            return self._beside[location]

    def _open_beside(self, location: str, what: str) -> Source:
        return self.source.beside(location, what)

    def view(self, start: int, end: int) -> memoryview | None:
        """The bytes [start, end) without a copy; None where that cannot be.

        Raises:
            ModelError: the source ends before that.
        """
        if not 0 <= start <= end <= self.size:
            raise ModelError(f"{self.name}: bytes {start:,} to {end:,} are wanted, but it has {self.size:,}")
        if self._map is None:
            return None
        if (now := self._map.size()) < end:  # of the file, not of the mapping, where a read would be the end of us
            raise ModelError(f"{self.name}: changed while it was read; it has {now:,} bytes now")
        return memoryview(self._map)[start:end]

    def read(self, start: int, end: int) -> bytes | memoryview:
        """The bytes [start, end).

        Raises:
            ModelError: the source ends before that, or cannot be read.
        """
        view = self.view(start, end)
        if view is not None:
            return view
        if self.source.threadsafe:
            return self.source.read(start, end - start)
        with self._lock:
            return self.source.read(start, end - start)

    @property
    def at_least(self) -> int:
        """Bytes that a read should take at least, because each one costs a request."""
        return FETCHED if self.source.remote else 0

    def network_summary(self) -> str:
        return "" if self._source is None else self._source.network_summary()

    def hold(self) -> None:
        self._held = True

    def release(self) -> None:
        if not self._held:
            self.close()

    def close(self) -> None:
        self._held = False
        with self._lock:
            for other in self._beside.values():
                other.close()
            if self._source is not None:
                self._source.close()
                self._source = self._source if self._source.remote else None  # it counts on, and connects by itself
            if self._map is not None:
                with contextlib.suppress(BufferError):  # somebody still looks into it
                    self._map.close()
            self._map = None


class Span(ABC):
    """Bytes in a row."""

    #: What the bytes lie in; None where nothing is open.
    storage: Storage | None = None

    @abstractmethod
    def parts(self, size: int) -> Iterator[bytes | memoryview]:
        """The bytes in parts of ``size``; the last one may be shorter."""

    def view(self) -> memoryview | None:
        """All bytes without a copy; None where that cannot be."""
        return None


def in_parts(
    read: Callable[[int, int], bytes | memoryview], start: int, end: int, size: int, at_least: int
) -> Iterator[bytes | memoryview]:
    """The bytes [start, end) in parts of ``size``, read at least ``at_least`` at a time."""
    fetched = max(at_least // size, 1) * size
    for here in range(start, end, fetched):
        data = read(here, min(here + fetched, end))
        for at in range(0, len(data), size):
            yield data[at : at + size]


class Runs(Span):
    """Ranges of a storage, one after the other."""

    def __init__(self, storage: SourceStorage, runs: Sequence[tuple[int, int]]) -> None:
        self.storage = self._storage = storage
        self._runs = tuple(runs)

    def view(self) -> memoryview | None:
        return self._storage.view(*self._runs[0]) if len(self._runs) == 1 else None

    def parts(self, size: int) -> Iterator[bytes | memoryview]:
        if len(self._runs) == 1:
            yield from self._one(*self._runs[0], size)
            return
        remainder = b""
        for start, end in self._runs:
            for part in self._one(start, end, size):
                remainder += part
                while len(remainder) >= size:
                    yield remainder[:size]
                    remainder = remainder[size:]
        if remainder:
            yield remainder

    def _one(self, start: int, end: int, size: int) -> Iterator[bytes | memoryview]:
        return in_parts(self._storage.read, start, end, size, self._storage.at_least)


class Stream(Span):
    """Bytes that come one after the other: a compressed member of an archive."""

    def __init__(self, name: str, opened: Callable[[], IO[bytes]], skip: int, length: int) -> None:
        self._name = name
        self._opened = opened
        self._skip = skip
        self._length = length

    def parts(self, size: int) -> Iterator[bytes | memoryview]:
        left = self._length
        with reading(self._name), self._opened() as stream:
            _exactly(stream, self._skip, self._name)
            while left:
                part = _exactly(stream, min(size, left), self._name)
                left -= len(part)
                yield part
            stream.read(1)  # at the end the sum of all bytes is checked


def _exactly(stream: IO[bytes], length: int, name: str) -> bytes:
    data = exactly(stream, name, length)
    if len(data) < length:
        raise ModelError(f"{name}: is truncated; {length - len(data):,} bytes are missing")
    return data


def reading(name: str) -> contextlib.AbstractContextManager[None]:
    """Any error while something is read becomes a ModelError of one line."""
    return explained(lambda error: f"{name}: cannot be read ({in_words(error)})")
