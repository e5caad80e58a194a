"""Protobuf's text format without a schema: a text becomes messages, with the fields that forks of Caffe have added.

Source: https://protobuf.dev/reference/protobuf/textformat-spec/. Beyond it: a value may stand in quotes or not as the
author liked, and comments may hold bytes of any encoding.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from flopwise.errors import ModelError
from flopwise.formats.caffe.file.message import Field, Message, Value, Word

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
