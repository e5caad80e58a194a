"""A message of a Caffe file without its schema, and the messages of a text: fields by name, in the order of the file.

Forks of Caffe add fields of their own, so nothing here knows which fields there are. What a value means is decided by
whoever asks for it. The text format is that of https://protobuf.dev/reference/protobuf/textformat-spec/. Beyond it: a
value may stand in quotes or not as the author liked, and comments may hold bytes of any encoding.
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


# Text.

#: Longest text, in bytes. The longest published networks take half a megabyte; weights as text take more, and no one
#: can read a network among them.
LONGEST = 16 << 20

#: Most values; the largest published networks have some ten thousand.
MOST_VALUES = 300_000

#: Deepest nesting; networks take five levels.
DEEPEST = 50

_BLANK = re.compile(r"(?:\s+|#[^\n]*)*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD = re.compile(r"[+-]?\s*[A-Za-z0-9_.](?:[A-Za-z0-9_.]|(?<=[eE])[+-])*")
_QUOTED = re.compile(r"\"((?:[^\"\\\n]|\\[^\n])*)\"|'((?:[^'\\\n]|\\[^\n])*)'")
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|(.))")
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_STRAY = re.compile("[\udc80-\udcff]")  # a byte that is not UTF-8, as it is decoded here
_QUOTES = ('"', "'")
_CLOSES = {"{": "}", "<": ">"}


def parse(data: bytes, name: str) -> Message:
    """The message that a text spells.

    Args:
        data: the text in UTF-8.
        name: what to call it in an error.

    Raises:
        ModelError: the text is none, is too long, or ends before its last message does; with line and column.
    """
    if len(data) > LONGEST:
        raise ModelError(f"{name}: is longer than {LONGEST >> 20} MB, too long for a network as text")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ModelError(f"{name}: is UTF-16 text; save it as UTF-8")
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return _Parser(text, name).message()


class _Open(NamedTuple):
    """A message whose end is still to come."""

    #: Its fields so far.
    fields: list[Field]
    #: The sign that ends it; empty for the whole text.
    close: str
    #: The field that it is the value of.
    name: str
    line: int
    #: Whether it stands in a list of messages.
    listed: bool


class _Parser:
    """One pass through a text, with a stack of the messages that are open."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.position = 0
        self.line = 1
        self._counted = 0  # how far lines are counted
        self._values = 0
        self._open = [_Open([], "", "", 1, False)]

    def message(self) -> Message:
        """The whole text as one message."""
        while True:
            self._skip()
            sign = self._sign()
            inner = self._open[-1]
            if not sign:
                if inner.close:
                    raise self._error(f"the text ends inside {inner.name!r}, which begins on line {inner.line}")
                return Message(inner.fields, 1)
            if sign == inner.close:
                self.position += 1
                self._open.pop()
                if inner.listed:
                    self._next_of_list(inner.name)
            elif sign in ",;":
                self.position += 1
            else:
                self._field()

    def _field(self) -> None:
        """One field: its value, the values of its list, or the beginning of its message."""
        name = self._field_name()
        line = self._here()
        self._skip()
        colon = self._sign() == ":"
        if colon:
            self.position += 1
            self._skip()
        if self._sign() == "[":
            self.position += 1
            self._skip()
            if self._sign() in _CLOSES:
                self._begin(name, listed=True)
            else:
                self._list(name, line)
        elif self._sign() in _CLOSES:
            self._begin(name, listed=False)
        elif colon:
            self._add(name, self._value(), line)
        else:
            raise self._error(f"{self._shown()} where ':' or '{{' must follow {name!r}")

    def _begin(self, name: str, listed: bool) -> None:
        """Begin a message at its brace."""
        if len(self._open) > DEEPEST:
            raise self._error(f"messages nest deeper than {DEEPEST} levels")
        line = self._here()
        fields: list[Field] = []
        self._add(name, Message(fields, line), line)
        self._open.append(_Open(fields, _CLOSES[self._sign()], name, line, listed))
        self.position += 1

    def _next_of_list(self, name: str) -> None:
        """Begin the next message of a list, or end the list."""
        self._skip()
        if self._sign() == ",":
            self.position += 1
            self._skip()
        if self._sign() in _CLOSES:
            self._begin(name, listed=True)
        elif self._sign() == "]":
            self.position += 1
        else:
            raise self._error(f"{self._shown()} in the list of messages {name!r}")

    def _list(self, name: str, line: int) -> None:
        """The values of a list up to its bracket."""
        while self._sign() != "]":
            self._add(name, self._value(), line)
            self._skip()
            if self._sign() == ",":
                self.position += 1
                self._skip()
            elif self._sign() != "]":
                raise self._error(f"{self._shown()} in the list of {name!r}, where ',' or ']' must be")
        self.position += 1

    def _add(self, name: str, value: Value, line: int) -> None:
        """Put a value into the innermost message."""
        self._count()
        self._open[-1].fields.append(Field(name, value, line))

    def _count(self) -> None:
        self._values += 1
        if self._values > MOST_VALUES:
            raise self._error(f"there are more than {MOST_VALUES:,} values, too many for a network")

    def _field_name(self) -> str:
        match = _NAME.match(self.text, self.position)
        if not match:
            close = self._open[-1].close
            raise self._error(f"{self._shown()} where the name of a field{f' or {close!r}' if close else ''} must be")
        self.position = match.end()
        return match[0]

    def _value(self) -> Value:
        """A word, or strings one after the other."""
        parts: list[str] = []
        while self._sign() in _QUOTES:
            self._count()
            parts.append(self._string())
            self._skip()
        if parts:
            return "".join(parts)
        match = _WORD.match(self.text, self.position)
        if not match:
            raise self._error(f"{self._shown()} where a value must be")
        self.position = match.end()
        return Word("".join(match[0].split()))

    def _string(self) -> str:
        match = _QUOTED.match(self.text, self.position)
        if not match:
            raise self._error("a string does not end on its line")
        text = match[1] if match[1] is not None else match[2]
        if "\\" in text:
            text = _ESCAPE.sub(_unescaped, text)
        if _STRAY.search(text):
            raise self._error("a string that is not UTF-8 text")
        self.position = match.end()
        return text

    def _skip(self) -> None:
        """Pass blanks and comments."""
        match = _BLANK.match(self.text, self.position)
        self.position = match.end() if match else self.position

    def _sign(self) -> str:
        """The next character; empty at the end of the text."""
        return self.text[self.position : self.position + 1]

    def _here(self) -> int:
        """The line of the place that was reached."""
        self.line += self.text.count("\n", self._counted, self.position)
        self._counted = self.position
        return self.line

    def _shown(self) -> str:
        """The sign or word at the position, for a message."""
        sign = self._sign()
        if not sign:
            return "the text ends"
        if _STRAY.match(sign):
            return f"the byte {ord(sign) - 0xDC00:#04x}, which is not UTF-8 text,"
        if not sign.isprintable():
            return f"the character {ord(sign):#04x}"
        match = _WORD.match(self.text, self.position)
        return repr(match[0][:40] if match else sign)

    def _error(self, what: str) -> ModelError:
        """The error for this place."""
        column = self.position - self.text.rfind("\n", 0, self.position)
        return ModelError(f"{self.name}: line {self._here()}, column {column}: {what}")


def _unescaped(match: re.Match[str]) -> str:
    """The character that an escape stands for."""
    octal, hexadecimal, letter = match.groups()
    if octal:
        return chr(int(octal, 8))
    if hexadecimal:
        return chr(int(hexadecimal, 16))
    return _NAMED.get(letter, letter)
