"""A protobuf message put together from new bytes and from ranges of a source that are copied as they stand.

Lengths of nested messages are summed, never measured by building the message: the ranges may be larger than memory, and
than the 2 GB that protobuf can parse or write.
"""

from __future__ import annotations

from collections.abc import Callable

from flopwise.readers.source.source import Source
from flopwise.readers.source.wire import BYTES, varint

#: Bytes that are copied at a time.
CHUNK = 1 << 20


class Pieces:
    """Bytes one after the other, some of them in a source."""

    __slots__ = ("_parts", "size")

    def __init__(self) -> None:
        #: Length of the whole in bytes.
        self.size = 0
        self._parts: list[bytes | tuple[int, int]] = []

    def add(self, data: bytes) -> None:
        """Append new bytes."""
        self._parts.append(data)
        self.size += len(data)

    def copy(self, start: int, end: int) -> None:
        """Append the bytes [start, end) of the source."""
        last = self._parts[-1] if self._parts else None
        if isinstance(last, tuple) and last[1] == start:
            self._parts[-1] = (last[0], end)
        else:
            self._parts.append((start, end))
        self.size += end - start

    def field(self, number: int, content: Pieces) -> None:
        """Append a length-delimited field with this content."""
        self.add(varint(number << 3 | BYTES) + varint(content.size))
        self.extend(content)

    def extend(self, other: Pieces) -> None:
        """Append all of another."""
        for part in other._parts:
            if isinstance(part, bytes):
                self.add(part)
            else:
                self.copy(*part)

    def write(self, source: Source, sink: Callable[[bytes], object]) -> None:
        """Hand the bytes over in order, a chunk at a time.

        Args:
            source: what the ranges are ranges of.
            sink: takes bytes, as the ``write`` of a file does.

        Raises:
            ModelError: the source cannot be read.
        """
        for part in self._parts:
            if isinstance(part, bytes):
                sink(part)
                continue
            for start in range(part[0], part[1], CHUNK):
                sink(source.read(start, min(CHUNK, part[1] - start)))
