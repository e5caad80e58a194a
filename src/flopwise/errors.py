"""Errors that flopwise raises on purpose: each is one line that names the file, the layer and the cure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")
E = TypeVar("E", bound="FlopwiseError")

#: With this variable set, an error that nobody foresaw shows where it came from.
TRACEBACK = "FLOPWISE_TRACEBACK"


def printable(text: str) -> str:
    r"""The text with control characters and invisible ones shown as escapes.

    Names come from model files, which may be hostile: control characters, line ends, terminal escape sequences,
    right-to-left overrides, lone surrogates.

    >>> print(printable("a\x1b[31m\n\u202e"))
    a\x1b[31m\x0a\u202e
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else escaped(c) for c in text)


def escaped(character: str) -> str:
    """A character as Python would write it: its code in hexadecimal digits."""
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def counted(number: int, thing: str) -> str:
    """A number of things in words, in the singular for one.

    >>> counted(1, "layer"), counted(2000, "layer")
    ('1 layer', '2,000 layers')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def one_line(error: BaseException) -> str:
    """The line that an error comes to, whatever raised it; one that nobody foresaw says how to report it."""
    if isinstance(error, FlopwiseError):
        text = message(error)
    elif isinstance(error, SystemExit):
        text = f"code of the model ended the program with SystemExit({error.code!r})"
    elif isinstance(error, MemoryError):
        text = "out of memory"
    elif isinstance(error, RecursionError):
        text = "the model is nested too deeply"
    else:
        what = f"{type(error).__name__}: {message(error)}"
        text = f"a bug in flopwise: {what}; {TRACEBACK}=1 shows where, please report it"
    return printable(" ".join(text.split()))


def message(error: BaseException) -> str:
    """The message of an error on one line; "" where it has none, or fails itself as it is asked."""
    try:
        return " ".join(str(error).split())
    except Exception:  # a class of the user's own may do anything
        return ""


def damaged(name: str, why: str, what: str = "") -> ModelError:
    """The error for a file that does not hold together.

    Args:
        name: of the file; "" where whoever reads it puts that before.
        why: what is wrong.
        what: what it should be.

    >>> print(damaged("a.tflite", "it has no subgraph", "TensorFlow Lite model"))
    a.tflite: truncated or damaged TensorFlow Lite model (it has no subgraph)
    """
    return ModelError(f"{name}{': ' if name else ''}truncated or damaged{' ' if what else ''}{what} ({why})")


def with_article(word: str) -> str:
    """A word with "a" or "an" in front, by its first letter.

    >>> with_article("int"), with_article("dict")
    ('an int', 'a dict')
    """
    return f"{'an' if word[:1].lower() in tuple('aeiou') else 'a'} {word}"


def did_you_mean(name: str, names: Iterable[str], lead: str = "; ") -> str:
    """A question that names what is nearest to a name that is unknown; "" when nothing is near.

    >>> did_you_mean("fvcor", ["flops", "fvcore"]), did_you_mean("x", ["flops"])
    ("; did you mean 'fvcore'?", '')
    """
    from difflib import get_close_matches  # a correct command line never needs it

    near = get_close_matches(name, list(names), 1)
    return f"{lead}did you mean {near[0]!r}?" if near else ""


def entry(table: Mapping[str, T], key: str, what: str = "column", others: Iterable[str] = (), name: str = "") -> T:
    """The value that a table holds under a key.

    Args:
        table: what there is.
        key: what is looked for.
        what: what the keys are names of, for the error.
        others: other names that the error may suggest.
        name: the key as somebody wrote it, for the error.

    Raises:
        InputError: the table has no such key; the message suggests the nearest and lists all.
    """
    if key not in table:
        near = did_you_mean(key, [*table, *others]) or ";"
        raise InputError(f"unknown {what} {name or key!r}{near} known: {', '.join(table)}")
    return table[key]


class FlopwiseError(Exception):
    """Anything flopwise refuses to do; the message is one printable line, meant for the person at the terminal."""

    def __init__(self, message: object = "", *details: object) -> None:
        text = str(message)
        super().__init__(text if text.isprintable() else printable(" ".join(text.split())), *details)

    def __str__(self) -> str:
        return str(self.args[0])

    def reworded(self: E, message: str) -> E:
        """The same error with another message, without its traceback: class, details and attributes stay.

        Its ``__init__`` is not called again: each subclass has arguments of its own.
        """
        other = type(self).__new__(type(self))
        FlopwiseError.__init__(other, message, *self.args[1:])
        other.__dict__.update(self.__dict__)
        return other


class ModelError(FlopwiseError):
    """The model cannot be read: missing, truncated, damaged, hostile or in an unknown format."""


class InputError(FlopwiseError):
    """The question is not answerable as asked: an input without a shape, an unknown option value."""


class RuleError(InputError):
    """A rule of the user's own fails, or returns what is no count: the model is not to blame."""


class UnknownDimensionError(InputError):
    """A size is given for a dimension that the model does not have.

    Args:
        message: the line for the person.
        name: the dimension that a size is given for.
        dimensions: those that the model has.
    """

    def __init__(self, message: object = "", name: str = "", dimensions: tuple[str, ...] = ()) -> None:
        super().__init__(message, name, dimensions)
        self.name, self.dimensions = name, dimensions


class ShapeError(FlopwiseError):
    """A figure needs a shape that could not be resolved."""


class OtherFormatError(ModelError):
    """A file is known to be something else than it was taken for."""


class UntrustedError(ModelError):
    """The request needs code of the model's own to run, which was not allowed."""
