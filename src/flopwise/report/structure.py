"""The modules of a model as a tree that can be shown one level at a time, with parts that repeat folded."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from flopwise.errors import InputError, did_you_mean
from flopwise.graph import STORED, Graph, Module, Node
from flopwise.graph.graph import Shape
from flopwise.graph.names import layer_kind
from flopwise.operators.tables import find
from flopwise.rows import Row, Sum, add_up

if TYPE_CHECKING:
    from flopwise.profiles.profile import Profile

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


# The modules of a model with their sums, where modules that repeat are one line: "22 × LlamaDecoderLayer".


class Folded(NamedTuple):
    """A module, or modules that repeat, with the sum of all their layers."""

    sum: Sum
    #: How often what lies below it comes, of which the lines below show one; 1 for a module.
    times: int


def folded(graph: Graph, rows: Sequence[Row], depth: int | None = None) -> list[Folded]:
    """The modules in the order of execution, the model first, so many levels deep.

    Args:
        graph: the model.
        rows: its layers.
        depth: how many levels of modules to show; None for all.
    """
    nodes = [row.node for row in rows]
    sources = makers(edges(graph, nodes), len(nodes))
    alike = Layers([likeness(node, row) for node, row in zip(nodes, rows, strict=True)], sources)
    root = parts_of("", [node.scope for node in nodes], [node.op for node in nodes], [row.name for row in rows], alike)
    return list(_walk(root, rows, 0, depth))


def _walk(part: Part, rows: Sequence[Row], level: int, deepest: int | None) -> Iterator[Folded]:
    own = add_up(part.name, [rows[index] for index in layers_of(part)], part.kind, level)
    yield Folded(own, len(part.parts) // part.period if part.period else 1)
    if deepest is not None and level >= deepest:
        return
    for inner in part.parts[: part.period or None]:
        if inner.layer is None:
            yield from _walk(inner, rows, level + 1, deepest)


# The values that layers pass to one another, and what makes two layers alike.


#: From, to and shape of a value; -1 is the outside.
Edge: TypeAlias = "tuple[int, int, Shape | None]"


def edges(graph: Graph, nodes: Sequence[Node]) -> list[Edge]:
    """Each value that one layer passes to another.

    Through an operator that is not a layer, such as one on constants alone, nothing flows.
    """
    layer = {id(node): index for index, node in enumerate(nodes)}
    maker = {t.name: -1 for t in graph.inputs}
    for node in graph.nodes:
        if id(node) in layer:
            maker.update({t.name: layer[id(node)] for t in node.known_outputs})
    values: dict[Edge, None] = {}
    for index, node in enumerate(nodes):
        for tensor in node.known_inputs:
            if tensor.name in maker and maker[tensor.name] != index:
                values[maker[tensor.name], index, tensor.shape] = None
    for tensor in graph.outputs:
        if maker.get(tensor.name, -1) >= 0:
            values[maker[tensor.name], -1, tensor.shape] = None
    return list(values)


def makers(values: Sequence[Edge], layers: int) -> list[list[int]]:
    """For each layer the layers whose results it takes, from the edges between so many layers."""
    sources: list[list[int]] = [[] for _ in range(layers)]
    for maker, user, _ in values:
        if maker >= 0 and user >= 0:
            sources[user].append(maker)
    return sources


def likeness(node: Node, row: Row) -> tuple[object, ...]:
    """A key that layers share if they do the same work on tensors of the same sizes."""
    tensors = tuple(
        None if t is None else (t.shape, t.dtype, t.kind in STORED) for t in (*node.inputs, None, *node.outputs)
    )
    return node.op, node.origin, tensors, row.counts, row.times


# The kind of work of each layer, for its colour: a transformer is attention, projections and MLP, not one product.


#: Kinds of work, in the order in which the key to the colours shows them.
KINDS = (
    "convolution",
    "attention",
    "projection",
    "MLP",
    "recurrence",
    "normalisation",
    "element-wise",
    "pooling, reduction",
    "embedding",
    "movement",
    "other",
)

#: An operator's name -> its kind; the first that fits.
_OPERATORS = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"rotary|gelu|silu|positional", "element-wise"),
        (r"attention", "attention"),
        (r"conv(?!ert)|deconv", "convolution"),
        (r"lstm|gru|rnn|selective_scan|mamba|linearrecurrent", "recurrence"),
        (r"embed", "embedding"),
        (r"norm(?!al_|al$)|^lrn$", "normalisation"),
        (
            r"pool|^reduce|^arg(max|min)$|cumsum|topk|resize|upsample|interpolat|gridsample|roialign",
            "pooling, reduction",
        ),
    )
)
_MLP = re.compile(r"mlp|ffn|feed_?forward|expert|moe|intermediate|densereludense", re.IGNORECASE)
_NORM = re.compile(r"norm|(^|[._/ ])(ln|bn)(_?\d+)?( |$)", re.IGNORECASE)

#: So many layers that are no products may stand between the softmax of an attention and its products, and between an
#: attention and its projections.
_NEAR, _FAR = 8, 24

#: A module with no more attentions than this is a block: one of a sequence to itself, and one to another sequence.
BLOCK = 2


def kinds_of(
    nodes: Sequence[Node],
    rows: Sequence[Row],
    groups: Sequence[Group],
    owners: Sequence[int],
    makers: Sequence[Sequence[int]],
) -> list[int]:
    """For each layer the index of its kind in ``KINDS``.

    Args:
        nodes: the layers.
        rows: a row for each of them.
        groups: modules, each after the one around it.
        owners: the module of each layer.
        makers: for each layer the layers whose results it takes.
    """
    products = [_product(node, row) for node, row in zip(nodes, rows, strict=True)]
    users: list[list[int]] = [[] for _ in nodes]
    for index, sources in enumerate(makers):
        for maker in sources:
            users[maker].append(index)
    named = [_kind_by_name(node, row) for node, row in zip(nodes, rows, strict=True)]
    attention = _pairs(nodes, products, makers, users) | {i for i, kind in enumerate(named) if kind == "attention"}
    projections = {
        index
        for start in attention
        for ways in (makers, users)
        for index in _reached(start, ways, products, "weights", _FAR)
    }
    cores = Counter(
        module
        for index in attention
        if products[index] != "pair" or named[index] == "attention"
        for module in _around(owners[index], groups)
    )
    attentive = {module for module, many in cores.items() if many <= BLOCK}
    words = [f"{group.name} {group.kind}" for group in groups]

    def kind(index: int) -> str:
        around = list(_around(owners[index], groups))
        norm = bool(around and _NORM.search(words[around[0]]))
        if index in attention:
            return "attention"
        if name := named[index]:
            return "normalisation" if norm and name == "pooling, reduction" else name
        if products[index]:
            block = products[index] == "weights" and not attentive.isdisjoint(around)
            mlp = block or any(_MLP.search(words[at]) for at in around)
            return "MLP" if mlp and index not in projections else "projection"
        return _kind_by_work(nodes[index], rows[index], norm)

    return [KINDS.index(kind(index)) for index in range(len(nodes))]


def _kind_by_name(node: Node, row: Row) -> str:
    """The kind of work that the name of a layer's operator tells; "" where it tells none."""
    name = node.op.rpartition("::")[2]
    kind = next((kind for pattern, kind in _OPERATORS if pattern.search(name)), "")
    multiplies = row.counts is None or bool(row.counts.mac)
    return "" if kind == "convolution" and not multiplies else kind


