"""A tool of the server: what it is called with, what it answers, and which lines of a long answer are left out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flopwise._results import Json
from flopwise.api.schema import schema
from flopwise.errors import InputError
from flopwise.formats.sources.location import is_code
from flopwise.report.report import Report, as_text

#: Lines of a list in an answer, unless the caller asks for more.
LAYERS = 20

#: The name of every tool's argument for that number.
MOST = "layers"


class Lines(NamedTuple):
    """A list of an answer that is as long as the model has layers."""

    #: Its key in the document.
    key: str
    #: What the largest are chosen by, in words.
    by: str
    #: The figure of a line; None where it is unknown, which comes before all others.
    figure: Callable[[Json], float | None]


class Tool(NamedTuple):
    """A question that an agent can ask."""

    #: One line about it.
    about: str
    #: Argument -> its JSON schema.
    arguments: Mapping[str, Json]
    #: The arguments that have no default.
    required: tuple[str, ...]
    #: The report for arguments by name.
    report: Callable[..., Report]
    #: The document that it answers with (``flopwise schema``); "" where it is one of several without a schema.
    document: str = ""
    #: The arguments that name models.
    models: tuple[str, ...] = ("model",)
    #: The list that is cut; None where none is long.
    lines: Lines | None = None

    @property
    def schema(self) -> Json:
        """The JSON schema of all arguments."""
        number = {"type": "integer", "minimum": 0, "default": LAYERS}
        about = f"Lines of the answer for single layers: those of the largest {self.lines and self.lines.by}."
        own = {MOST: {**number, "description": about}} if self.lines else {}
        return {
            "type": "object",
            "properties": {**self.arguments, **own},
            "required": list(self.required),
            "additionalProperties": False,
        }

    @property
    def answers(self) -> Json | None:
        """The JSON schema of the document; None where it has none. A document that is cut has notes in any case."""
        if not self.document:
            return None
        written = schema(self.document)
        notes = {"type": "array", "items": {"type": "string"}, "description": "which lines were left out"}
        return {**written, "properties": {"notes": notes, **written["properties"]}} if self.lines else written

    def answer(self, arguments: Mapping[str, Any], trust_code: bool) -> Json:
        """The JSON document of the command for arguments that fit the schema.

        Args:
            arguments: by name.
            trust_code: whether models may be code.

        Raises:
            InputError: one of them is, and may not.
            FlopwiseError: whatever the command line would say.
        """
        if not trust_code:
            self._refuse_code(arguments)
        most: int = arguments.get(MOST, LAYERS)
        chosen = {name: value for name, value in arguments.items() if name != MOST}
        document: Json = json.loads(as_text(self.report(trust_code, **chosen), "json"))
        return document if self.lines is None else _cut(document, self.lines, most)

    def _refuse_code(self, arguments: Mapping[str, Any]) -> None:
        for name in self.models:
            value = arguments.get(name)
            for model in [value] if isinstance(value, str) else value or ():
                if is_code(model):
                    raise InputError(
                        f"{model}: is code, which runs only where the server was started with --trust-code"
                    )


def _cut(document: Json, lines: Lines, most: int) -> Json:
    """The document with the largest lines alone, in the order that they had, and a note of it."""
    rows: list[Json] = document.get(lines.key, [])
    if len(rows) <= most:
        return document

    def size(place: int) -> float:
        figure = lines.figure(rows[place])
        return math.inf if figure is None else figure

    places = sorted(sorted(range(len(rows)), key=size, reverse=True)[:most])
    note = f"{lines.key}: {most:,} of {len(rows):,}, those of the largest {lines.by}; {MOST}={len(rows)} gives all"
    return {
        **document,
        lines.key: [rows[place] for place in places],
        "notes": [*document.get("notes", ()), note],
    }
