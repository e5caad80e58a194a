"""A message of a Caffe file without its schema: fields by name, in the order of the file.

Forks of Caffe add fields of their own, so nothing here knows which fields there are. What a value means is decided by
whoever asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from flopwise.errors import ModelError

#: No blob has more dimensions (kMaxBlobAxes in Caffe's blob.hpp).
MOST_AXES = 32


class Word(str):
    """A value without quotes: a number, a member of an enumeration, true or false."""

    __slots__ = ()


Value: TypeAlias = "Message | str"


class Field(NamedTuple):
    """One value of a field, and the line on which it stands (0 in a binary file)."""

    name: str
    value: Value
    line: int


_INTEGER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20})")
_FLOAT = re.compile(
    r"([+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?))f?|[+-]?(?:inf|infinity|nan)", re.IGNORECASE
)

_TRUTH = {"true": True, "True": True, "t": True, "1": True, "false": False, "False": False, "f": False, "0": False}

#: Characters of a value that a message shows.
_SHOWN = 40


# Message has methods of these names, which would stand for the types within it.
_Int: TypeAlias = int
_Float: TypeAlias = float
_Bool: TypeAlias = bool


class Message:
    """Fields by name. A field may be there several times; one that a schema calls singular has its last value."""

    __slots__ = ("_fields", "line")

    def __init__(self, fields: Iterable[Field], line: _Int = 0) -> None:
        """
        Args:
            fields: the fields in the order of the file.
            line: where the message starts; 0 in a binary file.
        """
        self._fields: Sequence[Field] = fields if isinstance(fields, list) else list(fields)
        self.line = line

    def fields(self) -> Sequence[Field]:
        """All fields in the order of the file."""
        return self._fields

    def names(self) -> list[str]:
        """The names of the fields that are there, each once, in the order of the file."""
        return list(dict.fromkeys(field.name for field in self._fields))

    def has(self, name: str) -> _Bool:
        """True where the field is there."""
        return any(field.name == name for field in self._fields)

    def entries(self, name: str) -> list[Field]:
        """Every value of a field with its line."""
        return [field for field in self._fields if field.name == name]

    def messages(self, name: str) -> list[Message]:
        """Every value of a field that holds messages.

        Raises:
            ModelError: a value is none.
        """
        messages: list[Message] = []
        for field in self.entries(name):
            if not isinstance(field.value, Message):
                raise _error(field, "must be a message in braces")
            messages.append(field.value)
        return messages

    def merged(self, name: str) -> Message:
        """A singular message: given several times, its fields come together; empty when it is absent."""
        parts = self.messages(name)
        if len(parts) == 1:
            return parts[0]
        return Message([field for part in parts for field in part.fields()], parts[0].line if parts else self.line)

    def int(self, name: str, default: _Int) -> _Int:
        """A singular whole number.

        Raises:
            ModelError: the value is none.
        """
        value = self.entries(name)
        return _integer(value[-1]) if value else default

    def ints(self, name: str) -> list[_Int]:
        """Whole numbers; errors as for `int`."""
        return [_integer(field) for field in self.entries(name)]

    def float(self, name: str, default: _Float) -> _Float:
        """A singular number.

        Raises:
            ModelError: the value is none.
        """
        value = self.entries(name)
        return _float(value[-1]) if value else default

    def floats(self, name: str) -> list[_Float]:
        """Numbers; errors as for `float`."""
        return [_float(field) for field in self.entries(name)]

    def bool(self, name: str, default: _Bool) -> _Bool:
        """A singular truth value.

        Raises:
            ModelError: the value is none.
        """
        value = self.entries(name)
        return _truth(value[-1]) if value else default

    def text(self, name: str, default: str) -> str:
        """A singular string or word.

        Raises:
            ModelError: the value is a message.
        """
        value = self.entries(name)
        return _text(value[-1]) if value else default

    def texts(self, name: str) -> list[str]:
        """Strings or words; errors as for `text`."""
        return [_text(field) for field in self.entries(name)]


def _error(field: Field, needed: str) -> ModelError:
    """The error for a value of another kind."""
    shown = "a message" if isinstance(field.value, Message) else repr(str(field.value)[:_SHOWN])
    line = f"line {field.line}: " if field.line else ""
    return ModelError(f"{line}{field.name} is {shown}, {needed}")


def _integer(field: Field) -> int:
    text = field.value
    if not isinstance(text, Word) or not _INTEGER.fullmatch(text):
        raise _error(field, "must be a whole number")
    digits = text.lstrip("+-")
    if digits[:2] in ("0x", "0X"):
        return int(text, 16)
    octal = len(digits) > 1 and digits[0] == "0" and not set(digits) & {"8", "9"}
    return int(text, 8) if octal else int(text)


def _float(field: Field) -> float:
    text = field.value
    if isinstance(text, Word):
        if number := _FLOAT.fullmatch(text):
            return float(number[1] or text)
        if _INTEGER.fullmatch(text):
            return float(_integer(field))
    raise _error(field, "must be a number")


def _truth(field: Field) -> bool:
    if not isinstance(field.value, Word) or field.value not in _TRUTH:
        raise _error(field, "must be true or false")
    return _TRUTH[field.value]


def _text(field: Field) -> str:
    if isinstance(field.value, Message):
        raise _error(field, "must be text")
    return field.value