def _kind_by_work(node: Node, row: Row, norm: bool) -> str:
    """The kind of a layer that is no product and whose operator's name says nothing.

    Args:
        node: the layer.
        row: its figures.
        norm: whether it is a part of a normalisation.
    """
    if row.counts is None:
        return "other"
    if _embeds(node):
        return "embedding"
    if _moves(node, row):
        return "movement"
    return "normalisation" if norm else "element-wise"


def _product(node: Node, row: Row) -> str:
    """The operands of a layer's products: stored weights ("weights"), or activations alone ("pair"); "" without any."""
    if row.counts is None or not row.counts.mac:
        return ""
    matrices = [t for t in node.known_inputs if t.shape is None or len(t.shape) > 1]
    return "weights" if any(t.kind in STORED for t in matrices) else "pair"


def _around(owner: int, groups: Sequence[Group]) -> Iterator[int]:
    """The modules around a layer, the innermost first, without the model itself."""
    at: int | None = owner
    while at is not None and groups[at].parent is not None:
        if groups[at].period == 0 and not groups[at].run:
            yield at
        at = groups[at].parent


def _pairs(
    nodes: Sequence[Node], products: Sequence[str], makers: Sequence[Sequence[int]], users: Sequence[Sequence[int]]
) -> set[int]:
    """The layers of attentions that are written out: products of activations with a softmax between them, and that."""
    pairs: set[int] = set()
    for index, node in enumerate(nodes):
        if node.op.rpartition("::")[2].lower().endswith("softmax"):
            before, after = (_reached(index, ways, products, "pair", _NEAR) for ways in (makers, users))
            if before and after:
                pairs |= {index} | before | after
    return pairs


def _reached(start: int, ways: Sequence[Sequence[int]], products: Sequence[str], operands: str, steps: int) -> set[int]:
    """The products of a kind that are a few steps away, through layers that are not products."""
    front, seen, reached = [start], {start}, set()
    for _ in range(steps):
        front = [to for at in front for to in ways[at] if to not in seen]
        seen.update(front)
        reached |= {at for at in front if products[at] == operands}
        front = [at for at in front if not products[at]]
    return reached


def _embeds(node: Node) -> bool:
    """True for a layer that picks rows of a stored table."""
    data = node.inputs[0] if node.inputs else None
    return "gather" in node.op.lower() and data is not None and data.kind == "weight" and len(data.shape or ()) > 1


def _moves(node: Node, row: Row) -> bool:
    """True for a layer that computes nothing: it copies, rearranges or carries."""
    operator = find(node.op)
    if operator is not None and (operator.claim == "nothing" or operator.carries):
        return True
    return row.counts is not None and not any(row.counts)


# The layers of a profile that words choose: an operator, a module, a layer, a kind of work, or a pattern of them.


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
    sources = makers(edges(profile.graph, nodes), len(nodes))
    names = [row.name for row in profile.rows]
    modules, owners = groups("", [node.scope for node in nodes], [node.op for node in nodes], names)
    return [_words(KINDS[kind]) for kind in kinds_of(nodes, profile.rows, modules, owners, sources)]
