"""The multiply-adds that a result needs, row by row: never more than the program executes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from flopwise.graph import STORED, Dim, Node
from flopwise.operators.folding import constant
from flopwise.operators.masks import ABSORBED
from flopwise.operators.tables import row as row_of
from flopwise.profiles.profile import Profile
from flopwise.rows import Row
from flopwise.storage.attention import is_fused, unfused_attention

# Attention over latents: what a step costs after a rewrite that engines do and the model's own program does not.
#
# Multi-head latent attention keeps one latent of R elements for each token and expands it to the keys and values of H
# heads, for the whole context and anew in each step. Engines multiply the queries with the expansion's key part (N
# elements for each head) and the result with its value part (V) instead: for each of T new tokens and C tokens of
# context, H × (T N R + T C (R + P) + T C R + T R V), P being the rotated part that all heads share.
#
# Source: DeepSeek-V2, https://arxiv.org/abs/2405.04434, section 2.1.2.


#: The names of the rewrites.
ABSORB_MLA = "absorb-mla"
REWRITES = (ABSORB_MLA,)


@dataclass(frozen=True)
class Latent:
    """An attention over latents: the product that expands them for every token of the context, and the attention."""

    expansion: Row
    attention: Row

    def absorbed(self, pairs_left: bool) -> tuple[int, int]:
        """Multiply-accumulates with the expansion absorbed: of products with its weight, and of attention over latents.

        Args:
            pairs_left: whether only the pairs count that the masks leave.
        """
        query, value = self.attention.node.input(0).dims, self.attention.node.input(2).dims
        batch, heads, new, width = (int(n) for n in query)
        context, of_value = int(value[2]), int(value[3])
        latent = int(self.expansion.node.input(0).dims[-1])
        of_key = int(self.expansion.node.output().dims[-1]) // heads - of_value
        pairs = batch * heads * new * context
        if pairs_left:
            pairs = pairs * (self.attention.needed_macs or 0) // max(self.attention.macs or 0, 1)
        return batch * heads * new * latent * (of_key + of_value), pairs * (2 * latent + width - of_key)


def absorbed_mla(profile: Profile) -> int | None:
    """Multiply-accumulates of a step with the expansion of its latents absorbed, if it does not absorb it itself; None
    where there are no latents."""
    pairs = list(latents(profile))
    if not pairs:
        absorbed = any(row.node.attrs.get(ABSORBED) for row in profile.rows)
        return profile.total("macs") if absorbed else None
    executed = sum((pair.expansion.macs or 0) + (pair.attention.macs or 0) for pair in pairs)
    return (
        profile.total("macs")
        - executed
        + sum(pair.attention.node.copies * sum(pair.absorbed(pairs_left=False)) for pair in pairs)
    )


def latents(profile: Profile) -> Iterator[Latent]:
    """The attentions whose keys and values a product makes anew from latents of the whole context."""
    products: list[Row] = []
    for row in profile.rows:
        if row.node.op in ("Gemm", "MatMul"):
            products.append(row)
        elif row.node.op == "Attention":
            match = next((p for p in reversed(products) if _expands(p.node, row.node)), None)
            if match is not None:
                yield Latent(match, row)
            products.clear()


def _expands(product: Node, attention: Node) -> bool:
    """True where a product makes keys without their rotated part, and values, for more tokens than the step feeds."""
    query, value = attention.input(0).shape, attention.input(2).shape
    latents, expanded = product.input(0).shape, product.output().shape
    if None in (query, value, latents, expanded) or len(query or ()) != 4 or len(expanded or ()) < 2:
        return False
    assert query is not None
    assert value is not None
    assert latents is not None
    assert expanded is not None
    batch, heads, new, width = query
    context, of_value = value[2], value[3]
    tokens = 1
    for size in expanded[:-1]:
        tokens = tokens * size
    of_key = expanded[-1] // heads - of_value
    return (
        context > new
        and tokens == batch * context
        and expanded[-1] % heads == 0
        and 0 < of_key < width
        and latents[-1] < heads * of_key
    )


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
