"""How many bytes of activations are alive at once."""

from __future__ import annotations

from flopwise.folding import fold
from flopwise.graph import Graph

#: Operators whose result can share the storage of their first input.
VIEWS: frozenset[str] = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"})


def peak_activation_bytes(graph: Graph) -> int | None:
    """Largest sum of bytes of live activations over the execution order; None when a shape is missing.

    A tensor lives from the operator that makes it to its last use; the model's inputs live from the start, its outputs
    to the end. A view shares its input's storage. Stored tensors are no activations.
    """
    folding = fold(graph)
    storage: dict[str, str] = {}  # tensor -> the tensor whose storage it uses
    size: dict[str, int] = {}
    last_use: dict[str, int] = {}
    runs = [(i, n) for i, n in enumerate(graph.nodes) if i not in folding.positions]

    for tensor in graph.inputs:
        if tensor.shape is None:
            return None
        storage[tensor.name] = tensor.name
        size[tensor.name] = tensor.nbytes
        last_use[tensor.name] = -1
    for step, node in runs:
        for tensor in node.known_inputs:
            if tensor.name in storage:
                last_use[storage[tensor.name]] = step
        for index, tensor in enumerate(node.known_outputs):
            if tensor.shape is None:
                return None
            first = node.inputs[0].name if node.inputs and node.inputs[0] is not None else ""
            if node.op in VIEWS and index == 0 and first in storage:
                storage[tensor.name] = storage[first]
            else:
                storage[tensor.name] = tensor.name
                size[tensor.name] = tensor.nbytes
                last_use[tensor.name] = step
    end = len(graph.nodes)
    for tensor in graph.outputs:
        if tensor.name in storage:
            last_use[storage[tensor.name]] = end

    dying: dict[int, int] = {}
    for name, step in last_use.items():
        dying[step] = dying.get(step, 0) + size[name]
    alive = sum((size[t.name] for t in graph.inputs), 0)
    peak = alive
    alive -= dying.get(-1, 0)
    for step, node in runs:
        alive += sum((size[t.name] for t in node.known_outputs if storage[t.name] == t.name), 0)
        peak = max(peak, alive)
        alive -= dying.get(step, 0)
    return peak
