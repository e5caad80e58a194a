"""Pairs of a query and a key that are multiplied, and then masked."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.analyses.advice.attention import pairs_used
from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject
from flopwise.memory.attention import unfused_attention


def find(subject: Subject) -> Iterator[Change]:
    """Attentions operator by operator under a stored mask."""
    macs = {id(row.node): row.macs or 0 for row in subject.profile.rows}
    for attention in unfused_attention(subject.graph):
        gone = attention.pairs - pairs_used(subject, attention)
        if gone <= 0:
            continue
        executed = sum(macs.get(id(subject.nodes[place]), 0) for place in attention.places)
        text = f"{gone:,} of {attention.pairs:,} pairs are multiplied, and then masked"
        yield Change(attention.places, text, vain=executed * gone // attention.pairs)


RULE = Rule(
    name="masked-attention",
    about="Use a fused attention that leaves masked pairs out (is_causal, GroupQueryAttention).",
    exactness="same",
    source="arithmetic; FlashAttention (Dao et al., 2022, section 3) skips masked blocks",
    find=find,
    code=lambda change: "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
)
