"""Which operators depend on weights and constants only: they run when a model is loaded, not in every inference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flopwise.graph import STORED, Graph, Node, Tensor
from flopwise.operators.operator import Effect, Operator
from flopwise.operators.own import with_rows_of_graph
from flopwise.operators.tables import row

#: Effects of operators that are never folded, whatever flows into them.
_AGAIN: frozenset[Effect] = frozenset({"random", "bodies"})


@dataclass(frozen=True, slots=True, eq=False)
class Folding:
    """The folded operators of a graph, and what stands behind each of their results."""

    #: Positions in ``graph.nodes`` of the folded operators.
    positions: frozenset[int]
    #: Name of a folded result -> the stored tensors it is made of.
    sources: dict[str, tuple[Tensor, ...]]

    def stored(self, node: Node) -> tuple[Tensor, ...]:
        """The stored tensors that a node uses, directly or through folded operators, in order and each once."""
        tensors: dict[str, Tensor] = {}  # a list would double with each operator that takes one result twice
        for tensor in node.known_inputs:
            if tensor.name in self.sources:
                tensors.update((t.name, t) for t in self.sources[tensor.name])
            elif tensor.kind in STORED:
                tensors[tensor.name] = tensor
        return tuple(tensors.values())

    def only(self, graph: Graph, chosen: Callable[[Node], bool]) -> Folding:
        """The folding of the chosen operators alone; the others become layers and own what they use."""
        positions = frozenset(p for p in self.positions if chosen(graph.nodes[p]))
        made = {t.name for p in positions for t in graph.nodes[p].known_outputs}
        return Folding(positions, {name: behind for name, behind in self.sources.items() if name in made})

    def varies(self, tensor: Tensor) -> bool:
        """Whether a tensor changes from one inference to the next."""
        return tensor.kind not in STORED and tensor.name not in self.sources


@with_rows_of_graph
def fold(graph: Graph) -> Folding:
    """The operators of a graph whose results are known before the first inference."""
    positions: set[int] = set()
    sources: dict[str, tuple[Tensor, ...]] = {}
    folding = Folding(frozenset(), sources)
    rows: dict[str, Operator] = {}
    for position, node in enumerate(graph.nodes):
        stored = any_output = False
        for tensor in node.outputs:
            if tensor is not None:
                any_output = True
                stored = tensor.kind in STORED
                if not stored:
                    break
        if stored:  # the operator is how the file spells a stored tensor
            positions.add(position)
            continue
        entry = rows.get(node.op)
        if entry is None:
            entry = rows[node.op] = row(node.op)
        if "shape query" in entry.effects and node.has_input(0) and node.input(0).shape is not None:
            if node.input(0).bound:  # the data decide the shape
                continue
            behind: tuple[Tensor, ...] = ()
        elif not any_output or not entry.effects.isdisjoint(_AGAIN):
            continue
        else:
            taken = False
            for tensor in node.inputs:
                if tensor is not None:
                    taken = tensor.kind in STORED or tensor.name in sources
                    if not taken:
                        break
            if not taken:  # by something that varies, or there is no input
                continue
            behind = folding.stored(node)
        positions.add(position)
        sources.update((t.name, behind) for t in node.known_outputs)
    return Folding(frozenset(positions), sources)
