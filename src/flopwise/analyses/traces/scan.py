"""Traces as a stream: a JSON file of many events, read in blocks, each event decoded when it is reached.

A trace may be larger than memory. Its events stand in one array: the file itself, or the value of a key such as
``traceEvents``. Only a block and one event are held at a time, and a file that ends early is known as such.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, BinaryIO, TextIO

from flopwise._limits import within_limit, within_unpacking
from flopwise._results import Json
from flopwise.errors import ModelError
from flopwise.formats.sources.source import missing

#: Characters that are read at a time.
BLOCK = 1 << 22

#: Keys whose arrays hold the events.
ARRAYS = ("traceEvents", "Layers")

_SPACE = " \t\r\n"

#: The first character of an event, or the end of the array, behind what stands between two events.
_ELEMENT = re.compile(f"[^{_SPACE},]")

# Times since 1970 in microseconds have 19 digits, three more than a float has: numbers with a fraction stay text.
_decode = json.JSONDecoder(parse_float=str, strict=False).raw_decode


class Scan:
    """A file of events.

    Args:
        path: the file; one that is packed by gzip is unpacked as it is read.
        block: characters that are read at a time.

    Raises:
        ModelError: there is no such file, or it does not begin as JSON with an array or an object.
    """

    def __init__(self, path: str | os.PathLike[str], block: int = BLOCK) -> None:
        self.name = os.fsdecode(path)
        #: The other values of the file by key. Those behind the events are here once the events are read.
        self.head: Json = {}
        #: The key of the array with the events; "" where the file is the array.
        self.array = ""
        self._block, self._text, self._at, self._before, self._count = block, "", 0, 0, 0
        self._ended = False
        #: The file where it is packed by gzip, and characters that it has been unpacked to.
        self._packed: BinaryIO | None = None
        self._unpacked = 0
        self._file = self._opened(path)
        self._first: Any = None
        try:
            self._array = self._begin()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Scan:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def first(self) -> Json:
        """The first event, by which formats are told apart; {} where there is none."""
        if self._first is None and self._array:
            self._first = next(self._elements(), {})
        return self._first or {}

    def events(self) -> Iterator[Json]:
        """The events in the file's order; can be asked for once.

        Raises:
            ModelError: the file ends before its array does, is damaged, or holds an event that is no object or exceeds
                the limit ``unpacked_bytes``.
        """
        if self.first:
            yield self.first
            yield from self._elements()
        if self.array:
            self._members()

    def _opened(self, path: str | os.PathLike[str]) -> TextIO:
        try:
            if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):  # a pipe would wait
                raise ModelError(f"{self.name}: not a regular file")
            file = open(path, "rb")  # noqa: SIM115 - open as long as the scan is
            if file.peek(2)[:2] == b"\x1f\x8b":
                self._packed = file
            unpacked = gzip.open(file) if self._packed else file  # noqa: SIM115 - closed with it
            return io.TextIOWrapper(unpacked, encoding="utf-8-sig", errors="surrogateescape", newline="")
        except FileNotFoundError:
            raise ModelError(f"{self.name}: {missing(self.name)}") from None
        except OSError as error:
            raise ModelError(f"{self.name}: {error.strerror or error}") from error

    def _begin(self) -> bool:
        """Go to the first event; True where there is an array to read."""
        opening = self._next()
        if opening == "[":
            return True
        if opening == "{":
            return self._members()
        raise ModelError(
            f"{self.name}: no trace as JSON: it begins with neither [ nor {{; a model goes before its trace"
        )

    def _members(self) -> bool:
        """Read the values of an object up to its end, or to the array of the events; True where that was found."""
        while True:
            character = self._next()
            if character == "}":
                return False
            if character == ",":
                continue
            self._at -= 1
            key = self._value()
            if not isinstance(key, str) or self._next() != ":":
                raise self._damage()
            if key in ARRAYS and not self.array and self._peek() == "[":
                self._at += 1
                self.array = key
                return True
            self.head[key] = self._value()

    def _elements(self) -> Iterator[Json]:
        """The events from here to the end of their array."""
        while True:
            found = _ELEMENT.search(self._text, self._at)
            self._at = found.start() if found else len(self._text)
            if found is None:
                if not self._more():
                    raise self._cut()
                continue
            if found[0] == "]":
                self._at += 1
                return
            event = self._value()
            if not isinstance(event, dict):
                raise ModelError(f"{self.name}: event {self._count + 1:,} is no object")
            self._count += 1
            yield event

    def _peek(self) -> str:
        """The next character that is no space; "" at the end."""
        text, at = self._text, self._at
        while True:
            while at < len(text) and text[at] in _SPACE:
                at += 1
            self._at = at
            if at < len(text):
                return text[at]
            if not self._more():
                return ""
            text, at = self._text, self._at

    def _next(self) -> str:
        """The next character that is no space, and past it.

        Raises:
            ModelError: the file ends here.
        """
        character = self._peek()
        if not character:
            raise self._cut()
        self._at += 1
        return character

    def _value(self) -> Any:
        """The value that begins here."""
        self._peek()
        while True:
            try:
                value, end = _decode(self._text, self._at)
            except RecursionError as error:
                raise ModelError(f"{self.name}: event {self._count + 1:,} is nested too deeply") from error
            except ValueError as error:
                if self._fails_within(16, error):  # a word or an escape may be split
                    if self._more():
                        continue
                    if self._fails_within(0, error) or self._text.rstrip()[-1] not in "]}":
                        raise self._cut() from error
                raise self._damage() from error
            # A number, and a word such as true, may go on in the next block.
            if end == len(self._text) and self._text[end - 1] not in '}]"' and self._more():
                continue
            self._at = end
            return value

    def _fails_within(self, characters: int, error: ValueError) -> bool:
        """True where decoding failed within so many characters of the end of the text, or in a string up to it."""
        place: int = getattr(error, "pos", 0)
        return str(error).startswith("Unterminated") or place >= len(self._text.rstrip()) - characters

    def _more(self) -> bool:
        """Read a block further; False at the end of the file.

        Raises:
            ModelError: what was packed is cut off or damaged, or one value is longer than the limit.
        """
        if self._ended:
            return False
        try:
            read = self._file.read(self._block)
        except EOFError as error:
            raise ModelError(f"{self.name}: cut off: its packed data end early; record or copy it again") from error
        except (OSError, zlib.error) as error:
            raise ModelError(f"{self.name}: damaged: {error}") from error
        self._ended = not read
        if self._packed:
            self._unpacked += len(read)
            within_unpacking(self._packed.tell(), self._unpacked, self.name)
        self._before += self._at
        self._text, self._at = self._text[self._at :] + read, 0
        within_limit(
            "unpacked_bytes", len(self._text) - len(read), f"{self.name}: event {self._count + 1:,} has at least"
        )
        return bool(read)

    def _cut(self) -> ModelError:
        where = f"after {self._count:,} whole events" if self._count else "before its first event"
        return ModelError(f"{self.name}: cut off: the file ends {where}; record or copy it again")

    def _damage(self) -> ModelError:
        return ModelError(
            f"{self.name}: damaged: event {self._count + 1:,}, at character {self._before + self._at:,}, is no JSON"
        )


def nanoseconds(value: object, unit_ns: int = 1000) -> int:
    """A time in a trace as whole nanoseconds, rounded half to even, without a float in between.

    Args:
        value: an integer, or a number as decimal text.
        unit_ns: nanoseconds in its unit; microseconds by default.

    Raises:
        ValueError: the value is no finite number.

    >>> nanoseconds("1419247333430.849"), nanoseconds(12), nanoseconds("0.5", 1_000_000)
    (1419247333430849, 12000, 500000)
    """
    if isinstance(value, int):
        return value * unit_ns
    text = str(value)
    if unit_ns == 1000 and text[-4:-3] == ".":  # as Kineto writes them
        digits = text[:-4] + text[-3:]
        if digits.isdecimal():
            return int(digits)
    try:
        return int((Decimal(text) * unit_ns).to_integral_value())
    except (InvalidOperation, OverflowError, ValueError) as error:
        raise ValueError(f"no time: {value!r}") from error
