"""How many bytes an operator reads and writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from flopwise.graph import Node, Tensor
from flopwise.memory.views import shared

#: Operators that look at the shape of their input only.
_ASKS_SHAPE: frozenset[str] = frozenset({"Shape", "Size", "ConstantOfShape", "SequenceLength"})

#: Operators that pick elements of their first input: they read as many of its bytes as they write.
_PICKS: frozenset[str] = frozenset(
    {"Gather", "GatherElements", "GatherND", "Slice", "Crop", "com.microsoft::GatherBlockQuantized"}
)


class Traffic(NamedTuple):
    """Bytes moved by one run of an operator; None when a shape is missing."""

    read: int | None
    written: int | None


def traffic(node: Node) -> Traffic:
    """Bytes of the inputs, stored ones included and each once, and bytes of the outputs.

    A view moves nothing. An operator that picks elements reads as many bytes as it writes, and its indices. An If hands
    on what its branch makes. Caches are not modelled: what does not fit in them is moved more often, and what two
    neighbours share may be moved less.
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
    given = {t.name: t for t in node.inputs if t is not None}
    if node.op not in _PICKS or not node.has_input(0):
        return Traffic(_bytes(given.values()), written)
    source = given.pop(node.input(0).name)
    whole, rest = _bytes([source]), _bytes(given.values())
    if whole is None or rest is None or written is None:
        return Traffic(None, written)
    return Traffic(min(whole, written) + rest, written)


def _bytes(tensors: Iterable[Tensor]) -> int | None:
    total = 0
    for tensor in tensors:
        if not tensor.sized:
            return None
        total += tensor.nbytes
    return total
