"""Pairs of a query and a key that an attention operator by operator uses, by the masks that are stored."""

from __future__ import annotations

from flopwise.analyses.advice.subject import Subject, argument, chain
from flopwise.errors import ModelError
from flopwise.graph import Node, Tensor
from flopwise.graph.stored import Array
from flopwise.memory.attention import TRIANGLE, Unfused, is_flags, makes_flags
from flopwise.operators.tables import row

#: What is added to a masked score is less than this.
MASKED = -1e4


def pairs_used(subject: Subject, attention: Unfused) -> int:
    """Pairs that its mask leaves; all of them where no mask is known."""
    if attention.left is not None:
        return attention.left
    flags = masked_pairs(subject, attention)
    return attention.pairs if flags is None else attention.pairs - round(float(flags.mean()) * attention.pairs)


def is_causal(flags: Array) -> bool:
    """True where exactly the keys behind each query are masked."""
    import numpy as np

    queries, keys = flags.shape[-2:]
    return bool((flags == ~np.tri(queries, keys, keys - queries, dtype=bool)).all())


def masked_pairs(subject: Subject, attention: Unfused) -> Array | None:
    """Which pairs a stored mask between the scores and their Softmax takes out; None where none is stored."""
    scores = subject.nodes[attention.scores[0]].output()
    positions, _ = chain(subject, scores, lambda node, _: row(node.op).in_place)
    for position in positions:
        node = subject.nodes[position]
        for number, tensor in enumerate(node.inputs):
            mask = None if tensor is None else _elements(subject, tensor)
            if mask is not None and mask.ndim > 1:
                return _flags(node, number, mask)
    return None


def relates_positions(subject: Subject, attention: Unfused) -> bool:
    """True where a mask holds queries against keys: by a triangle, or by a comparison over both axes."""
    scores = subject.nodes[attention.scores[0]].output()
    positions, last = chain(subject, scores, lambda node, _: row(node.op).in_place)
    behind = [*positions, *([] if last is None else [last[0]])]
    tensors = [tensor for position in behind for tensor in subject.nodes[position].known_inputs]
    seen = {scores.name, *(t.name for p in behind for t in subject.nodes[p].known_outputs)}
    while tensors:
        tensor = tensors.pop()
        if tensor.name in seen:
            continue
        seen.add(tensor.name)
        maker = subject.maker(tensor)
        both = tensor.shape is not None and len(tensor.shape) > 1 and 1 not in tensor.shape[-2:]
        if both and (is_flags(tensor) if maker is None else maker[1].op == TRIANGLE or makes_flags(maker[1])):
            return True
        tensors += () if maker is None or row(maker[1].op).inputs.has_factors else maker[1].known_inputs
    return False


def _elements(subject: Subject, tensor: Tensor) -> Array | None:
    """The elements of a stored mask, or of what is cut out of one, negated or compared; None for others."""
    stored = subject.graph.weights.get(tensor.name)
    if stored is not None:
        try:
            return stored.array()
        except ModelError:  # elements outside, or none at all
            return None
    maker = subject.maker(tensor)
    if maker is None or maker[0] not in subject.folding.positions or not maker[1].known_inputs:
        return None
    node, elements = maker[1], _elements(subject, maker[1].known_inputs[0])
    if elements is None:
        return None
    if node.op in ("Not", "BitwiseNot") and elements.dtype == bool:
        return ~elements
    if node.op == "Equal" and isinstance(number := argument(node, "other"), int | float):
        equal: Array = elements == number
        return equal
    if node.origin == "aten.getitem" and isinstance(cut := argument(node, "arg1"), tuple):
        part: Array | None = elements[cut] if all(isinstance(one, slice) for one in cut) else None
        return part
    return None


def _flags(node: Node, number: int, mask: Array) -> Array | None:
    """The pairs that a mask takes out, by the operator that it is an input of."""
    if node.op == "Where" and number == 0:
        masks_true = not node.has_input(2) or (node.input(2).resolved and node.input(2).numel > 1)
        return mask if masks_true else ~mask
    return mask <= MASKED if node.op == "Add" and mask.dtype.kind == "f" else None
