"""How many bytes of activations are alive at once."""

from __future__ import annotations

from collections.abc import Sequence

from flopwise.folding import Folding, fold
from flopwise.graph import Graph, Node, Tensor

#: Operators whose result can share the storage of their first input.
VIEWS: frozenset[str] = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"})


def peak_activation_bytes(graph: Graph) -> int | None:
    """Largest sum of bytes of live activations over the execution order; None when one has no shape, or holds strings.

    A tensor lives from the operator that makes it to its last use; the model's inputs live from the start, its outputs
    to the end. A view shares its input's storage. Stored tensors are no activations. While a body of control flow runs,
    what lives in it comes on top of what lives around it.
    """
    folding = fold(graph)
    made = (t for i, n in enumerate(graph.nodes) if i not in folding.positions for t in n.known_outputs)
    if not all(t.sized for t in (*graph.inputs, *made)):
        return None
    return _Scope(graph, folding, 0).peak(range(len(graph.nodes)), graph.inputs, graph.outputs)


class _Scope:
    """The operators at one depth of control flow; those deeper belong to the operator before them."""

    def __init__(self, graph: Graph, folding: Folding, depth: int) -> None:
        self.graph = graph
        self.folding = folding
        self.depth = depth

    def peak(self, positions: Sequence[int], inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
        """The peak over some positions, with what is alive from the start and what to the end."""
        nodes = self.graph.nodes
        storage: dict[str, str] = {}  # tensor -> the tensor whose storage it uses
        size: dict[str, int] = {}
        last_use: dict[str, int] = {}
        inside: dict[int, list[int]] = {}  # position of an operator -> positions in its bodies
        steps: list[tuple[int, Node]] = []

        for tensor in inputs:
            storage[tensor.name] = tensor.name
            size[tensor.name] = tensor.nbytes
            last_use[tensor.name] = -1
        for position in positions:
            node = nodes[position]
            if len(node.within) > self.depth:
                owner = node.within[self.depth].owner
                inside.setdefault(owner, []).append(position)
                step = owner
            elif position in self.folding.positions:
                continue
            else:
                step = position
                steps.append((position, node))
            for tensor in node.known_inputs:
                if tensor.name in storage:
                    last_use[storage[tensor.name]] = step
            if step != position:
                continue
            for index, tensor in enumerate(node.known_outputs):
                first = node.inputs[0].name if node.inputs and node.inputs[0] is not None else ""
                if node.op in VIEWS and index == 0 and first in storage:
                    storage[tensor.name] = storage[first]
                else:
                    storage[tensor.name] = tensor.name
                    size[tensor.name] = tensor.nbytes
                    last_use[tensor.name] = position
        for tensor in outputs:
            if tensor.name in storage:
                last_use[storage[tensor.name]] = len(nodes)

        dying: dict[int, int] = {}
        for name, step in last_use.items():
            dying[step] = dying.get(step, 0) + size[name]
        alive = sum((size[t.name] for t in inputs), 0)
        peak = alive
        alive -= dying.get(-1, 0)
        for position, node in steps:
            new = sum((size[t.name] for t in node.known_outputs if storage[t.name] == t.name), 0)
            peak = max(peak, alive + new)
            if position in inside:
                held = 0 if node.op == "If" else new  # a branch hands its result on; loops collect theirs
                peak = max(peak, alive + held + self.bodies(inside[position]))
            alive += new - dying.get(position, 0)
        return peak

    def bodies(self, positions: Sequence[int]) -> int:
        """The largest peak of the bodies of one operator."""
        parts: dict[str, list[int]] = {}
        for position in positions:
            parts.setdefault(self.graph.nodes[position].within[self.depth].part, []).append(position)
        deeper = _Scope(self.graph, self.folding, self.depth + 1)
        return max(deeper.peak(p, (), ()) for p in parts.values())
