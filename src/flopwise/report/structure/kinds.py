"""The kind of work of each layer, for its colour: a transformer is attention, projections and MLP, not one product."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from flopwise.graph import STORED, Node
from flopwise.operators.tables import find
from flopwise.report.structure.modules import Group
from flopwise.rows import Row

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
