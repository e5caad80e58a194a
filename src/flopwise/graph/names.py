"""Names of layers, for operators that have none of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from flopwise.graph.graph import Node


def layer_names(nodes: Sequence[Node]) -> list[str]:
    """A name for each node: its own, or the operator in lower case with its running number (``conv_3``)."""
    seen: Counter[str] = Counter()
    names: list[str] = []
    for node in nodes:
        seen[node.op] += 1
        names.append(node.name or f"{node.op.rpartition('::')[2].lower()}_{seen[node.op]}")
    return names
