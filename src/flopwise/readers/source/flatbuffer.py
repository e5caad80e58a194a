"""FlatBuffers, read where somebody asks and nowhere outside the file.

The generated accessors follow any offset and read every buffer as one array; these check each place against the size of
the file, read pages of it, and add up what is read, so that a small file cannot be walked over without end.

https://flatbuffers.dev/internals/
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from flopwise._limits import spend
from flopwise.errors import ModelError
from flopwise.readers.source.source import Source

#: Numbers of the wire, the lowest byte first.
Scalar: TypeAlias = Literal["b", "B", "?", "h", "H", "i", "I", "q", "Q", "f", "d"]

#: Bytes that are read at once.
_PAGE = 1 << 16

#: How often the bytes of a file may be read on average; each is named once in a file that a converter wrote.
_OFTEN = 16


class FlatBuffer:
    """The bytes of a file, or of a part of it."""

    def __init__(self, source: Source, start: int, size: int, what: str = "TensorFlow Lite model") -> None:
        """
        Args:
            source: the file.
            start: where the flatbuffer begins in it.
            size: its bytes.
            what: what it holds, for messages.
        """
        self.source, self.start, self.size, self.what = source, start, size, what
        self._pages: dict[int, bytes] = {}
        self._room = _OFTEN * size + _PAGE
        #: Tables that vectors have named, and the bytes that they would take beside each other.
        self._tables: set[int] = set()
        self._taken = 0

    def read(self, at: int, length: int) -> bytes:
        """The bytes [at, at + length).

        Raises:
            ModelError: they are not all in the file, or the file has been read too often.
        """
        if at < 0 or length < 0 or at + length > self.size:
            raise self.error(f"byte {at + max(length, 0):,} is named, but there are {self.size:,}")
        self._room -= length
        if self._room < 0:
            raise self.error("the same bytes are named over and over")
        if length > _PAGE:
            return self.source.read(self.start + at, length)
        number, begin = divmod(at, _PAGE)
        page = self._page(number)
        if begin + length <= _PAGE:
            return page[begin : begin + length]
        return page[begin:] + self._page(number + 1)[: begin + length - _PAGE]

    def _page(self, number: int) -> bytes:
        page = self._pages.get(number)
        if page is None:
            at = number * _PAGE
            page = self._pages[number] = self.source.read(self.start + at, min(_PAGE, self.size - at))
        return page

    def number(self, at: int, kind: Scalar) -> Any:
        """The number at a place."""
        form = f"<{kind}"
        return struct.unpack(form, self.read(at, struct.calcsize(form)))[0]

    def root(self) -> Table:
        """The table that the file holds."""
        return Table(self, self.number(0, "I"))

    def member(self, at: int) -> Table:
        """A table of a vector; one that was named before, or that lies over others, is charged to the budget."""
        table = Table(self, at)
        self._taken += 4 + table.length
        spend(repeated_nodes=int(at in self._tables or self._taken > self.size))
        self._tables.add(at)
        return table

    def error(self, why: str) -> ModelError:
        """The error for a file that makes no sense."""
        return ModelError(f"{self.source.name}: truncated or damaged {self.what} ({why})")


class Table:
    """A table; its fields go by their number in the schema."""

    __slots__ = ("_at", "_buffer", "_fields")

    def __init__(self, buffer: FlatBuffer, at: int) -> None:
        """
        Args:
            buffer: where it lies.
            at: its first byte.
        """
        layout = at - buffer.number(at, "i")
        length = buffer.number(layout, "H")
        if length < 4 or length % 2:
            raise buffer.error(f"a table at byte {at:,} has no fields")
        self._buffer, self._at = buffer, at
        self._fields = struct.unpack(f"<{length // 2 - 2}H", buffer.read(layout + 4, length - 4))

    @property
    def length(self) -> int:
        """Bytes from its first one to its last field."""
        last: int = max((0, *self._fields))
        return last + 4

    def _place(self, field: int) -> int:
        """Where a field lies; 0 where it is left out."""
        offset = self._fields[field] if field < len(self._fields) else 0
        return self._at + offset if offset else 0

    def _referred(self, field: int) -> int:
        place = self._place(field)
        return place and place + int(self._buffer.number(place, "I"))

    def number(self, field: int, kind: Scalar = "i", default: object = 0) -> Any:
        """A number, or the default of the schema."""
        place = self._place(field)
        return self._buffer.number(place, kind) if place else default

    def table(self, field: int) -> Table | None:
        """The table that a field refers to; None where it is left out."""
        place = self._referred(field)
        return Table(self._buffer, place) if place else None

    def extent(self, field: int, width: int) -> tuple[int, int]:
        """The first byte of a vector's elements and how many there are; (0, 0) where it is left out."""
        place = self._referred(field)
        if not place:
            return 0, 0
        count = int(self._buffer.number(place, "I"))
        if place + 4 + count * width > self._buffer.size:
            raise self._buffer.error(f"{count:,} elements at byte {place:,} are more than there is room for")
        return place + 4, count

    def numbers(self, field: int, kind: Scalar = "i") -> tuple[Any, ...]:
        """A vector of numbers; () where it is left out."""
        width = struct.calcsize(f"<{kind}")
        start, count = self.extent(field, width)
        return struct.unpack(f"<{count}{kind}", self._buffer.read(start, count * width)) if count else ()

    def tables(self, field: int) -> Iterator[Table]:
        """The tables of a vector."""
        start, count = self.extent(field, 4)
        for at in range(start, start + 4 * count, 4):
            yield self._buffer.member(at + int(self._buffer.number(at, "I")))

    def text(self, field: int, default: str = "") -> str:
        """A text; what is no UTF-8 in it is replaced."""
        start, count = self.extent(field, 1)
        return self._buffer.read(start, count).decode("utf-8", "replace") if start else default
