"""Pairs of a query and a key that are multiplied, and then masked."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.analyses.advice.attention import is_causal, masked_pairs, pairs_used
from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject
from flopwise.graph import Node
from flopwise.memory.attention import Unfused, unfused_attention


def find(subject: Subject) -> Iterator[Change]:
    """Attentions operator by operator under a stored mask."""
    macs = {id(row.node): row.macs or 0 for row in subject.profile.rows}
    for attention in unfused_attention(subject.graph):
        gone = attention.pairs - pairs_used(subject, attention)
        if gone <= 0:
            continue
        executed = sum(macs.get(id(subject.nodes[place]), 0) for place in attention.places)
        text = f"{gone:,} of {attention.pairs:,} pairs are multiplied, and then masked"
        yield Change(attention.places, text, _fused(subject, attention), vain=executed * gone // attention.pairs)


def _fused(subject: Subject, attention: Unfused) -> tuple[Node, ...]:
    """A fused attention that leaves the pairs out, where the mask is causal; () under other masks."""
    flags = masked_pairs(subject, attention)
    if flags is None or not is_causal(flags):
        return ()
    scores, sums = subject.nodes[attention.scores[0]], subject.nodes[attention.sums[-1]]
    tensors = (scores.input(0), scores.input(1), sums.input(1))
    return (Node("Attention", scores.name, tensors, sums.outputs, {"is_causal": 1}),)


def _code(change: Change) -> str:
    """A causal attention in PyTorch's words; "" for other masks."""
    if not change.after:
        return ""
    fused = "F.scaled_dot_product_attention(q, k, v, is_causal=True)"
    return f"{fused} in place of (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(mask, float('-inf')).softmax(-1) @ v"


RULE = Rule(
    name="masked-attention",
    about="Use a fused attention that leaves masked pairs out (is_causal, GroupQueryAttention).",
    exactness="same",
    source="arithmetic; FlashAttention (Dao et al., 2022, section 3) skips masked blocks",
    find=find,
    code=_code,
)
