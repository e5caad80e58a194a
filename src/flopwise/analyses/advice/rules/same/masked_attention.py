"""Pairs of a query and a key that are multiplied, and then masked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flopwise.analyses.advice.rule import Change, Rule
from flopwise.analyses.advice.subject import Subject, chain
from flopwise.graph import Node, Tensor
from flopwise.memory.attention import unfused_attention
from flopwise.operators.tables import row

#: What is added to a masked score is less than this.
MASKED = -1e4


def find(subject: Subject) -> Iterator[Change]:
    """Attentions operator by operator under a stored mask."""
    macs = {id(row.node): row.macs or 0 for row in subject.profile.rows}
    for attention in unfused_attention(subject.graph):
        left = attention.left
        if left is None:
            share = _masked_share(subject, subject.nodes[attention.scores[0]].output())
            left = attention.pairs - round(share * attention.pairs)
        if left >= attention.pairs:
            continue
        executed = sum(macs.get(id(subject.nodes[place]), 0) for place in attention.places)
        gone = attention.pairs - left
        text = f"{gone:,} of {attention.pairs:,} pairs are multiplied, and then masked"
        yield Change(attention.places, text, vain=executed * gone // attention.pairs)


def _masked_share(subject: Subject, scores: Tensor) -> float:
    """The share of pairs that stored masks between the scores and their Softmax take out; 0.0 where none is stored."""
    positions, _ = chain(subject, scores, lambda node, _: row(node.op).in_place)
    for position in positions:
        node = subject.nodes[position]
        for number, tensor in enumerate(node.inputs):
            stored = None if tensor is None else subject.graph.weights.get(tensor.name)
            if stored is not None and len(stored.shape) > 1:
                return _share(node, number, stored.array())
    return 0.0


def _share(node: Node, number: int, mask: Any) -> float:
    """The share of a mask that takes scores out, by the operator that it is an input of."""
    if node.op == "Where" and number == 0:
        other = node.input(2)
        masks_true = other.resolved and other.numel > 1
        return float(mask.mean() if masks_true else 1 - mask.mean())
    return float((mask <= MASKED).mean()) if node.op == "Add" and mask.dtype.kind == "f" else 0.0


RULE = Rule(
    name="masked-attention",
    about="Use a fused attention that leaves masked pairs out (is_causal, GroupQueryAttention).",
    exactness="same",
    source="arithmetic; FlashAttention (Dao et al., 2022, section 3) skips masked blocks",
    find=find,
)
