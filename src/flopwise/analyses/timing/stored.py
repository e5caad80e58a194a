"""The values of texts in a store. Anybody may have written into it: each is checked before it is believed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flopwise.analyses.timing.benchmark import Executed
from flopwise.analyses.timing.environment import Environment


class PoisonedError(ValueError):
    """A text is none that flopwise writes; the message names its column and says why."""


def environment_of(text: str) -> Environment:
    """The environment of ``environment.facts``.

    Raises:
        PoisonedError: it is none.
    """
    facts = _decoded("environment.facts", text)
    if not (isinstance(facts, Mapping) and all(isinstance(facts.get(part), Mapping) for part in ("machine", "engine"))):
        raise PoisonedError("environment.facts: names no machine and engine")
    return Environment(facts)


def nodes_of(text: str) -> tuple[Executed, ...]:
    """The executed nodes of ``program.nodes``.

    Raises:
        PoisonedError: they are none.
    """
    try:
        return tuple(map(Executed.from_dict, _decoded("program.nodes", text)))
    except TypeError as error:
        raise PoisonedError(f"program.nodes: {error}") from error


def notes_of(text: str) -> tuple[str, ...]:
    """The notes of ``program.notes``.

    Raises:
        PoisonedError: they are none.
    """
    notes = _decoded("program.notes", text)
    if not (isinstance(notes, list) and all(isinstance(note, str) for note in notes)):
        raise PoisonedError("program.notes: is no list of texts")
    return tuple(notes)


def _decoded(column: str, text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise PoisonedError(f"{column}: is no JSON, {type(error).__name__}") from error
