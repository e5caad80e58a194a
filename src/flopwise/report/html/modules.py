"""The modules of a model as a tree that a page can show one level at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flopwise.graph import Module, Node
from flopwise.report.html.folds import Layers, Part, fold

#: The longest name of a run that is made of the names of its first and last part.
SHORT = 16

#: A module with more parts than this is cut into runs of parts, so that no level needs a graph of thousands of boxes.
MOST = 60


class Group(NamedTuple):
    """A module, or a run of consecutive parts of one."""

    name: str
    #: Class of the module; "" when it is unknown.
    kind: str
    #: Index of the module around it; None for the model itself.
    parent: int | None
    #: Whether it is a run of parts and no module of the model.
    run: bool
    #: Of parts that repeat: how many of them are one period; 0 for a module and a run.
    period: int = 0


def groups(
    name: str, nodes: Sequence[Node], names: Sequence[str], layers: Layers | None = None
) -> tuple[list[Group], list[int]]:
    """The modules, the model itself first and each after the one around it; and the module of each layer, by index.

    Where the model names no modules, the paths in the names of its layers take their place ("inception_3a/1x1"). Parts
    that repeat are parts of a group of their own.

    Args:
        name: of the model.
        nodes: the layers.
        names: what each layer is called.
        layers: what makes layers alike; None: nothing repeats.
    """
    root = Part(name)
    paths = [_path(node.scope) for node in nodes]
    if not any(paths):
        paths = _prefixes(names)
    for index, path in enumerate(paths):
        around = root
        for module in path:
            if module.path not in around.modules:
                around.modules[module.path] = Part(_short(module.path, around), module.kind)
                around.parts.append(around.modules[module.path])
            around = around.modules[module.path]
        around.parts.append(Part(names[index], nodes[index].op, layer=index))
    if layers is not None:
        fold(root, layers)
    found: list[Group] = []
    owners = [0] * len(nodes)
    pending: list[tuple[Part, int | None]] = [(root, None)]
    while pending:
        part, parent = pending.pop()
        own = len(found)
        found.append(Group(part.name, part.kind, parent, part.run, part.period))
        part.parts = _in_runs(part.parts)
        for inner in part.parts:
            if inner.layer is not None:
                owners[inner.layer] = own
        pending += [(inner, own) for inner in reversed(part.parts) if inner.layer is None]
    return found, owners


def _path(scope: Sequence[Module]) -> tuple[Module, ...]:
    return tuple(module for module in scope if module.path)


def _prefixes(names: Sequence[str]) -> list[tuple[Module, ...]]:
    """What stands before the last "/" of each name, where more than one layer shares it."""
    found: list[tuple[Module, ...]] = []
    often: dict[str, int] = {}
    for name in names:
        for prefix in _beginnings(name):
            often[prefix] = often.get(prefix, 0) + 1
    for name in names:
        found.append(tuple(Module(prefix, "") for prefix in _beginnings(name) if often[prefix] > 1))
    return found


def _beginnings(name: str) -> Iterator[str]:
    parts = name.strip("/").split("/")[:-1]
    for count in range(1, min(len(parts), 12) + 1):
        yield "/".join(parts[:count])


def _short(path: str, around: Part) -> str:
    """The path as seen from the module around it, of which ``modules`` are not yet asked."""
    for mark in (".", "/"):
        head, found, tail = path.rpartition(mark)
        if found and head and tail:
            return tail
    return path


def _in_runs(parts: list[Part]) -> list[Part]:
    """The parts, or as few runs of them as fit, each of about the same length."""
    while len(parts) > MOST:
        levels = math.ceil(math.log(len(parts), MOST))
        size = math.ceil(len(parts) ** (1 / levels))
        runs = [parts[start : start + size] for start in range(0, len(parts), size)]
        parts = [run[0] if len(run) == 1 else Part(_called(run), run=True, parts=run) for run in runs]
    return parts


def _called(run: list[Part]) -> str:
    """The names of the first and the last part, or, where these are long, the numbers of the first and last layer."""
    first, last = run[0], run[-1]
    name = f"{first.name} … {last.name}"
    if len(name) <= SHORT and not first.run:
        return name
    while first.layer is None:
        first = first.parts[0]
    while last.layer is None:
        last = last.parts[-1]
    return f"#{first.layer + 1}–{last.layer + 1}"
