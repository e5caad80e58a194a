"""Where elements lie: a file's mapping, ranges of a remote file, members of archives."""

from __future__ import annotations

import contextlib
import functools
import io
import mmap
import threading
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import IO, Any

from flopwise._limits import within_limit
from flopwise.errors import ModelError
from flopwise.formats.sources.location import explained, in_words
from flopwise.formats.sources.source import FileSource, Source, exactly
from flopwise.graph.stored import Storage

# Where elements lie: a file's mapping, ranges of a remote file, a stream from an archive.

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


# ZIP archives whose members are read where they lie: NumPy's and PyTorch's files, near or far.
#
# Source: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, sections 4.3 and 4.4.

#: Bytes of the part of a local header that has a fixed length.
LOCAL = 30

#: Bytes that a local header may take besides its fixed part and the name; PyTorch fills it up to multiples of 64.
FILLING = 128


class Reading(io.RawIOBase):
    """A source as a file that can seek; what it has to make room for by itself is bounded by a limit."""

    def __init__(self, source: Source | _Held) -> None:
        self.source = source
        self.at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.source.size}[whence]
        if self.at < 0:
            raise OSError("a place before the beginning")  # as a file does
        return self.at

    def tell(self) -> int:
        return self.at

    def read(self, size: int | None = -1) -> bytes:
        left = max(self.source.size - self.at, 0)
        length = left if size is None or size < 0 else min(size, left)
        within_limit("header_bytes", length, f"{self.source.name}: the directory of the archive has")
        data = self.source.read(self.at, length)
        self.at += length
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.source.read(self.at, min(len(buffer), max(self.source.size - self.at, 0)))
        buffer[: len(data)] = data
        self.at += len(data)
        return len(data)


class _Held:
    """A storage in the form in which ``Reading`` takes a source: it may be closed and opened in between."""

    def __init__(self, storage: SourceStorage) -> None:
        self.name, self.size = storage.name, storage.size
        self._storage = storage

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self._storage.read(offset, offset + length))


def refuse_compressed(file: str | IO[bytes], name: str) -> None:
    """Refuse an archive with compressed members: PyTorch compresses nothing itself, but unpacks everything.

    Args:
        file: path of the archive, or the archive.
        name: what to call it in a message.

    Raises:
        ModelError: a member is compressed.
    """
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise ModelError(f"{name}: {member.filename[:200]!r} is compressed; load and save it again")


def refuse_rare_compression(member: zipfile.ZipInfo, name: str) -> None:
    """Refuse a member that is neither stored nor deflated; other methods unpack a few bytes to gigabytes at once.

    Args:
        member: of an archive.
        name: of the archive, for messages.

    Raises:
        ModelError: it is compressed in another way.
    """
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ModelError(f"{name}: {member.filename[:200]!r} is not compressed by deflate; refused")


def within_bounds(member: zipfile.ZipInfo, name: str) -> None:
    """Refuse a member that is too long to be read as a whole.

    Args:
        member: of an archive.
        name: of the archive, for messages.

    Raises:
        ModelError: it is longer than the limit ``header_bytes``, or unpacks to more than ``unpacked_bytes``.
    """
    refuse_rare_compression(member, name)
    within_limit("header_bytes", member.file_size, f"{name}: {member.filename[:200]!r} has")
    if member.compress_type != zipfile.ZIP_STORED:
        within_limit("unpacked_bytes", member.file_size, f"{name}: {member.filename[:200]!r} unpacks to")


