"""Messages of a specification as dictionaries, by the schema; what it calls a place is left where it is."""

from __future__ import annotations

from typing import Any, TypeAlias

from flopwise.errors import ModelError
from flopwise.formats.coreml.file.schema import SCHEMA
from flopwise.readers.source.source import BytesSource, Source
from flopwise.readers.source.wire import BYTES, VARINT, Window, signed, varints

#: A message: numbers, texts, places, messages and lists of these by name.
Message: TypeAlias = "dict[str, Any]"

#: How deep messages may nest: blocks in operations in blocks, and types in types.
DEEPEST = 160

#: Messages that a specification may hold: some 20,000 operations.
MOST = 1_500_000

#: Specifications of up to so many bytes are read at once.
_AT_ONCE = 1 << 26


class Specification:
    """The specification of a model, from which messages are read."""

    def __init__(self, source: Source) -> None:
        self.name = source.name
        whole = source.size <= _AT_ONCE
        self._window = Window(BytesSource(source.read(0, source.size), source.name) if whole else source)
        self.size = source.size
        self._messages = 0

    def damaged(self, why: str) -> ModelError:
        """The error for a file that does not hold together."""
        return ModelError(f"{self.name}: damaged Core ML model ({why})")

    def numbers(self) -> set[int]:
        """The numbers of the fields of the whole."""
        return {field.number for field in self._window.fields(0, self.size)}

    def bytes(self, place: tuple[int, int]) -> bytes:
        """The bytes at a place."""
        return self._window.bytes(*place)

    def message(self, kind: str, place: tuple[int, int], depth: int = 0) -> Message:
        """The message of a kind at a place.

        Raises:
            ModelError: it is none, or the file holds too many.
        """
        self._messages += 1
        if depth > DEEPEST or self._messages > MOST:
            raise self.damaged("messages are nested too deep" if depth > DEEPEST else "it has too many operations")
        fields, values = SCHEMA[kind], dict[str, Any]()
        for field in self._window.fields(*place):
            known = fields.get(field.number)
            if known is None:
                continue
            name, inner, repeated = known
            value: Any
            if inner == "ints":
                values.setdefault(name, []).extend(self._ints(field.wire, field.value, (field.start, field.end)))
                continue
            if field.wire != (VARINT if inner == "int" else BYTES):
                raise self.damaged(f"field {name} of {kind} is of another type")
            if inner == "int":
                value = signed(field.value)
            elif inner == "place":
                value = (field.start, field.end)
            elif inner == "text":
                value = self._window.bytes(field.start, field.end).decode("utf-8", "replace")
            else:
                value = self.message(inner, (field.start, field.end), depth + 1)
            if repeated:
                values.setdefault(name, []).append(value)
            else:
                values[name] = value
        return values

    def _ints(self, wire: int, value: int, place: tuple[int, int]) -> list[int]:
        if wire == VARINT:
            return [signed(value)]
        try:
            return [signed(one) for one in varints(self._window.bytes(*place))]
        except IndexError:
            raise self.damaged("a number does not end") from None
