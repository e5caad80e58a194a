"""The multiply-adds that a result needs, row by row: never more than the program executes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flopwise.analyses.needed.latents import latents
from flopwise.graph import STORED, Dim
from flopwise.memory.attention import is_fused, unfused_attention
from flopwise.operators.folding import constant
from flopwise.operators.tables import row as row_of
from flopwise.profiles.profile import Profile

#: The number of a layer in the path of a module.
_LAYER = re.compile(r"(?:^|\.)\d+(?:\.|$)")


@dataclass(frozen=True)
class Needed:
    """The multiply-adds that a profile's results need, and the rewrites by which they are fewer than executed."""

    #: Multiply-adds by row; None where they are unknown or a formula.
    macs: tuple[int | None, ...]
    #: The same, for floors: masks that follow from positions, but are not known, leave no more than a causal one, and
    #: recurrences are left out.
    least: tuple[int | None, ...]
    #: How ``macs`` becomes less than what the program executes, and how ``least`` becomes less than that.
    rewrites: tuple[str, ...]
    floors: tuple[str, ...] = ()


def needed(profile: Profile, last_logits: bool = False) -> Needed:
    """The work that a profile's results need: pairs that masks leave, and latents absorbed where that is less.

    Args:
        profile: the program.
        last_logits: whether scores of the vocabulary count for the last position of each sequence alone.
    """
    left, causal = _masked(profile)
    macs = dict(enumerate(_number(row.needed_macs) for row in profile.rows)) | left
    rewrites: list[str] = []
    if any((macs[place] or 0) < (_number(row.macs) or 0) for place, row in enumerate(profile.rows)):
        rewrites.append("pairs that masks leave out are not multiplied")
    places = {id(row): place for place, row in enumerate(profile.rows)}
    for pair in latents(profile):
        ends = places[id(pair.expansion)], places[id(pair.attention)]
        absorbed = tuple(pair.attention.node.copies * count for count in pair.absorbed(pairs_left=True))
        if sum(absorbed) < sum(macs[place] or 0 for place in ends):
            macs.update(zip(ends, absorbed, strict=True))
            rewrites.append("latents are absorbed")
    if last_logits and (logits := logits_of(profile)) is not None and logits.positions > 1:
        macs[logits.place] = (macs[logits.place] or 0) // logits.positions
        rewrites.append("the vocabulary is scored for the last position alone")
    fewer = any(count < (macs[place] or 0) for place, count in causal.items())
    floors = ["masks that are not known leave no more than causal ones"] if fewer else []
    if scanned := _scanned(profile):
        floors.append("recurrences, which programs scan in chunks, and the convolutions before them take no time")
    least = macs | causal | dict.fromkeys(scanned, 0)
    return Needed(tuple(macs.values()), tuple(least.values()), tuple(dict.fromkeys(rewrites)), tuple(floors))


def _masked(profile: Profile) -> tuple[dict[int, int], dict[int, int]]:
    """Multiply-adds, by row, that masks of unfused attention leave, and that causal ones leave where none is known."""
    rows = {id(row.node): place for place, row in enumerate(profile.rows)}
    left: dict[int, int] = {}
    causal: dict[int, int] = {}
    for attention in unfused_attention(profile.graph):
        counts, pairs = (causal, attention.causal) if attention.left is None else (left, attention.left)
        for node in (profile.graph.nodes[n] for n in attention.places):
            if pairs is not None and id(node) in rows:
                place = rows[id(node)]
                counts[place] = (_number(profile.rows[place].macs) or 0) * pairs // max(attention.pairs, 1)
    return left, causal


def _scanned(profile: Profile) -> list[int]:
    """The places of the products by which a layer mixes tokens without attention.

    Scans in chunks multiply more than the recurrence that they stand for, the more the longer the chunks are, and the
    convolutions before them are of positions that nobody uses.
    """
    nodes = profile.graph.nodes
    attention = {n for one in unfused_attention(profile.graph) for n in one.places}
    modules = {node.module for place, node in enumerate(nodes) if is_fused(node) or place in attention}
    folding = constant(profile.graph)
    products = [(place, row) for place, row in enumerate(profile.rows) if row.macs and row.node.module not in modules]
    scans = [(place, row) for place, row in products if _LAYER.search(row.node.module) and not folding.stored(row.node)]
    mixers = {row.node.module for _, row in scans}
    convolutions = [place for place, row in products if row.node.op == "Conv" and _belongs_to(row.node.module, mixers)]
    return [*(place for place, _ in scans), *convolutions]


def _belongs_to(module: str, others: set[str]) -> bool:
    """True if a module is one of others, or a part of one."""
    return module in others or module.rpartition(".")[0] in others


def _number(count: object) -> int | None:
    return count if isinstance(count, int) else None


def _vocabularies(profile: Profile) -> set[Dim]:
    """The entries of the stored tables in which rows are looked up."""
    nodes = profile.graph.nodes
    tables = [node.input(0) for node in nodes if "picks" in row_of(node.op).effects and node.has_input(0)]
    return {table.shape[0] for table in tables if table.kind in STORED and table.shape}


@dataclass(frozen=True)
class Logits:
    """The scores of the vocabulary."""

    #: The row whose stored factor gives a score for each entry of the vocabulary.
    place: int
    #: Positions of each sequence that it scores.
    positions: int
    #: The tensors of scores, from that product to the output.
    tensors: frozenset[str]


def logits_of(profile: Profile) -> Logits | None:
    """The scores of the vocabulary; None where an output is no such score."""
    outputs, vocabularies = {tensor.name for tensor in profile.graph.outputs}, _vocabularies(profile)
    for place in reversed(range(len(profile.rows))):
        node = profile.rows[place].node
        results = {tensor.name for tensor in node.known_outputs}
        if not results & outputs:
            continue
        shape = node.output().shape
        if profile.rows[place].macs:
            if shape is None or len(shape) != 3 or shape[2] not in vocabularies or not isinstance(shape[1], int):
                return None
            scores = {t.name for row in profile.rows[place:] for t in row.node.known_outputs if t.shape == shape}
            return Logits(place, shape[1], frozenset(scores & outputs))
        outputs |= {t.name for t in node.known_inputs if t.shape == shape}
    return None
