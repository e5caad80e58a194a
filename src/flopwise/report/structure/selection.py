"""The layers of a profile that words choose: an operator, a module, a layer, a kind of work, or a pattern of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from flopwise.errors import InputError, did_you_mean
from flopwise.graph.names import layer_kind
from flopwise.report.structure import wiring
from flopwise.report.structure.kinds import KINDS, kinds_of
from flopwise.report.structure.modules import groups
from flopwise.rows import Row

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile


def selected(profile: Profile, words: Sequence[str]) -> tuple[Row, ...]:
    """The rows that one of the words fits, without regard to case, in the order of execution.

    A kind of work, as the colours of a page show it, stands for itself. Any other word fits the name of a layer, its
    operator, and the path or the class of a module around it; with ``*``, ``?`` or ``[...]`` it is a pattern of these.

    Raises:
        InputError: a word fits no layer.
    """
    kinds = _kinds_of_work(profile) if any(word.lower() in KIND_WORDS for word in words) else []
    names = [set(_names(row, profile)) for row in profile.rows]
    chosen: set[int] = set()
    for word in words:
        lowered = word.lower()
        own: Sequence[Collection[str]] = kinds if lowered in KIND_WORDS else names
        fitting = {index for index, words_of_layer in enumerate(own) if any(_fits(w, lowered) for w in words_of_layer)}
        if not fitting and lowered in KIND_WORDS:
            there = dict.fromkeys(name for each in kinds for name in each)
            raise InputError(f"--only {word}: no layer does work of this kind; the kinds here: {', '.join(there)}")
        if not fitting:
            near = did_you_mean(lowered, {name for each in names for name in each} | {*KIND_WORDS})
            choices = f"operators, layers, paths and classes of modules, and {', '.join(KIND_WORDS)}"
            raise InputError(f"--only {word}: fits no layer{near or ';'} known: {choices}")
        chosen |= fitting
    return tuple(row for index, row in enumerate(profile.rows) if index in chosen)


def _fits(name: str, word: str) -> bool:
    return name == word or fnmatchcase(name, word)


def _names(row: Row, profile: Profile) -> Iterator[str]:
    """The names of a layer: its own, those of its operator, and those of the modules around it."""
    node = row.node
    yield from (name.lower() for name in (row.name, row.type, node.op, layer_kind(node, profile.graph)))
    for module in node.scope:
        yield from (name.lower() for name in (module.path, module.kind) if name)


def _words(kind: str) -> list[str]:
    """The words for a kind of work: "pooling, reduction" has two."""
    return kind.lower().split(", ")


#: The words for kinds of work.
KIND_WORDS = tuple(word for kind in KINDS for word in _words(kind))


def _kinds_of_work(profile: Profile) -> list[list[str]]:
    """The words for the kind of work of each row."""
    nodes = [row.node for row in profile.rows]
    makers = wiring.makers(wiring.edges(profile.graph, nodes), len(nodes))
    names = [row.name for row in profile.rows]
    modules, owners = groups("", [node.scope for node in nodes], [node.op for node in nodes], names)
    return [_words(KINDS[kind]) for kind in kinds_of(nodes, profile.rows, modules, owners, makers)]
