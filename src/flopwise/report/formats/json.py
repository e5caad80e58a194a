"""A profile as JSON: the stable schema, every number an integer or null."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flopwise.report.sheet.columns import COLUMNS, cell
from flopwise.report.sheet.listing import Choice
from flopwise.report.sheet.sheet import Look
from flopwise.rows import TRAINED, Sum

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

#: What is this short stands on one line.
LINE = 110

#: A mapping of more keys is never so short.
FEW = 8

_encode = json.JSONEncoder().encode


def render(profile: Profile, choice: Choice, look: Look) -> str:
    """``Profile.to_dict()``: all layers in order of execution, whatever a table would show.

    Grouped, it also holds "by" and "groups": the figures of each group under the keys of a layer.
    """
    content = profile.to_dict()
    if choice.by != "layer":
        content["by"] = choice.by
        content["groups"] = [_group(item, profile) for item in profile.by(choice.by, choice.depth)]
    return dump(content)


def _group(item: Sum, profile: Profile) -> dict[str, Any]:
    """The figures of a group; null where all of its layers are unknown, a lower bound where some are."""

    def figure(key: str) -> Any:
        return cell(COLUMNS[key], item, profile)

    return {
        "name": item.name,
        "kind": item.kind,
        "depth": item.depth,
        **{key: figure(key) for key in ("layers", "unknown", "count", "macs", "flops")},
        "ops": None if figure("macs") is None else item.counts.to_dict(),
        **{key: figure(key) for key in ("params", "buffers", "weight_bytes", "activations", "output_bytes")},
        **({key: figure(key) for key in TRAINED} if profile.training is not None else {}),
    }


def dump(content: Any) -> str:
    """JSON with an indent of 2, in which shapes, figures by class and whatever is short stand on one line.

    Only ASCII characters: others are escaped.
    """
    return _dump(content, "") + "\n"


def _figures(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(v, int) for v in value.values())


def _dump(value: Any, indent: str) -> str:
    if type(value) is int:
        return repr(value)
    inner = indent + "  "
    if isinstance(value, Mapping) and value:
        if _figures(value) or (len(value) <= FEW and "{" not in (one := _encode(value))[1:] and len(one) <= LINE):
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
