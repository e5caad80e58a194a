"""The modules of a model as a tree that can be shown one level at a time, with parts that repeat folded."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from flopwise.graph import Module

#: The longest name of a run that is made of the names of its first and last part.
SHORT = 16

#: A module with more parts than this is cut into runs of parts, so that no level needs a graph of thousands of boxes.
MOST = 60

#: The longest sequence of parts that is looked for as one period.
LONGEST = 40

#: A period in which no part has so many layers, such as a projection with its Reshape, is folded only when it comes
#: ``OFTEN`` times.
FEW, OFTEN = 3, 6


@dataclass(slots=True, eq=False)
class Part:
    """A module with its parts in the order in which they first run, or a layer."""

    name: str
    kind: str = ""
    layer: int | None = None
    #: Whether it is a run of consecutive parts and no module of the model.
    run: bool = False
    #: Of parts that repeat: how many of them are one period; 0 for everything else.
    period: int = 0
    parts: list[Part] = field(default_factory=list)
    modules: dict[str, Part] = field(default_factory=dict)


@dataclass(frozen=True)
class Layers:
    """The facts by which layers are alike."""

    #: For each layer what it must have in common with another one: operator, shapes, work.
    likeness: Sequence[Hashable]
    #: For each layer the layers whose results it takes.
    inputs: Sequence[Sequence[int]]


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
    name: str,
    scopes: Sequence[Sequence[Module]],
    ops: Sequence[str],
    names: Sequence[str],
    layers: Layers | None = None,
) -> tuple[list[Group], list[int]]:
    """The modules, the model itself first and each after the one around it; and the module of each layer, by index.

    Where the model names no modules, the paths in the names of its layers take their place ("inception_3a/1x1"). Parts
    that repeat are parts of a group of their own.

    Args:
        name: of the model.
        scopes: for each layer the modules around it, the outermost first.
        ops: the operator of each layer.
        names: what each layer is called.
        layers: what makes layers alike; None: nothing repeats.
    """
    root = parts_of(name, scopes, ops, names, layers)
    tree: list[Group] = []
    owners = [0] * len(names)
    pending: list[tuple[Part, int | None]] = [(root, None)]
    while pending:
        part, parent = pending.pop()
        own = len(tree)
        tree.append(Group(part.name, part.kind, parent, part.run, part.period))
        part.parts = _in_runs(part.parts)
        for inner in part.parts:
            if inner.layer is not None:
                owners[inner.layer] = own
        pending += [(inner, own) for inner in reversed(part.parts) if inner.layer is None]
    return tree, owners


def parts_of(
    name: str,
    scopes: Sequence[Sequence[Module]],
    ops: Sequence[str],
    names: Sequence[str],
    layers: Layers | None = None,
) -> Part:
    """The model as a part with all others in it; the arguments are those of ``groups``."""
    root = Part(name)
    paths = [tuple(module for module in scope if module.path) for scope in scopes]
    if not any(paths):
        paths = _prefixes(names)
    for index, path in enumerate(paths):
        around = root
        for module in path:
            if module.path not in around.modules:
                around.modules[module.path] = Part(_short(module.path), module.kind)
                around.parts.append(around.modules[module.path])
            around = around.modules[module.path]
        around.parts.append(Part(names[index], ops[index], layer=index))
    if layers is not None:
        fold(root, layers)
    return root


def _prefixes(names: Sequence[str]) -> list[tuple[Module, ...]]:
    """The paths before the last "/" of each name, as modules, where more than one layer shares them."""
    often = Counter(prefix for name in names for prefix in _beginnings(name))
    return [tuple(Module(prefix, "") for prefix in _beginnings(name) if often[prefix] > 1) for name in names]


def _beginnings(name: str) -> Iterator[str]:
    parts = name.strip("/").split("/")[:-1]
    for count in range(1, min(len(parts), 12) + 1):
        yield "/".join(parts[:count])


def _short(path: str) -> str:
    """The path as seen from the module around it."""
    for mark in (".", "/"):
        head, _, tail = path.rpartition(mark)
        if head and tail:
            return tail
    return path


def _in_runs(parts: list[Part]) -> list[Part]:
    """The parts, or as few runs of them as fit, each of about the same length."""
    while len(parts) > MOST:
        levels = math.ceil(math.log(len(parts), MOST))
        size = math.ceil(len(parts) ** (1 / levels))
        runs = [parts[start : start + size] for start in range(0, len(parts), size)]
        parts = [run[0] if len(run) == 1 else Part(_run_name(run), run=True, parts=run) for run in runs]
    return parts


def _run_name(run: list[Part]) -> str:
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


def fold(root: Part, layers: Layers) -> None:
    """Put parts that repeat, one period after the other with the same layers wired alike, into a part of their own."""
    order: list[Part] = [root]
    for part in order:
        order += (inner for inner in part.parts if inner.layer is None)
    likeness: dict[int, int] = {}
    numbers: dict[Hashable, int] = {}
    sizes: dict[int, int] = {}

    def number(part: Part) -> int:
        if part.layer is not None:
            return numbers.setdefault(("layer", layers.likeness[part.layer]), len(numbers))
        return likeness[id(part)]

    for part in reversed(order):
        alike = [number(inner) for inner in part.parts]
        likeness[id(part)] = numbers.setdefault((part.kind, tuple(alike)), len(numbers))
        sizes[id(part)] = sum(1 if inner.layer is not None else sizes[id(inner)] for inner in part.parts)
        own = [1 if inner.layer is not None else sizes[id(inner)] for inner in part.parts]
        part.parts = list(_folded(part.parts, alike, own, layers.inputs, part.name))


def _folded(
    parts: Sequence[Part], alike: Sequence[int], sizes: Sequence[int], inputs: Sequence[Sequence[int]], around: str
) -> Iterator[Part]:
    at = 0
    ends: dict[int, int] = {}
    while at < len(parts):
        period, times = _longest_period(alike, sizes, at, ends)
        if times:
            times = _wired_alike(parts[at : at + period * times], period, inputs)
        if times > 1 and _worth_folding(sizes[at : at + period], times):
            repeated = list(parts[at : at + period * times])
            at += len(repeated)
            yield Part(*_title(repeated, period, around), period=period, parts=repeated)
        else:
            yield parts[at]
            at += 1


def _longest_period(alike: Sequence[int], sizes: Sequence[int], at: int, ends: dict[int, int]) -> tuple[int, int]:
    """The period that begins here and repeats over most parts, the shortest of those, and how often it comes.

    ``ends`` remembers for each period where its repetition ends: from each part in it that is the same place.
    """
    best, most = (0, 0), 0
    for period in range(1, min(LONGEST, (len(alike) - at) // 2) + 1):
        if alike[at] != alike[at + period]:
            continue
        end = max(at + period, ends.get(period, 0))
        while end < len(alike) and alike[end] == alike[end - period]:
            end += 1
        ends[period] = end
        times = (end - at) // period
        if times > 1 and times * period > most and _worth_folding(sizes[at : at + period], times):
            best, most = (period, times), times * period
    return best


def _worth_folding(sizes: Sequence[int], times: int) -> bool:
    """True where a part of the period is large, or the period comes often."""
    return max(sizes) >= FEW or times >= OFTEN


def _wired_alike(parts: Sequence[Part], period: int, inputs: Sequence[Sequence[int]]) -> int:
    """The number of periods, from the first one, that take their inputs from the same places inside themselves."""
    first = _wires(parts[:period], inputs)
    times = len(parts) // period
    for index in range(1, times):
        if _wires(parts[index * period : (index + 1) * period], inputs) != first:
            return index
    return times


def _wires(parts: Sequence[Part], inputs: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each layer the places of those of its inputs that are made in these parts."""
    layers = sorted(layer for part in parts for layer in layers_of(part))
    place = {layer: index for index, layer in enumerate(layers)}
    return [[place[maker] for maker in inputs[layer] if maker in place] for layer in layers]


def layers_of(part: Part) -> Iterator[int]:
    """The layers in a part."""
    pending = [part]
    while pending:
        now = pending.pop()
        if now.layer is not None:
            yield now.layer
        pending += now.parts


def _title(parts: Sequence[Part], period: int, around: str) -> tuple[str, str]:
    """The title of parts that repeat ("22 × LlamaDecoderLayer") and their span ("0 … 21").

    Modules without a class are called by the name of the module around them.
    """
    times = f"{len(parts) // period:,} × "
    one = parts[:period]
    span = f"{parts[0].name} … {parts[-1].name}"
    kinds = list(dict.fromkeys(part.kind for part in one))
    if period == 1:
        own = around if parts[0].name.isdecimal() else ""
        return (times + (kinds[0] or own), span) if kinds[0] or own else (times + span, "")
    if len(kinds) == 1 and kinds[0]:
        return f"{times}{period} {kinds[0]}", span
    if all(kinds):
        return f"{times}({', '.join(kinds[:3])}{' …' if len(kinds) > 3 else ''})", span
    return f"{times}{period} parts", span
