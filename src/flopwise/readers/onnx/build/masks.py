"""How many pairs of a query and a key a stored mask of an attention leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flopwise.graph import STORED, Node, Tensor
from flopwise.operators.masks import PAIRS

if TYPE_CHECKING:
    from flopwise.graph.stored import StoredTensor

#: Elements up to which a mask is read: one over 4,096 tokens.
_LARGEST = 1 << 24

#: A mask that is added closes a pair when it is this or less: the pair's weight is zero in every element type.
_CLOSED = -10_000.0


def with_masks(nodes: Sequence[Node], weights: Mapping[str, StoredTensor]) -> Iterator[Node]:
    """The nodes; attentions whose mask is stored with the model say how many pairs it leaves.

    Args:
        nodes: the operators.
        weights: the stored tensors.
    """
    masks: dict[str, Any] = {}
    for node in nodes:
        if node.op != "Attention" or not _is_known(node, weights):
            yield node
            continue
        mask = node.input(3)
        if mask.name not in masks:
            masks[mask.name] = weights[mask.name].array()
        yield replace(node, attrs={**node.attrs, PAIRS: _pairs(node, masks[mask.name])})


def _is_known(node: Node, weights: Mapping[str, StoredTensor]) -> bool:
    """Whether the mask of an attention is stored and not too large, and no number of valid keys is an input."""
    if not node.has_input(3) or node.has_input(6):
        return False
    tensors: tuple[Tensor, ...] = (node.input(0), node.input(1), node.input(3), node.output())
    if not all(t.shape is not None and all(isinstance(d, int) for d in t.shape) for t in tensors):
        return False
    mask = node.input(3)
    return mask.kind in STORED and mask.name in weights and mask.numel <= _LARGEST


def _pairs(node: Node, mask: Any) -> int:
    """Pairs that the mask, the causal frontier and the window of an attention leave together, over all heads.

    https://onnx.ai/onnx/operators/onnx__Attention.html
    """
    import numpy

    query, key = node.input(0).dims, node.input(1).dims
    heads = node.attrs.get("q_num_heads", 1) if len(query) == 3 else query[-3]
    past = node.input(4).dims[-2] if node.has_input(4) else 0
    queries, keys = query[-2], key[-2] + past
    left = mask if mask.dtype == bool else mask > _CLOSED
    if left.shape[-1] < keys:  # keys beyond the mask are left out
        left = numpy.pad(left, [(0, 0)] * (left.ndim - 1) + [(0, keys - left.shape[-1])])
    distance = numpy.arange(keys) - (numpy.arange(queries)[:, None] + past)
    before, ahead = (int(node.attrs.get(f"{side}_window_size", -1)) for side in ("left", "right"))
    if node.attrs.get("is_causal", 0):
        left = left & (distance <= 0)
    if before >= 0:
        left = left & (distance >= -before)
    if ahead >= 0:
        left = left & (distance <= ahead)
    left = numpy.broadcast_to(left, numpy.broadcast_shapes(left.shape, (queries, keys)))
    return int(numpy.count_nonzero(left)) * (query[0] * heads * queries * keys // left.size)
