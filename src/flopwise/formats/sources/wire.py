"""The protobuf wire format: fields of a message by place, without reading what is in them.

Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from flopwise.errors import ModelError, damaged
from flopwise.formats.sources.source import Source

VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = 0, 1, 2, 3, 4, 5

#: Bytes of the fields that have one length.
_FIXED = {FIXED64: 8, FIXED32: 4}

#: How deep groups may nest, as in protobuf's own readers.
DEEPEST_GROUP = 100

#: Not of the format: several short fields of one number, one after the other.
RUN = -1

#: First read after a jump, in bytes: about one tensor header. It doubles while reading goes on where it stopped.
FIRST_READ = 512
LONGEST_READ = 1 << 16

#: Longest tag plus length prefix, in bytes (two varints).
HEADER = 20


class Field(NamedTuple):
    """One field of a message, by place. For a varint, ``value`` is the number; else it lies at [start, end).

    For a run, ``value`` is how many fields there are, which lie at [start, end) with their tags, as a group does.
    """

    number: int
    wire: int
    value: int
    start: int
    end: int
    #: Where the field's tag begins.
    tag: int


class Window:
    """A moving window over a source that reads little after a jump and more as reading goes on."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.size = source.size
        self._buffer = b""
        self._start = 0
        self._next = FIRST_READ

    def damaged(self, where: int, why: str) -> ModelError:
        """The error for bytes that cannot be what they should be."""
        return damaged(self.source.name, why, f"at byte {where}")

    def _fill(self, position: int, length: int = 0) -> None:
        goes_on = self._start < position <= self._start + len(self._buffer)
        self._next = min(2 * self._next, LONGEST_READ) if goes_on else FIRST_READ
        self._buffer = self.source.read(position, max(length, min(self._next, self.source.at_hand(position))))
        self._start = position

    def peek(self, start: int, end: int) -> bytes:
        """As many of the bytes [start, end) as are in the window, without reading."""
        return self._buffer[start - self._start : max(end - self._start, 0)] if start >= self._start else b""

    def _check(self, start: int, end: int) -> None:
        """Raise ModelError if the source ends before what lies at [start, end)."""
        if end > self.size:
            raise self.damaged(start, f"{end - self.size} bytes are missing")

    def _check_groups(self, groups: list[tuple[int, int]], position: int, end: int) -> None:
        """Raise ModelError if a message ends inside a group."""
        if groups or position > end:
            raise self.damaged(end, "a group does not end")

    def bytes(self, start: int, end: int) -> bytes:
        """The bytes [start, end)."""
        self._check(start, end)
        if not (self._start <= start and end <= self._start + len(self._buffer)):
            if end - start > LONGEST_READ:
                return self.source.read(start, end - start)
            self._fill(start, end - start)
        return self._buffer[start - self._start : end - self._start]

    def fields(
        self, start: int, end: int, run: int = -1, longest: int = 0, with_groups: bool = False
    ) -> Iterator[Field]:
        """The fields of the message at [start, end), in order, without groups, which no message of today has.

        Args:
            start: where it begins.
            end: where it ends.
            run: the tag of length-delimited fields of which several may come as one run; -1: each comes by itself.
            longest: bytes up to which such a field may be part of a run.
            with_groups: whether groups come as well, for what copies a message.

        Raises:
            ModelError: the bytes are no message, or end before it does.
        """
        self._check(start, end)
        position, new = start, tuple.__new__  # a named tuple's own constructor takes twice the time
        groups: list[tuple[int, int]] = []
        while position < end:
            at = position - self._start
            if not 0 <= at <= len(self._buffer) - HEADER:
                self._fill(position)
                at = 0
            buffer, origin, tag = self._buffer, self._start, position
            if buffer[at] == run and not groups:
                count, stop = _run(buffer, at, min(len(buffer), end - origin), longest)
                if count > 1:
                    position = origin + stop
                    yield new(Field, (run >> 3, RUN, count, tag, position, tag))
                    continue
            try:
                key = buffer[at]
                at += 1
                if key > 127:
                    key, at = read_varint(buffer, at - 1)
                wire = key & 7
                if wire in (BYTES, VARINT):
                    value = buffer[at]
                    at += 1
                    if value > 127:
                        value, at = read_varint(buffer, at - 1)
                    first = position = origin + at
                    if wire == BYTES:
                        position, value = first + value, 0
                elif wire in _FIXED:
                    value, first = 0, origin + at
                    position = first + _FIXED[wire]
                else:
                    position, outermost = origin + at, _nest(groups, key, tag)
                    if outermost is None:
                        raise self.damaged(tag, f"wire type {wire}")
                    if with_groups and not groups:
                        yield new(Field, (key >> 3, GROUP, 0, outermost, position, outermost))
                    continue
            except IndexError:
                raise self.damaged(tag, "a number does not end") from None
            if key < 8:
                raise self.damaged(tag, "field number 0")
            if position > end:
                raise self.damaged(tag, f"field {key >> 3} is {position - end} bytes longer than what holds it")
            if not groups:
                yield new(Field, (key >> 3, wire, value, first, position, tag))
        self._check_groups(groups, position, end)


