"""FlatBuffers, read where somebody asks and nowhere outside the file.

The generated accessors follow any offset and read every buffer as one array; these check each place against the size of
the file, read pages of it, and add up what is read, so that a small file cannot be walked over without end.

https://flatbuffers.dev/internals/
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from flopwise._limits import spend
from flopwise.errors import ModelError, damaged
from flopwise.formats.sources.schema import Message, Schema
from flopwise.formats.sources.source import Source

#: Numbers of the wire, the lowest byte first.
_SCALARS = {kind: struct.Struct(f"<{kind}") for kind in "bB?hHiIqQfd"}

#: Bytes that are read at once.
_PAGE = 1 << 16

#: How often the bytes of a file may be read on average; each is named once in a file that a converter wrote.
_OFTEN = 16


class Extent(NamedTuple):
    """Bytes of the file, from one place to another."""

    start: int
    end: int


class FlatBuffer:
    """The bytes of a file, or of a part of it.

    A kind of the schema is a number as ``struct`` writes it ("i", with a default "i=1"), "text", a table of the schema,
    "table" for the place of one whose kind another field says, or "@i" for the place of a vector of numbers and how
    many they are.
    """

    def __init__(self, source: Source, start: int, size: int, schema: Schema, what: str) -> None:
        """
        Args:
            source: the file.
            start: where the flatbuffer begins in it.
            size: its bytes.
            schema: of its tables.
            what: what it holds, for messages.
        """
        self.source, self.start, self.size, self._schema, self._what = source, start, size, schema, what
        self._pages: dict[int, bytes] = {}
        self._room = _OFTEN * size + _PAGE
        #: Tables that vectors have named, and the bytes that they would take beside each other.
        self._tables: set[int] = set()
        self._taken = 0

    def error(self, why: str) -> ModelError:
        """The error for a file that makes no sense."""
        return damaged(self.source.name, why, self._what)

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

    def _number(self, at: int, kind: str) -> Any:
        form = _SCALARS[kind]
        return form.unpack(self.read(at, form.size))[0]

    def root(self, kind: str) -> Message:
        """The table that the file holds.

        Raises:
            ModelError: it makes no sense.
        """
        return self.table(kind, self._number(0, "I"))

    def table(self, kind: str, at: int, listed: bool = False) -> Message:
        """The fields of the table at a place; those that are left out are the schema's defaults, (), "" and None.

        Args:
            kind: its name in the schema.
            at: its first byte.
            listed: whether a vector names it; one that was named before, or that lies over others, is charged to the
                budget.

        Raises:
            ModelError: it makes no sense, or what it names does.
        """
        layout = at - self._number(at, "i")
        length = self._number(layout, "H")
        if length < 4 or length % 2:
            raise self.error(f"a table at byte {at:,} has no fields")
        offsets = struct.unpack(f"<{length // 2 - 2}H", self.read(layout + 4, length - 4))
        if listed:
            self._taken += 8 + max((0, *offsets))
            spend(repeated_nodes=int(at in self._tables or self._taken > self.size))
            self._tables.add(at)
        values: Message = {}
        for name, number, inner, many, default in self._schema[kind]:
            place = offsets[number] if number < len(offsets) else 0
            form = _SCALARS.get(inner)
            if form is not None and not many:
                values[name] = form.unpack(self.read(at + place, form.size))[0] if place else default
            elif not place:
                values[name] = () if many else (0, 0) if inner[0] == "@" else "" if inner == "text" else None
            else:
                place += at
                values[name] = self._referred(inner, place + self._number(place, "I"), bool(many))
        return values

    def _referred(self, kind: str, at: int, many: bool) -> Any:
        """The table, text or vector that a field points to."""
        if kind == "table":
            return at
        if not many and kind in self._schema:
            return self.table(kind, at)
        form = _SCALARS.get(kind.removeprefix("@"))
        width = form.size if form is not None else 1 if kind == "text" else 4
        count = self._number(at, "I")
        start = at + 4
        if start + count * width > self.size:
            raise self.error(f"{count:,} elements at byte {at:,} are more than there is room for")
        if kind[0] == "@":
            return start, count
        if kind == "text":
            return self.read(start, count).decode("utf-8", "replace")
        if form is not None:
            return struct.unpack(f"<{count}{kind}", self.read(start, count * width))
        places = range(start, start + 4 * count, 4)
        return [self.table(kind, place + self._number(place, "I"), listed=True) for place in places]
