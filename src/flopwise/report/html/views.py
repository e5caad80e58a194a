"""The same graph in every convention that counts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flopwise.conventions import CONVENTIONS
from flopwise.errors import FlopwiseError

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile


@dataclass(frozen=True, eq=False)
class Views:
    """Profiles of one graph by the name of their convention, and why other conventions are left out."""

    profiles: dict[str, Profile]
    refused: dict[str, str]
    #: Of a training step, by convention: the backward pass of each node by its identity. A convention that says nothing
    #: of a backward pass is not in it.
    backward: dict[str, dict[int, int | None]]


def views(profile: Profile) -> Views:
    """The profile and its graph in every other convention that refuses no operator which flopwise itself can count."""
    from flopwise.profiles.count import Canonical, profile_graph

    first = profile.convention.name
    counted = {first: profile}
    refused: dict[str, str] = {}
    shared: dict[int, Canonical] = {}
    trained = profile.training is not None
    symbols = any(not isinstance(dim, int) for tensor in profile.graph.inputs for dim in tensor.shape or ())
    for name in CONVENTIONS:
        if name == first:
            continue
        if symbols and not CONVENTIONS[name].plain:
            refused[name] = "its rules need numbers, and this model has open dimensions"
            continue
        whole = CONVENTIONS[name].whole
        if whole is not None and not whole.programs and (reasons := list(whole.remarks(profile.graph))):
            refused[name] = reasons[0]  # a formula of language models, and this is none that it is for
            continue
        try:
            other = profile_graph(
                profile.graph, CONVENTIONS[name], profile.rules, profile.folding, trained, shared=shared
            )
        except FlopwiseError as error:
            refused[name] = str(error)
            continue
        lost = sorted({r.node.op for r in other.rows if r.count is None and r.counts is not None})
        if lost:
            refused[name] = f"cannot count {', '.join(lost[:4])}{' and others' if len(lost) > 4 else ''}"
        else:
            counted[name] = other
    order = [name for name in CONVENTIONS if name in counted]
    seen = {name: counted[name] for name in dict.fromkeys([*order, first])}
    backward = {name: own for name, view in seen.items() if trained and (own := _backward(view, profile)) is not None}
    return Views(seen, refused, backward)


def _backward(view: Profile, profile: Profile) -> dict[int, int | None] | None:
    """The backward pass of each node in the convention of a view; None when the convention defines none."""
    convention = view.convention
    if convention.plain:
        canonical = {id(row.node): row.backward_counts for row in reversed(profile.rows)}
        return {key: None if counts is None else counts.dot(convention.weights) for key, counts in canonical.items()}
    if convention.backward is None:
        return None
    if view.training is None:
        from flopwise.analyses.training.step import train

        view = train(view)
    return {id(row.node): row.backward for row in reversed(view.rows)}
