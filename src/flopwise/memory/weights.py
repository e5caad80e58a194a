"""The stored tensors that an inference uses, and their bytes."""

from __future__ import annotations

from collections.abc import Iterator

from flopwise.graph import Graph, Tensor
from flopwise.graph.dtypes import is_float
from flopwise.operators.folding import fold


def stored_tensors(graph: Graph) -> Iterator[Tensor]:
    """The weights, buffers and constant tables that operators use, each once, in the order of their first use.

    Scalars and integers that only steer shapes are left out.
    """
    folding = fold(graph)
    seen: set[str] = set()
    for position, node in enumerate(graph.nodes):
        if position in folding.positions:
            continue
        for tensor in folding.stored(node):
            if tensor.name not in seen:
                seen.add(tensor.name)
                if tensor.kind != "constant" or (is_float(tensor.dtype) and tensor.shape):
                    yield tensor


def weight_bytes_by_dtype(graph: Graph) -> dict[str, int | None]:
    """Element type -> bytes of the stored tensors of that type, the most first; None where a shape is missing."""
    sizes: dict[str, int | None] = {}
    for tensor in stored_tensors(graph):
        key = tensor.dtype or "unknown"
        so_far = sizes.get(key, 0)
        sizes[key] = None if so_far is None or not tensor.sized else so_far + tensor.nbytes
    return dict(sorted(sizes.items(), key=lambda item: -(item[1] or 0)))
