"""Single Caffe layers for tests, written as in a prototxt and handed over without the reader around them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from flopwise.errors import ModelError
from flopwise.formats.caffe.place import Lowered
from flopwise.formats.caffe.table import lower
from flopwise.graph import Node, Shape, Tensor

_TOKEN = re.compile(r"""'[^']*' | [{}\[\]:,] | [^\s{}\[\]:,]+""", re.VERBOSE)


class Fields:
    """What a layer rule asks of a message, from a text of well-formed fields."""

    def __init__(self, fields: list[tuple[str, Any]]) -> None:
        self.fields = fields
        self.line = 1

    def all(self, name: str) -> list[Any]:
        return [value for field, value in self.fields if field == name]

    def messages(self, name: str) -> list[Fields]:
        return [value for value in self.all(name) if isinstance(value, Fields)]

    def merged(self, name: str) -> Fields:
        return Fields([field for message in self.messages(name) for field in message.fields])

    def has(self, name: str) -> bool:
        return bool(self.all(name))

    def _numbers(self, name: str, of: Callable[[str], Any]) -> list[Any]:
        try:
            return [of(value) for value in self.all(name)]
        except ValueError:
            raise ModelError(f"line {self.line}: {name} is no number") from None

    def ints(self, name: str) -> list[int]:
        return self._numbers(name, int)

    def int(self, name: str, default: Any) -> Any:
        return (self.ints(name) or [default])[-1]

    def floats(self, name: str) -> list[float]:
        return self._numbers(name, float)

    def float(self, name: str, default: Any) -> Any:
        return (self.floats(name) or [default])[-1]

    def bool(self, name: str, default: Any) -> Any:
        return ([value == "true" for value in self.all(name)] or [default])[-1]

    def text(self, name: str, default: str) -> str:
        return (self.all(name) or [default])[-1]


class Layer(NamedTuple):
    """The fields that a layer rule reads."""

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    message: Fields
    blobs: tuple[tuple[int, ...], ...] | None
    shared: tuple[str, ...]
    line: int
    phase: str


def _fields(tokens: list[str]) -> Fields:
    """The fields up to the closing brace; the tokens come last first and are used up."""
    found: list[tuple[str, Any]] = []
    while tokens and (name := tokens.pop()) != "}":
        if tokens[-1] == ":":
            tokens.pop()
        token = tokens.pop()
        if token == "{":
            found.append((name, _fields(tokens)))
        elif token == "[":
            while (token := tokens.pop()) != "]":
                found += [(name, token)] if token != "," else []
        else:
            found.append((name, token.strip("'")))
    return Fields(found)


def layer(kind: str, params: str, bottoms: int, tops: int, *, blobs: Any = None, phase: str = "TEST") -> Any:
    """A layer "it" of this type with bottoms x0, x1, ... and tops y0, y1, ..."""
    names = tuple(f"x{i}" for i in range(bottoms)), tuple(f"y{i}" for i in range(tops))
    return Layer("it", kind, *names, _fields(_TOKEN.findall(params)[::-1]), blobs, (), 1, phase)


def node(lowered: Lowered, bottoms: list[Shape]) -> Node:
    """The operator that the reader makes of it."""
    read = [bottoms[i] for i in lowered.reads] if lowered.reads is not None else bottoms
    inputs = [Tensor(f"x{i}", shape, "float32") for i, shape in enumerate(lowered.inputs or read)]
    stored = [Tensor(role, shape, "float32", kind) for role, shape, kind in lowered.weights]
    outputs = [Tensor(f"y{i}", shape, "float32") for i, shape in enumerate(lowered.outputs)]
    return Node(lowered.op, "it", (*inputs, *stored), tuple(outputs), lowered.attrs)


def one(kind: str, params: str, bottoms: list[Any], tops: int = 1, **told: Any) -> Lowered:
    (lowered,) = lower(layer(kind, params, len(bottoms), tops, **told), bottoms, {})
    return lowered
