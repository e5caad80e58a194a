"""Messages of protobuf as dictionaries, by a schema that is declared as text.

A line declares messages: ``Name: field number kind, field number kind*``. A kind is a number ("int", "uint", "float",
"double"), "text", "place" for bytes that stay where they are, "skip" for what is known and not read, or a message of
the schema, that of the field's name where none is said. A star marks what repeats; "~" a list of numbers or a text of
which the beginning is enough. FlatBuffers declare theirs in the same way, with kinds of their own (``flatbuffer``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from flopwise._limits import spend
from flopwise.errors import ModelError, damaged
from flopwise.formats.sources import wire
from flopwise.formats.sources.source import Source

#: A message: numbers, texts, places, messages and lists of these by name; what the file leaves out is not there.
Message: TypeAlias = "dict[str, Any]"

#: Where bytes lie in a file, from and to.
Place: TypeAlias = tuple[int, int]


#: Fields that a schema does not know, each with the message that it is in.
Unknown: TypeAlias = list[tuple[str, wire.Field]]


class Field(NamedTuple):
    """A field of a message."""

    name: str
    number: int
    kind: str
    #: "*" for a list, "~" for the beginning of one or of a text, "" for one value.
    many: str = ""
    #: What FlatBuffers take for a number that is left out.
    default: int = 0


Schema: TypeAlias = Mapping[str, tuple[Field, ...]]

#: How deep messages may nest: blocks in operations in blocks, and types in types.
DEEPEST = 160

#: Messages that a file may hold: some 20,000 operations.
MOST = 1_500_000

#: Bytes of a text or a list of numbers, and of the first numbers of a list that are enough.
LONGEST = 1 << 16

#: Bytes of messages that are read at once, with what is in them.
_SMALL = 1 << 15

#: Numbers of one length: how the wire marks them, their form and their bytes.
_FIXED = {"float": (wire.FIXED32, "f", 4), "double": (wire.FIXED64, "d", 8)}

#: Kind of a field -> how the wire may mark it; messages are as texts are. Numbers that repeat may be packed.
_WIRES = {
    "int": (wire.VARINT,), "uint": (wire.VARINT,), "float": (wire.FIXED32,), "double": (wire.FIXED64,),
    "place": (wire.BYTES, wire.FIXED32, wire.FIXED64),
    "skip": (wire.VARINT, wire.FIXED64, wire.BYTES, wire.FIXED32),
}  # fmt: skip

#: Numbers from here on are negative ones.
_NEGATIVE = 1 << 63

#: Bytes of a varint after which more of it comes.
_CONTINUED = bytes(range(128, 256))

#: How texts are written; bytes that are none stay to be seen.
_UTF8 = ("utf-8", "backslashreplace")


def schema(text: str) -> Schema:
    """The fields of each message of a text; several names before a colon have the same ones, and so have numbers.

    >>> schema("Pad Crop: axis 1 int=1, offset 2 int*")["Crop"][1]
    Field(name='offset', number=2, kind='int', many='*', default=0)
    """
    messages: dict[str, tuple[Field, ...]] = {}
    for line in text.strip().splitlines():
        names, _, listed = line.partition(": ")
        fields: list[Field] = []
        for part in listed.split(", "):
            name, *numbers = part.split()
            kind = name if numbers[-1].isdecimal() else numbers.pop()
            kind, _, default = kind.partition("=")
            bare, value = kind.rstrip("*~"), int(default or 0)
            value = bool(value) if bare == "?" else value
            fields += [Field(name, int(number), bare, kind[len(bare) :], value) for number in numbers]
        messages |= dict.fromkeys(names.split(), tuple(fields))
    return messages


class Messages:
    """The messages of a file of protobuf."""

    def __init__(self, source: Source, schema: Schema, what: str, most: int = 0) -> None:
        """
        Args:
            source: the file.
            schema: of its messages.
            what: what it holds, for errors.
            most: messages that it may hold; 0 for ``MOST``.
        """
        self.name, self.size, self._what, self._most = source.name, source.size, what, most or MOST
        self._window = wire.Window(source)
        self._tables = {kind: _by_key(fields) for kind, fields in schema.items()}
        self._count = 0

    def damaged(self, why: str) -> ModelError:
        """The error for a file that does not hold together."""
        return damaged(self.name, why, self._what)

    def content(self, place: Place) -> bytes:
        """The bytes at a place."""
        return self._window.bytes(*place)

    def numbers(self, place: Place) -> set[int]:
        """The numbers of the fields of the message at a place."""
        return {field.number for field in self._window.fields(*place)}

    def message(self, kind: str, place: Place, into: Message | None = None, unknown: Unknown | None = None) -> Message:
        """The message of a kind at a place.

        Args:
            kind: its name in the schema.
            place: where it lies.
            into: an earlier part of it, which this one adds to.
            unknown: takes the fields that the schema does not know.

        Raises:
            ModelError: it is none, or the file holds too many.
        """
        return self._message(kind, None, 0, place, {} if into is None else into, unknown, 0)

    def _message(
        self,
        kind: str,
        data: bytes | None,
        origin: int,
        place: Place,
        values: Message,
        unknown: Unknown | None,
        depth: int,
    ) -> Message:
        """The message at a place in some bytes that begin at ``origin``, or in the file where they are None."""
        if depth > DEEPEST:
            raise self.damaged("messages are nested too deep")
        self._spend()
        start, end = place
        if data is None and end - start <= _SMALL:
            data, origin, start, end = self._window.bytes(start, end), start, 0, end - start
        table = self._tables[kind]
        parts = _parts(self._window, start, end) if data is None else wire.fields(data, start, end)
        for key, first, last in parts:
            field = table.get(key)
            if field is None:
                self._strange(kind, key, origin + first, origin + last, unknown)
                continue
            name, _, inner, many, _ = field
            content: Any
            if inner == "int" and not key & 7:
                content = first if first < _NEGATIVE else first - 2 * _NEGATIVE
            elif inner in self._tables:
                before = values.get(name, {}) if not many else {}
                content = self._message(inner, data, origin, (first, last), before, unknown, depth + 1)
            elif inner == "text":
                content = self._bytes(data, first, last, field).decode(*_UTF8)
            elif inner == "place":
                self._spend()
                content = (origin + first, origin + last)
            elif inner == "skip":
                continue
            else:
                numbers = [first] if not key & 7 else _numbers(self._bytes(data, first, last, field), field)
                if many:
                    earlier = values.setdefault(name, [])
                    if many == "*" or len(earlier) < LONGEST:
                        earlier += numbers
                    continue
                content = numbers[0]
            if many and (many == "*" or inner != "text"):
                values.setdefault(name, []).append(content)
            else:
                values[name] = content
        return values

    def _strange(self, kind: str, key: int, start: int, end: int, unknown: Unknown | None) -> None:
        """Note a field that the schema does not know.

        Raises:
            ModelError: it knows it, and of another type.
        """
        number, form = key >> 3, key & 7
        if any(other >> 3 == number for other in self._tables[kind]):
            raise self.damaged(f"field {number} of {kind} is of another type")
        if unknown is not None:
            unknown.append((kind, wire.Field(number, form, 0, start, end, start)))

    def _bytes(self, data: bytes | None, start: int, end: int, field: Field) -> bytes:
        """The value of a text, or of numbers."""
        if end - start > LONGEST:
            if field.many != "~":
                raise self.damaged(f"{field.name} is {end - start} bytes long")
            end = start + LONGEST
            if field.kind in ("int", "uint"):
                return self._window.bytes(start, end).rstrip(_CONTINUED)
        return self._window.bytes(start, end) if data is None else data[start:end]

    def _spend(self) -> None:
        """Charge the budget with a message, or with a part of the file that is read later."""
        self._count += 1
        if self._count > self._most:
            raise self.damaged(f"it has more than {self._most:,} messages")
        if not self._count & 1023:
            spend()


def _by_key(fields: tuple[Field, ...]) -> dict[int, Field]:
    """The fields of a message by what the wire begins them with: the number and how they are written."""
    table: dict[int, Field] = {}
    for field in fields:
        forms = _WIRES.get(field.kind, (wire.BYTES,))
        packed = (wire.BYTES,) if field.many and field.kind in ("int", "uint", "float", "double") else ()
        table.update((field.number << 3 | form, field) for form in (*forms, *packed))
    return table


def _parts(window: wire.Window, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The fields of a message as ``wire.fields`` has them, without what is in them."""
    for number, form, value, first, last, _ in window.fields(start, end):
        yield number << 3 | form, first if form else value, last


def _numbers(data: bytes, field: Field) -> list[Any]:
    """The numbers of a field, which are packed or one of a fixed length.

    Raises:
        ModelError: they do not end where it does.
    """
    form = _FIXED.get(field.kind)
    if form is None:
        return wire.varints(data) if field.kind == "uint" else list(map(wire.signed, wire.varints(data)))
    if len(data) % form[2]:
        raise damaged("", f"{field.name} is {len(data)} bytes long")
    return list(struct.unpack(f"<{len(data) // form[2]}{form[1]}", data))
