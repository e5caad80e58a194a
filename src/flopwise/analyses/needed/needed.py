"""The multiply-adds that a result needs, row by row: never more than the program executes."""

from __future__ import annotations

from dataclasses import dataclass

from flopwise.analyses.needed.latents import latents
from flopwise.graph import STORED
from flopwise.memory.attention import unfused_attention
from flopwise.operators.tables import row as row_of
from flopwise.profiles.profile import Profile


@dataclass(frozen=True)
class Needed:
    """The multiply-adds that a profile's results need, and the rewrites by which they are fewer than executed."""

    #: Multiply-adds by row; None where they are unknown or a formula.
    macs: tuple[int | None, ...]
    #: The same, for floors: masks that follow from positions, but are not known, leave no more than a causal one.
    least: tuple[int | None, ...]
    #: How ``least`` becomes less than what the program executes.
    rewrites: tuple[str, ...]


def needed(profile: Profile, last_logits: bool = False) -> Needed:
    """The work that a profile's results need: pairs that masks leave, and latents absorbed where that is less.

    Args:
        profile: the program.
        last_logits: whether, in floors, scores of the vocabulary count for the last position of each sequence alone.
    """
    macs = [_number(row.needed_macs) for row in profile.rows]
    executed = [_number(row.macs) for row in profile.rows]
    rewrites: list[str] = []
    causal: dict[int, int] = {}
    rows = {id(row.node): place for place, row in enumerate(profile.rows)}
    for attention in unfused_attention(profile.graph):
        for place in (rows[id(profile.graph.nodes[n])] for n in attention.places if id(profile.graph.nodes[n]) in rows):
            pairs, every = max(attention.pairs, 1), executed[place] or 0
            if attention.left is not None:
                macs[place] = every * attention.left // pairs
            elif attention.causal is not None:
                causal[place] = every * attention.causal // pairs
    if any((some or 0) < (every or 0) for some, every in zip(macs, executed, strict=True)):
        rewrites.append("pairs that masks leave out are not multiplied")
    places = {id(row): place for place, row in enumerate(profile.rows)}
    for pair in latents(profile):
        ends = places[id(pair.expansion)], places[id(pair.attention)]
        absorbed = pair.absorbed(pairs_left=True)
        if sum(absorbed) < sum(macs[place] or 0 for place in ends):
            for place, count in zip(ends, absorbed, strict=True):
                macs[place] = count
            rewrites.append("latents are absorbed")
    least = [causal.get(place, count) for place, count in enumerate(macs)]
    if any(count < (macs[place] or 0) for place, count in causal.items()):
        rewrites.append("masks that are not known leave no more than causal ones")
    if last_logits and (logits := _logits(profile)) is not None:
        place, positions = logits
        least[place] = (least[place] or 0) // positions
        rewrites.append("the vocabulary is scored for the last position alone")
    return Needed(tuple(macs), tuple(least), tuple(dict.fromkeys(rewrites)))


def _number(count: object) -> int | None:
    return count if isinstance(count, int) else None


def _logits(profile: Profile) -> tuple[int, int] | None:
    """The row whose stored factor gives a score for each entry of the vocabulary, and for how many positions of each
    sequence; None where an output is no such score, or there is one position."""
    outputs, nodes = {tensor.name for tensor in profile.graph.outputs}, profile.graph.nodes
    looked_up = [node.input(0) for node in nodes if "picks" in row_of(node.op).effects and node.has_input(0)]
    vocabularies = {tensor.shape[0] for tensor in looked_up if tensor.kind in STORED and tensor.shape}
    for place in reversed(range(len(profile.rows))):
        node = profile.rows[place].node
        results = {tensor.name for tensor in node.known_outputs}
        if not results & outputs:
            continue
        shape = node.output().shape
        if profile.rows[place].macs:
            if shape is None or len(shape) != 3 or shape[2] not in vocabularies or not isinstance(shape[1], int):
                return None
            return (place, shape[1]) if shape[1] > 1 else None
        outputs |= {t.name for t in node.known_inputs if t.shape == shape}
    return None
