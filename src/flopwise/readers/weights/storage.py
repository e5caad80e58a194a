"""Where elements lie and how they are read: a file's mapping, ranges of a remote file, an archive, memory."""

from __future__ import annotations

import contextlib
import mmap
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

import numpy

from flopwise.errors import FlopwiseError, ModelError
from flopwise.readers.source.source import FileSource, Source
from flopwise.readers.weights.encoding import Coding, numbers

#: Bytes of one request for elements in a remote file.
FETCHED = 8 << 20


class Store:
    """A source whose bytes several threads read: a file by a mapping, anything else under a lock."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name = source.name
        self.size = source.size
        self._lock = threading.Lock()
        self._map: mmap.mmap | None = None
        if isinstance(source, FileSource) and source.size:
            with contextlib.suppress(OSError, ValueError), open(source.name, "rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            if self._map is not None and len(self._map) < source.size:
                raise ModelError(f"{self.name}: changed while it was read")

    def view(self, start: int, end: int) -> memoryview | None:
        """The bytes [start, end) without a copy; None where that cannot be.

        Raises:
            ModelError: the source ends before that.
        """
        if not 0 <= start <= end <= self.size:
            raise ModelError(f"{self.name}: bytes {start:,} to {end:,} are wanted, but it has {self.size:,}")
        return None if self._map is None else memoryview(self._map)[start:end]

    def read(self, start: int, end: int) -> bytes | memoryview:
        """The bytes [start, end).

        Raises:
            ModelError: the source ends before that, or cannot be read.
        """
        found = self.view(start, end)
        if found is not None:
            return found
        if self.source.threadsafe:
            return self.source.read(start, end - start)
        with self._lock:
            return self.source.read(start, end - start)

    @property
    def at_least(self) -> int:
        """Bytes that a read should take at least, because each one costs a request."""
        return FETCHED if self.source.remote else 0

    def close(self) -> None:
        """Let go of the file; arrays that look into it stay valid."""
        self.source.close()
        if self._map is not None:
            with contextlib.suppress(BufferError):  # somebody still looks into it
                self._map.close()
            self._map = None


class Span(ABC):
    """Bytes in a row."""

    @abstractmethod
    def parts(self, size: int) -> Iterator[bytes | memoryview]:
        """The bytes in parts of ``size``; the last one may be shorter."""

    def view(self) -> memoryview | None:
        """All bytes without a copy; None where that cannot be."""
        return None


class Runs(Span):
    """Ranges of a store, one after the other."""

    def __init__(self, store: Store, runs: Sequence[tuple[int, int]]) -> None:
        self._store = store
        self._runs = tuple(runs)

    def view(self) -> memoryview | None:
        return self._store.view(*self._runs[0]) if len(self._runs) == 1 else None

    def parts(self, size: int) -> Iterator[bytes | memoryview]:
        if len(self._runs) == 1:
            yield from self._one(*self._runs[0], size)
            return
        rest = b""
        for start, end in self._runs:
            for part in self._one(start, end, size):
                rest += part
                while len(rest) >= size:
                    yield rest[:size]
                    rest = rest[size:]
        if rest:
            yield rest

    def _one(self, start: int, end: int, size: int) -> Iterator[bytes | memoryview]:
        fetched = max(self._store.at_least // size, 1) * size
        for here in range(start, end, fetched):
            data = self._store.read(here, min(here + fetched, end))
            for at in range(0, len(data), size):
                yield data[at : at + size]


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
    parts: list[bytes] = []
    while length:
        part = stream.read(length)
        if not part:
            raise ModelError(f"{name}: is truncated; {length:,} bytes are missing")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


@contextlib.contextmanager
def reading(name: str) -> Iterator[None]:
    """Whatever goes wrong while something is read is told in one line."""
    try:
        yield
    except FlopwiseError:
        raise
    except Exception as error:  # libraries that unpack damaged files raise all kinds
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise ModelError(f"{name}: cannot be read ({why})") from error


class Elements(ABC):
    """The elements of a payload."""

    @abstractmethod
    def blocks(self, elements: int) -> Iterator[Any]:
        """The elements as numbers, in one-dimensional arrays of about ``elements``."""

    def raw(self) -> Any:
        """All elements as they are stored, in a view that cannot be written to; None where that cannot be."""
        return None


class Coded(Elements):
    """Elements in bytes, in a coding."""

    def __init__(self, span: Span, coding: Coding, count: int) -> None:
        self._span = span
        self._coding = coding
        self._count = count

    def blocks(self, elements: int) -> Iterator[Any]:
        coding, left = self._coding, self._count
        if not left:
            return
        for part in self._span.parts(max(elements // coding.elements, 1) * coding.nbytes):
            found = coding.decode(numpy.frombuffer(part, numpy.uint8))[:left]
            left -= found.size
            yield found

    def raw(self) -> Any:
        view = self._span.view() if self._coding.stored and not self._coding.stored.startswith(">") else None
        return None if view is None else numpy.frombuffer(view, self._coding.stored, self._count)


class Loaded(Elements):
    """Elements that are an array in memory once somebody asks."""

    def __init__(self, load: Callable[[], Any], flat: bool = False) -> None:
        """
        Args:
            load: gives the array.
            flat: whether each call gives the same memory, so that ``raw`` may hand it out.
        """
        self._load = load
        self._flat = flat

    def blocks(self, elements: int) -> Iterator[Any]:
        array = numpy.asanyarray(self._load())
        if array.flags.c_contiguous:
            flat = array.reshape(-1)
            for at in range(0, flat.size, elements):
                yield numbers(flat[at : at + elements])
            return
        for at in range(0, array.size, elements):
            yield numbers(array.flat[at : at + elements])

    def raw(self) -> Any:
        if not self._flat:
            return None
        array = numpy.asanyarray(self._load())
        if not array.flags.c_contiguous or array.dtype.kind not in "iuf" or not array.dtype.isnative:
            return None
        found = array.reshape(-1).view()
        found.flags.writeable = False
        return found
