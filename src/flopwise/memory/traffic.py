"""How many bytes an operator reads and writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from flopwise.graph import Node, Tensor
from flopwise.memory.experts import GROUPED
from flopwise.memory.views import shared

#: Operators that look at the shape of their input only.
_ASKS_SHAPE: frozenset[str] = frozenset({"Shape", "Size", "ConstantOfShape", "SequenceLength"})

#: Operators that pick elements of their first input: they read as many of its bytes as they write.
_PICKS: frozenset[str] = frozenset(
    {"Gather", "GatherElements", "GatherND", "Slice", "Crop", "com.microsoft::GatherBlockQuantized"}
)


#: Products of tokens with the weights of the experts that they were routed to.
_EXPERTS: frozenset[str] = GROUPED | {"com.microsoft::MoE", "com.microsoft::QMoE"}


class Traffic(NamedTuple):
    """Bytes moved by one run of an operator; None when a shape is missing."""

    read: int | None
    written: int | None


def traffic(node: Node) -> Traffic:
    """Bytes of the inputs, stored ones included and each once, and bytes of the outputs.

    A view moves nothing. An operator that picks elements reads as many bytes as it writes, and its indices. Of the
    weights of experts no more are read than tokens are routed. An If hands on what its branch makes. Caches are not
    modelled: what does not fit in them is moved more often, and what two neighbours share may be moved less.
    """
    if node.op == "If":
        return Traffic(_bytes(node.known_inputs), 0)
    outputs = node.known_outputs
    views = shared(node)
    if views and not node.origin.endswith("_"):  # what works in place writes what it has read
        outputs = tuple(t for i, t in enumerate(node.outputs) if t is not None and i not in views)
        if not outputs:
            return Traffic(0, 0)
    written = _bytes(outputs)
    if node.op in _ASKS_SHAPE:
        return Traffic(0, written)
    inputs = {t.name: t for t in node.inputs if t is not None}
    if node.op in _EXPERTS:
        return Traffic(_of_experts(node, inputs.values()), written)
    if node.op not in _PICKS or not node.has_input(0):
        return Traffic(_bytes(inputs.values()), written)
    source = inputs.pop(node.input(0).name)
    whole, others = _bytes([source]), _bytes(inputs.values())
    if whole is None or others is None or written is None:
        return Traffic(None, written)
    return Traffic(min(whole, written) + others, written)


def _bytes(tensors: Iterable[Tensor]) -> int | None:
    total = 0
    for tensor in tensors:
        if not tensor.sized:
            return None
        total += tensor.nbytes
    return total


def _of_experts(node: Node, tensors: Iterable[Tensor]) -> int | None:
    """Bytes read by a product with experts: of what all experts have, at most as many shares as tokens are routed."""
    tensors = list(tensors)
    if any(not t.sized for t in tensors) or not node.has_input(1):
        return None
    first, second = node.input(0).dims, node.input(1).dims
    if node.op.startswith("aten::"):
        if len(first) != 2 or len(second) != 3:  # every group has rows of its own
            return _bytes(tensors)
        experts, routed = second[0], first[0]
    else:
        tokens = node.input(0).numel // first[-1] if first and first[-1] else 0
        experts, routed = second[-1], tokens * int(node.attrs.get("k", 1))
    if not isinstance(experts, int) or not isinstance(routed, int):
        return _bytes(tensors)
    stacks = [t for t in tensors if len(t.dims) > 1 and t.dims[0] == experts and t.name != node.input(0).name]
    others = sum(t.nbytes for t in tensors if not any(t is stack for stack in stacks))
    touched: int = sum(t.nbytes // experts for t in stacks) * min(experts, routed) if experts else 0
    return others + touched
