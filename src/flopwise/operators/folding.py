"""Operators that depend on weights and constants only, and the stored tensors that the others use, with their bytes.

Of a file they run when the model is loaded, not in every inference; of a program in each call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from flopwise.graph import STORED, Graph, Kind, Node, Tensor
from flopwise.graph.dtypes import has_width, is_float
from flopwise.operators.operator import Effect, Operator
from flopwise.operators.own import with_rows_of_graph
from flopwise.operators.tables import row

#: Effects of operators that are never folded, whatever flows into them.
_AGAIN: frozenset[Effect] = frozenset({"random", "bodies"})

#: The attribute of an operator that writes into what it takes, so that it runs in every inference.
WRITES = "writes"


class Folding(NamedTuple):
    """The folded operators of a graph, and what stands behind each of their results."""

    #: Positions in ``graph.nodes`` of the folded operators.
    positions: frozenset[int]
    #: Name of a folded result -> the stored tensors it is made of.
    sources: dict[str, tuple[Tensor, ...]]

    def stored(self, node: Node) -> tuple[Tensor, ...]:
        """The stored tensors that a node uses, directly or through folded operators, in order and each once.

        Operators of classical machine learning keep theirs in attributes.
        """
        tensors: dict[str, Tensor] = {}  # a list would double with each operator that takes one result twice
        for tensor in node.known_inputs:
            if tensor.name in self.sources:
                tensors.update((t.name, t) for t in self.sources[tensor.name])
            elif tensor.kind in STORED:
                tensors[tensor.name] = tensor
        if node.op.startswith(f"{CLASSICAL}::"):
            tensors.update((t.name, t) for t in in_attributes(node))
        return tuple(tensors.values())

    def only(self, graph: Graph, chosen: Callable[[Node], bool]) -> Folding:
        """The folding of the chosen operators alone; the others become layers and own what they use."""
        positions = frozenset(p for p in self.positions if chosen(graph.nodes[p]))
        results = {t.name for p in positions for t in graph.nodes[p].known_outputs}
        return Folding(positions, {name: behind for name, behind in self.sources.items() if name in results})

    def varies(self, tensor: Tensor) -> bool:
        """True where a tensor changes from one inference to the next."""
        return tensor.kind not in STORED and tensor.name not in self.sources


#: The domain of classical machine learning.
CLASSICAL = "ai.onnx.ml"

#: Operators whose numbers are trained; those of the others are statistics and tables.
_MODELS = ("TreeEnsemble", "Linear", "SVM")


def in_attributes(node: Node) -> Iterator[Tensor]:
    """The tensors and lists of numbers in a node's attributes as stored tensors.

    Weights are the floats of models; what shapes their trees, and statistics and tables, are buffers.
    """
    model = node.op.partition("::")[2].startswith(_MODELS)
    owner = node.name or next((tensor.name for tensor in node.known_outputs), node.op)
    for name, held in node.attrs.items():
        if isinstance(held, (list, tuple)) and held and all(isinstance(one, (int, float)) for one in held):
            floating = any(isinstance(one, float) for one in held)
            held = Tensor("", (len(held),), "float32" if floating else "int64")
        if isinstance(held, Tensor) and has_width(held.dtype):
            kind: Kind = "weight" if model and is_float(held.dtype) else "buffer"
            yield replace(held, name=f"{owner}.{name}", kind=kind)


def fold(graph: Graph) -> Folding:
    """The operators of a graph that do not run in an inference, as their results are known before the first.

    Of a program that is charged what each call executes these are views of stored tensors, questions about shapes, and
    what it counts along (the batches that a normalisation has seen).
    """
    return constant(graph, graph.program.each_call)


@with_rows_of_graph
def constant(graph: Graph, runs: bool = False) -> Folding:
    """The operators of a graph that depend on stored tensors and shapes only, wherever they run.

    Args:
        graph: the graph.
        runs: whether those are left out that compute something of stored tensors.
    """
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
            foldable = False
            for tensor in node.inputs:
                if tensor is not None:
                    foldable = tensor.kind in STORED or tensor.name in sources
                    if not foldable:
                        break
            if not foldable or node.attrs.get(WRITES):  # something varies, nothing is taken, or a stored tensor changes
                continue
            if runs and not (_is_view(entry, node) or _is_counter(node)):
                continue
            behind = folding.stored(node)
        positions.add(position)
        sources.update((t.name, behind) for t in node.known_outputs)
    return Folding(frozenset(positions), sources)


def _is_view(entry: Operator, node: Node) -> bool:
    """True where an operator gives elements of its first input as they lie in memory."""
    if "strided" in entry.effects:
        return True
    before, after = node.inputs[0], node.outputs[0]
    if entry.view is None or before is None or after is None or before.dtype != after.dtype:
        return False
    return before.resolved and after.resolved and before.numel == after.numel and entry.view(node)


def _is_counter(node: Node) -> bool:
    """True where all that an operator gives are single whole numbers."""
    return all(
        t.resolved and t.numel == 1 and t.dtype is not None and not is_float(t.dtype) for t in node.known_outputs
    )


def stored_tensors(graph: Graph) -> Iterator[Tensor]:
    """The weights, buffers and constant tables that operators use, each once, in the order of their first use.

    Scalars and integers that only steer shapes are left out.
    """
    folding = fold(graph)
    names: set[str] = set()
    for position, node in enumerate(graph.nodes):
        if position in folding.positions:
            continue
        for tensor in folding.stored(node):
            if tensor.name not in names:
                names.add(tensor.name)
                if occupies(tensor):
                    yield tensor


def occupies(tensor: Tensor) -> bool:
    """True where a stored tensor counts as weight memory: all but scalars and the integers that only steer shapes."""
    return tensor.kind != "constant" or (is_float(tensor.dtype) and bool(tensor.shape))


def weight_bytes_by_dtype(graph: Graph) -> dict[str, int | None]:
    """Element type -> bytes of the stored tensors of that type, the most first; None where a shape is missing."""
    sizes: dict[str, int | None] = {}
    for tensor in stored_tensors(graph):
        key = tensor.dtype or "unknown"
        so_far = sizes.get(key, 0)
        sizes[key] = None if so_far is None or not tensor.sized else so_far + tensor.nbytes
    return dict(sorted(sizes.items(), key=lambda item: -(item[1] or 0)))
