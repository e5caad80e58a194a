"""Pairs of a query and a key that an attention operator by operator uses, by the masks that are stored."""

from __future__ import annotations

from typing import Any

from flopwise.analyses.advice.subject import Subject, chain
from flopwise.errors import ModelError
from flopwise.graph import Node, Tensor
from flopwise.memory.attention import Unfused
from flopwise.operators.tables import row

#: What is added to a masked score is less than this.
MASKED = -1e4


def pairs_used(subject: Subject, attention: Unfused) -> int:
    """Pairs that its mask leaves; all of them where no mask is known."""
    if attention.left is not None:
        return attention.left
    share = _masked_share(subject, subject.nodes[attention.scores[0]].output())
    return attention.pairs - round(share * attention.pairs)


def _masked_share(subject: Subject, scores: Tensor) -> float:
    """The share of pairs that stored masks between the scores and their Softmax take out; 0.0 where none is stored."""
    positions, _ = chain(subject, scores, lambda node, _: row(node.op).in_place)
    for position in positions:
        node = subject.nodes[position]
        for number, tensor in enumerate(node.inputs):
            stored = None if tensor is None else subject.graph.weights.get(tensor.name)
            if stored is not None and len(stored.shape) > 1:
                try:
                    return _share(node, number, stored.array())
                except ModelError:  # elements outside, or none at all
                    return 0.0
    return 0.0


def _share(node: Node, number: int, mask: Any) -> float:
    """The share of a mask that takes scores out, by the operator that it is an input of."""
    if node.op == "Where" and number == 0:
        other = node.input(2)
        masks_true = other.resolved and other.numel > 1
        return float(mask.mean() if masks_true else 1 - mask.mean())
    return float((mask <= MASKED).mean()) if node.op == "Add" and mask.dtype.kind == "f" else 0.0
