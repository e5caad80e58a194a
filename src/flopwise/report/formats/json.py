"""Plain values as JSON; which keys there are is the business of each report."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from flopwise._results import Json
from flopwise.graph import Tensor
from flopwise.report.sheet.sheet import Look

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

#: What is this short stands on one line.
LINE = 110

#: A mapping of more keys is never so short.
FEW = 8

_encode = json.JSONEncoder().encode


def parts_of(profile: Profile, keys: str) -> Json:
    """Parts of a profile's JSON by their keys, such as "model inputs"."""
    plain = profile.to_dict()
    return {key: plain[key] for key in keys.split()}


def plain_shape(tensor: Tensor) -> list[int | str] | None:
    """A tensor's shape for JSON: integers, and texts for symbolic dimensions; None where it is unknown."""
    return None if tensor.shape is None else [d if isinstance(d, int) else str(d) for d in tensor.shape]


def plain_value(value: object) -> object:
    """A value of a query as JSON has it: a Decimal as a number, what JSON does not know as text."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def render_content(content: object, look: Look | None = None) -> str:
    """JSON with an indent of 2, with shapes, figures by class and short values on one line.

    Only ASCII characters: others are escaped. How a report should look says nothing to programs.
    """
    return _dump(content, "") + "\n"


def join(texts: Sequence[str]) -> str:
    """Several reports as one array."""
    return "[\n" + ",\n".join(texts) + "\n]"


def _dump(value: object, indent: str) -> str:
    if type(value) is int:
        return repr(value)
    inner = indent + "  "
    if isinstance(value, Mapping) and value:
        figures = all(isinstance(v, int) for v in value.values())
        if figures or (len(value) <= FEW and "{" not in (one := _encode(value))[1:] and len(one) <= LINE):
            return _encode(value)
        opening, closing = "{", "}"
        parts = [f"{_key(key)}: {_dump(v, inner)}" for key, v in value.items()]
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        if not isinstance(value[0], Mapping) and len(one := _encode(value)) <= LINE:
            return one
        opening, closing = "[", "]"
        parts = [_dump(v, inner) for v in value]
    else:
        return _encode(value)
    return f"{opening}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{closing}"


@functools.lru_cache(maxsize=256)
def _key(key: str) -> str:
    return _encode(str(key))
