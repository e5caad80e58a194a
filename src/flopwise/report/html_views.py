"""The same graph in every convention that counts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flopwise.conventions import CONVENTIONS
from flopwise.errors import FlopwiseError

if TYPE_CHECKING:
    from flopwise.profiles import Profile


@dataclass(frozen=True, eq=False)
class Views:
    """Profiles of one graph by the name of their convention, and why other conventions are left out."""

    profiles: dict[str, Profile]
    refused: dict[str, str]


def views(profile: Profile) -> Views:
    """The profile and its graph in every other convention that refuses no operator which flopwise itself can count."""
    from flopwise.profiles import profile_graph

    first = profile.convention.name
    found = {first: profile}
    refused: dict[str, str] = {}
    symbols = any(not isinstance(dim, int) for tensor in profile.graph.inputs for dim in tensor.shape or ())
    for name in CONVENTIONS:
        if name == first:
            continue
        if symbols and not CONVENTIONS[name].plain:
            refused[name] = "its rules need numbers, and this model has open dimensions"
            continue
        try:
            other = profile_graph(profile.graph, CONVENTIONS[name], profile.rules, profile.folding)
        except FlopwiseError as error:
            refused[name] = str(error)
            continue
        lost = sorted({r.node.op for r in other.rows if r.count is None and r.counts is not None})
        if lost:
            refused[name] = f"cannot count {', '.join(lost[:4])}{' and others' if len(lost) > 4 else ''}"
        else:
            found[name] = other
    order = [name for name in CONVENTIONS if name in found]
    return Views({name: found[name] for name in dict.fromkeys([*order, first])}, refused)
