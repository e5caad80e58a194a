"""A short notation for documents, and the JSON Schema (draft 2020-12) that it stands for.

A value is a kind and, where it is a member of an object, what it says. A kind is a text of types ("integer",
"integer|null", "text", "number", "flag"), a list with the kind of its elements, a mapping from names to members, or one
of the classes below. A name that ends in "?" may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class By:
    """An object whose keys are names that depend on the model."""

    values: Kind
    names: str = "name"


@dataclass(frozen=True)
class Maybe:
    """A kind, or null."""

    kind: Kind


@dataclass(frozen=True)
class Open:
    """An object of these members and of others, which are of one kind."""

    members: Mapping[str, Member]
    others: Kind


Kind: TypeAlias = "str | list[Any] | Mapping[str, Member] | By | Maybe | Open"
Member: TypeAlias = "tuple[Kind, str]"

_TYPES = {"text": "string", "flag": "boolean"}


def json_schema(kind: Kind) -> dict[str, Any]:
    """The JSON Schema of a kind.

    >>> json_schema("integer|null")
    {'type': ['integer', 'null']}
    >>> json_schema({"a?": ("text", "a name")})["properties"]["a"]
    {'type': 'string', 'description': 'a name'}
    """
    if isinstance(kind, str):
        types = [_TYPES.get(one, one) for one in kind.split("|")]
        return {"type": types if len(types) > 1 else types[0]}
    if isinstance(kind, list):
        return {"type": "array", "items": json_schema(kind[0])}
    if isinstance(kind, By):
        return {"type": "object", "additionalProperties": json_schema(kind.values)}
    if isinstance(kind, Maybe):
        return {"anyOf": [json_schema(kind.kind), {"type": "null"}]}
    if isinstance(kind, Open):
        return {**json_schema(kind.members), "additionalProperties": json_schema(kind.others)}
    return {
        "type": "object",
        "properties": {
            name.removesuffix("?"): {**json_schema(member), "description": words}
            for name, (member, words) in kind.items()
        },
        "required": [name for name in kind if not name.endswith("?")],
        "additionalProperties": False,
    }


def members(kind: Kind, path: str = "") -> list[tuple[str, str, str]]:
    """Path, types and description of every member of a kind, in order, for documentation.

    >>> members({"a": ([{"b?": ("integer|null", "so many")}], "some")})
    [('a', 'array', 'some'), ('a[].b', 'integer, null or absent', 'so many')]
    """
    if isinstance(kind, Maybe):
        return members(kind.kind, path)
    if isinstance(kind, list):
        return members(kind[0], f"{path}[]")
    if isinstance(kind, By):
        return members(kind.values, f"{path}.<{kind.names}>".lstrip("."))
    if isinstance(kind, Open):
        return [*members(kind.members, path), *members(By(kind.others, "other"), path)]
    if isinstance(kind, str):
        return []
    rows = []
    for name, (member, words) in kind.items():
        place = f"{path}.{name.removesuffix('?')}".lstrip(".")
        types = [*_types(member), *(["absent"] if name.endswith("?") else [])]
        rows.append((place, " or ".join(filter(None, (", ".join(types[:-1]), types[-1]))), words))
        rows += members(member, place)
    return rows


def _types(kind: Kind) -> list[str]:
    """The types of a kind in words."""
    if isinstance(kind, str):
        return kind.split("|")
    if isinstance(kind, Maybe):
        return [*_types(kind.kind), "null"]
    return ["array" if isinstance(kind, list) else "object"]