def fields(
    data: bytes, start: int = 0, end: int | None = None, with_groups: bool = False
) -> Iterator[tuple[int, int, int]]:
    """The fields of a message in memory: the tag, and where the content begins and ends.

    For a varint, the number is in place of the beginning. Groups, which begin with their tag, come only if asked for.

    Raises:
        ModelError: the bytes are no message.
    """
    at, end = start, len(data) if end is None else end
    groups: list[tuple[int, int]] = []
    try:
        while at < end:
            tag = at
            key = data[at]
            at += 1
            if key > 127:
                key, at = read_varint(data, at - 1)
            wire = key & 7
            if wire == BYTES:
                length = data[at]
                at += 1
                if length > 127:
                    length, at = read_varint(data, at - 1)
                first, at = at, at + length
            elif wire == VARINT:
                first, at = read_varint(data, at)
            elif wire in _FIXED:
                first, at = at, at + _FIXED[wire]
            else:
                outermost = _nest(groups, key, tag)
                if outermost is None:
                    raise IndexError
                if with_groups and not groups:
                    yield key >> 3 << 3 | GROUP, outermost, at
                continue
            if at > end or key < 8:
                raise IndexError
            if not groups:
                yield key, first, at
        if groups or at > end:
            raise IndexError
    except IndexError:
        raise damaged("", "a field does not end where the message does") from None


def _nest(groups: list[tuple[int, int]], key: int, tag: int) -> int | None:
    """Enter a group or leave the innermost; where the tag of the outermost lies, None for a key that does neither.

    Args:
        groups: the number of each group around, and where its tag lies.
        key: a tag.
        tag: where it lies.
    """
    number = key >> 3
    if key & 7 == GROUP and number and len(groups) < DEEPEST_GROUP:
        groups.append((number, tag))
        return groups[0][1]
    outermost = groups[0][1] if groups else None
    return outermost if key & 7 == GROUP_END and groups and groups.pop()[0] == number else None


def _run(buffer: bytes, at: int, end: int, longest: int) -> tuple[int, int]:
    """The number of fields in a row with the tag at ``at``, none longer than ``longest``, and where they end."""
    tag, count, last = buffer[at], 0, end - 3
    while at <= last and buffer[at] == tag:
        length, stop = buffer[at + 1], at + 2
        if length > 127:
            length, stop = (length & 127) | buffer[at + 2] << 7, at + 3
        stop += length
        if length > longest or stop > end:  # or its length takes three bytes
            break
        at = stop
        count += 1
    return count, at


def read_varint(buffer: bytes, at: int) -> tuple[int, int]:
    """The number whose varint begins at ``at``, and where the next byte is. IndexError when it does not end."""
    result = shift = 0
    while True:
        byte = buffer[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 128:
            return result & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise IndexError


def varints(data: bytes) -> list[int]:
    """The numbers of a packed field.

    Raises:
        ModelError: the last one does not end.
    """
    numbers: list[int] = []
    at = 0
    try:
        while at < len(data):
            value, at = read_varint(data, at)
            numbers.append(value)
    except IndexError:
        raise damaged("", "a number does not end") from None
    return numbers


def signed(value: int) -> int:
    """A varint read as a signed 64-bit number."""
    return value - (1 << 64) if value >> 63 else value


def varint(value: int) -> bytes:
    """The varint of a number that is not negative."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(number: int, parts: list[bytes]) -> bytes:
    """A length-delimited field that holds the parts one after the other."""
    content = b"".join(parts)
    return varint(number << 3 | BYTES) + varint(len(content)) + content


def number_field(number: int, value: int) -> bytes:
    """A varint field."""
    return varint(number << 3 | VARINT) + varint(value)
