"""Messages of protobuf as dictionaries, by a schema that is declared as text.

A line declares messages: ``Name: field number kind, field number kind*``. A kind is a number ("int", "uint", "float",
"double"), "text", "place" for bytes that stay where they are, "skip" for what is known and not read, or a message of
the schema, that of the field's name where none is said. A star marks what repeats; "~" a list of numbers or a text of
which the beginning is enough. FlatBuffers declare theirs in the same way, with kinds of their own (``flatbuffer``).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from flopwise._limits import spend
from flopwise.errors import ModelError, damaged
from flopwise.readers.source import wire
from flopwise.readers.source.source import Source

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

#: Numbers of one length: how the wire marks them, their form and their bytes.
_FIXED = {"float": (wire.FIXED32, "f", 4), "double": (wire.FIXED64, "d", 8)}

#: Bytes of a varint after which more of it comes.
_CONTINUED = bytes(range(128, 256))


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
        self._schema = {kind: {field.number: field for field in fields} for kind, fields in schema.items()}
        self._count = 0

    def damaged(self, why: str) -> ModelError:
        """The error for a file that does not hold together."""
        return damaged(self.name, why, self._what)

    def bytes(self, place: Place) -> bytes:
        """The bytes at a place."""
        return self._window.bytes(*place)

    def numbers(self, place: Place) -> set[int]:
        """The numbers of the fields of the message at a place."""
        return {field.number for field in self._window.fields(*place)}

    def message(
        self, kind: str, place: Place, into: Message | None = None, unknown: Unknown | None = None, depth: int = 0
    ) -> Message:
        """The message of a kind at a place.

        Args:
            kind: its name in the schema.
            place: where it lies.
            into: an earlier part of it, which this one adds to.
            unknown: takes the fields that the schema does not know.
            depth: the messages around it.

        Raises:
            ModelError: it is none, or the file holds too many.
        """
        if depth > DEEPEST:
            raise self.damaged("messages are nested too deep")
        self._spend()
        fields, values = self._schema[kind], {} if into is None else into
        for part in self._window.fields(*place):
            field = fields.get(part.number)
            if field is None:
                if unknown is not None:
                    unknown.append((kind, part))
                continue
            name, _, inner, many, _ = field
            value: Any
            if inner in _NUMBERS:
                if many:
                    before = values.setdefault(name, [])
                    if many == "*" or len(before) < LONGEST:
                        before += self._numbers(part, field)
                    continue
                (value,) = self._numbers(part, field)
            elif inner == "place" and part.wire != wire.VARINT:
                self._spend()
                value = (part.start, part.end)
            elif inner == "skip":
                continue
            elif part.wire != wire.BYTES:
                raise self._wrong(part, field)
            elif inner == "text":
                value = self._window.bytes(part.start, self._end(part, field)).decode("utf-8", "backslashreplace")
            else:
                before = None if many else values.get(name)
                value = self.message(inner, (part.start, part.end), before, unknown, depth + 1)
            if many == "*":
                values.setdefault(name, []).append(value)
            else:
                values[name] = value
        return values

    def _spend(self) -> None:
        """Charge the budget with a message, or with a part of the file that is read later."""
        self._count += 1
        if self._count > self._most:
            raise self.damaged(f"it has more than {self._most:,} messages")
        if not self._count & 1023:
            spend()

    def _numbers(self, part: wire.Field, field: Field) -> list[Any]:
        """The numbers of a field: one, or several that are packed."""
        form = _FIXED.get(field.kind)
        if part.wire == wire.VARINT and form is None:
            return [part.value if field.kind == "uint" else wire.signed(part.value)]
        if part.wire == wire.BYTES and field.many:
            data = self._window.bytes(part.start, end := self._end(part, field))
        elif form is not None and part.wire == form[0]:
            data = self._window.bytes(part.start, end := part.end)
        else:
            raise self._wrong(part, field)
        if form is not None:
            if len(data) % form[2]:
                raise self._wrong(part, field)
            return list(struct.unpack(f"<{len(data) // form[2]}{form[1]}", data))
        return [wire.signed(value) for value in wire.varints(data if end == part.end else data.rstrip(_CONTINUED))]

    def _end(self, part: wire.Field, field: Field) -> int:
        """Where what is read of a field ends."""
        if part.end - part.start <= LONGEST:
            return part.end
        if field.many != "~":
            raise self.damaged(f"{field.name} is {part.end - part.start} bytes long")
        return part.start + LONGEST

    def _wrong(self, part: wire.Field, field: Field) -> ModelError:
        return self._window.damaged(part.tag, f"wire type {part.wire} for {field.name}")


_NUMBERS = frozenset({"int", "uint", "float", "double"})
