"""Models by URL: only the ranges that somebody asks for come over the network, and their bytes are counted."""

from __future__ import annotations

import os
import posixpath
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from flopwise.errors import ModelError
from flopwise.readers.source.location import explained, in_words, shown
from flopwise.readers.source.source import Source

#: Bytes that are kept together. A walk over a file reads one or two of them for each tensor.
BLOCK = 1 << 10

#: Blocks of the first request, and most blocks of one that reads ahead.
FIRST, MOST = 16, 1 << 10

#: Ranges from this many bytes on are elements, and are not kept.
LARGE = 1 << 20

#: Bytes that are kept at most.
KEPT = 64 << 20


@dataclass
class Traffic:
    """The bytes and requests over the network for one model, for all its files."""

    nbytes: int = 0
    requests: int = 0
    #: File -> bytes.
    sizes: dict[str, int] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)

    def add(self, nbytes: int) -> None:
        """Count a request."""
        with self.lock:
            self.nbytes += nbytes
            self.requests += 1

    def __str__(self) -> str:
        requests = "1 request" if self.requests == 1 else f"{self.requests:,} requests"
        return f"read {self.nbytes:,} of {sum(self.sizes.values()):,} bytes over the network in {requests}"


class Transport(ABC):
    """A way to fetch ranges of one remote file."""

    @abstractmethod
    def first(self, length: int) -> tuple[int, bytes]:
        """The size of the file, and its first bytes: ``length``, or all where it has fewer.

        Raises:
            ModelError: the file is not there, or does not come in ranges.
        """

    @abstractmethod
    def fetch(self, start: int, end: int) -> bytes:
        """The bytes [start, end)."""

    @abstractmethod
    def beside(self, location: str) -> tuple[str, Transport]:
        """The name of another file in the same folder, for messages, and what brings it."""

    def close(self) -> None:  # noqa: B027 - nothing to let go of is the usual case
        """Let go of connections."""


class RemoteSource(Source):
    """A remote file, read in ranges. What steers the reading is kept; elements are not."""

    remote = True
    threadsafe = True

    def __init__(self, name: str, transport: Transport, traffic: Traffic | None = None) -> None:
        """
        Args:
            name: the URL as it may be shown.
            transport: brings the bytes.
            traffic: counts them; None: a count of its own.
        """
        self.name = name
        self.traffic = traffic or Traffic()
        self._transport = transport
        self._lock = threading.Lock()
        self._blocks: dict[int, bytes] = {}
        self.size, head = transport.first(FIRST * BLOCK)
        self.traffic.add(len(head))
        self.traffic.sizes[name] = self.size
        self._keep(0, head)
        self._next, self._ahead = -(-len(head) // BLOCK), FIRST

    def part(self, offset: int, length: int) -> bytes:
        if length >= LARGE:
            return self._fetched(offset, offset + length)
        if not length:
            return b""
        with self._lock:
            first, last = offset // BLOCK, (offset + length - 1) // BLOCK
            missing = [i for i in range(first, last + 1) if i not in self._blocks]
            if missing:
                self._bring(missing[0], missing[-1] + 1)
            data = b"".join(self._blocks[i] for i in range(first, last + 1))
        at = offset - first * BLOCK
        return data[at : at + length]

    def _bring(self, first: int, end: int) -> None:
        """Get blocks, and more of them where reading goes on where it stopped."""
        self._ahead = min(2 * self._ahead, MOST) if first == self._next else 1
        end = max(end, first + self._ahead)
        while end - 1 > first and end - 1 in self._blocks:
            end -= 1
        data = self._fetched(first * BLOCK, min(end * BLOCK, self.size))
        if len(self._blocks) * BLOCK > KEPT:
            self._blocks = {i: self._blocks[i] for i in range(first - FIRST, first) if i in self._blocks}
        self._keep(first, data)
        self._next = end

    def _keep(self, first: int, data: bytes) -> None:
        for i in range(-(-len(data) // BLOCK)):
            self._blocks[first + i] = data[i * BLOCK : (i + 1) * BLOCK]

    def _fetched(self, start: int, end: int) -> bytes:
        data = self._transport.fetch(start, end)
        self.traffic.add(len(data))
        return data

    def later(self) -> Callable[[], Source]:
        return lambda: self  # connections open again by themselves, and the count goes on

    def beside(self, location: str, what: str) -> Source:
        for path in (PurePosixPath(location), PureWindowsPath(location)):
            if path.anchor or ".." in path.parts or not path.parts:
                raise ModelError(f"the data of {what} are in {location!r}, outside the model's folder; refused")
        name, transport = self._transport.beside(posixpath.normpath(location))
        return RemoteSource(name, transport, self.traffic)

    def network_summary(self) -> str:
        return str(self.traffic)

    def close(self) -> None:
        self._transport.close()


class Fsspec(Transport):
    """A file in such a file system."""

    def __init__(self, url: str, system: Any = None) -> None:
        """
        Args:
            url: where the file is; with a ``system``, its path there.
            system: the file system; None: the one that the URL's scheme names.
        """
        self.name = shown(url)
        self._path, self._system = url, system
        if system is None:
            scheme = url.partition("://")[0]
            try:
                from fsspec.core import url_to_fs
            except ImportError:
                raise ModelError(
                    f"{self.name}: {scheme}:// needs fsspec: pip install 'flopwise[remote]', or download the file"
                ) from None
            self._system, self._path = self._explained(lambda: url_to_fs(url))

    def _explained(self, work: Callable[[], object]) -> Any:
        with explained(lambda error: f"{self.name}: cannot be read ({in_words(error, 150)})"):
            try:
                return work()
            except FileNotFoundError:
                raise ModelError(f"{self.name}: no such file") from None
            except ImportError as error:
                raise ModelError(f"{self.name}: fsspec cannot open it ({in_words(error, 150)})") from None

    def first(self, length: int) -> tuple[int, bytes]:
        size = self._explained(lambda: self._system.info(self._path)["size"])
        if not isinstance(size, int) or size < 0:
            raise ModelError(f"{self.name}: its length is unknown; download it first")
        return size, self.fetch(0, min(length, size))

    def fetch(self, start: int, end: int) -> bytes:
        if start == end:
            return b""
        data = self._explained(lambda: self._system.cat_file(self._path, start=start, end=end))
        if not isinstance(data, bytes) or len(data) != end - start:
            raise ModelError(f"{self.name}: gave {len(data):,} bytes instead of {end - start:,}; download it first")
        return data

    def beside(self, location: str) -> tuple[str, Transport]:
        other = Fsspec(f"{os.path.dirname(self._path)}/{location}", self._system)
        other.name = f"{self.name.rpartition('/')[0]}/{location}"
        return other.name, other
