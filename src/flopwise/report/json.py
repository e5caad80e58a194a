"""A profile as JSON: the stable schema, every number an integer or null."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flopwise.report.columns import COLUMNS, cell
from flopwise.report.listing import Choice
from flopwise.report.sheet import Look
from flopwise.rows import Sum

if TYPE_CHECKING:
    from flopwise.profiles import Profile

#: What is this short stands on one line.
LINE = 110


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
    }


def dump(content: Any) -> str:
    """JSON with an indent of 2, in which shapes, figures by class and whatever is short stand on one line.

    Only ASCII characters: others are escaped.
    """
    return _dump(content, "") + "\n"


def _figures(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(v, int) for v in value.values())


def _dump(value: Any, indent: str) -> str:
    if isinstance(value, Mapping) and value:
        opening, closing = "{", "}"
        parts = [f"{json.dumps(str(key))}: {_dump(v, indent + '  ')}" for key, v in value.items()]
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        opening, closing = "[", "]"
        parts = [_dump(v, indent + "  ") for v in value]
    else:
        return json.dumps(value)
    one = f"{opening}{', '.join(parts)}{closing}"
    if (len(one) <= LINE and "\n" not in one and "{" not in one[1:]) or _figures(value):
        return one
    inner = indent + "  "
    return f"{opening}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{closing}"