class Archive:
    """The members of an archive that are not compressed, by name; where each begins is read when it is wanted.

    Raises:
        ModelError: the directory cannot be right: two members of one name, or members that overlap; or a member is
            compressed as neither NumPy nor PyTorch does it.
        zipfile.BadZipFile: it is not an archive.
    """

    def __init__(self, storage: SourceStorage) -> None:
        self.storage = self._storage = storage
        #: Name -> where its bytes begin, and where its local header and they end at the latest.
        self._places: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        self._zip = opened = zipfile.ZipFile(Reading(_Held(storage)))
        self.members: dict[str, zipfile.ZipInfo] = {}
        here, before = 0, ""
        for member in sorted(opened.infolist(), key=lambda info: info.header_offset):
            name = member.filename
            if name in self.members:
                raise ModelError(f"{storage.name}: its archive has two members {name[:200]!r}")
            refuse_rare_compression(member, storage.name)
            if member.header_offset < here:
                raise ModelError(f"{storage.name}: members {before[:200]!r} and {name[:200]!r} of its archive overlap")
            self.members[name] = member
            self._ends |= {before: member.header_offset, name: storage.size}
            here, before = member.header_offset + LOCAL + member.compress_size, name
        if here > storage.size:
            raise ModelError(
                f"{storage.name}: is truncated; {before[:200]!r} ends at byte {here:,} of {storage.size:,}"
            )

    def __reduce__(self) -> tuple[object, ...]:
        return Archive, (self._storage,)

    def content(self, name: str) -> bytes:
        """All bytes of a member, compressed or not, with their sum checked.

        Raises:
            ModelError: it is not there, or is larger than the limit.
            zipfile.BadZipFile: it is damaged.
        """
        if name not in self.members:
            raise ModelError(f"{self._storage.name}: its archive has no {name[:200]!r}")
        within_bounds(self.members[name], self._storage.name)
        return self._zip.read(self.members[name])

    def stream(self, name: str) -> IO[bytes]:
        """A member from its first byte on, compressed or not; several may be read at the same time."""
        return self._zip.open(self.members[name])

    def span(self, name: str, start: int, end: int) -> Span:
        """The bytes [start, end) of a member.

        Raises:
            ModelError: it is not there, is compressed, or ends before that.
        """
        member = self._stored(name)
        if not 0 <= start <= end <= member.file_size:
            span = f"bytes {start:,} to {end:,} of {name[:200]!r}"
            raise ModelError(f"{self._storage.name}: {span} are wanted, but it has {member.file_size:,}")
        return _Within(self, name, start, end)

    def _stored(self, name: str) -> zipfile.ZipInfo:
        member = self.members.get(name)
        if member is None:
            raise ModelError(f"{self._storage.name}: its archive has no {name[:200]!r}")
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            raise ModelError(
                f"{self._storage.name}: {name[:200]!r} is compressed or encrypted; download the file first"
            )
        if member.compress_size != member.file_size:
            raise ModelError(f"{self._storage.name}: two lengths of {name[:200]!r} in its archive differ")
        return member

    def place(self, name: str) -> int:
        """The offset at which the bytes of a member begin.

        Raises:
            ModelError: its local header is damaged.
        """
        if name not in self._places:
            at = self.members[name].header_offset
            self._learn(name, self._storage.read(at, min(at + LOCAL, self._storage.size)))
        return self._places[name]

    def read(self, name: str, start: int, end: int) -> bytes | memoryview:
        """The bytes [start, end) of a member; its local header comes with the first ones, in one request."""
        if name in self._places or start or not self._storage.at_least:
            place = self.place(name)
            return self._storage.read(place + start, place + end)
        at = self.members[name].header_offset
        data = self._storage.read(at, min(at + LOCAL + len(name.encode()) + FILLING + end, self._storage.size))
        self._learn(name, data[:LOCAL])
        place = self._places[name]
        part = memoryview(data)[place - at : place - at + end]
        return part if len(part) == end else bytes(part) + bytes(self._storage.read(place + len(part), place + end))

    def _learn(self, name: str, head: bytes | memoryview) -> None:
        member = self.members[name]
        if bytes(head[:4]) != b"PK\x03\x04" or len(head) < LOCAL:
            raise ModelError(f"{self._storage.name}: {name[:200]!r} is not where its archive has it")
        skip = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        place = member.header_offset + LOCAL + skip
        if place + member.file_size > self._ends[name]:
            raise ModelError(
                f"{self._storage.name}: {name[:200]!r} ends at byte {place + member.file_size:,} of its archive, "
                f"but has to end at {self._ends[name]:,}"
            )
        self._places[name] = place


class _Within(Span):
    """Bytes of a member."""

    def __init__(self, archive: Archive, name: str, start: int, end: int) -> None:
        self.storage = archive.storage
        self._archive = archive
        self._name = name
        self._start = start
        self._end = end

    def parts(self, size: int) -> Iterator[bytes | memoryview]:
        return in_parts(partial(self._archive.read, self._name), self._start, self._end, size, FETCHED)
