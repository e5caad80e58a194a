"""Activation checkpointing: stretches of a program whose results are thrown away and computed once more going back.

PyTorch stops computing anew as soon as all tensors are there that the gradients need (torch.utils.checkpoint,
``early_stop``); the older, reentrant form runs the whole stretch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flopwise.graph import STORED, Graph, Node, Tensor

#: The entry in ``Node.via`` of what runs in a checkpoint, followed by the number of the call.
ENTRY = "torch.utils.checkpoint.checkpoint#"

#: The attribute of a node with the entries of the selective checkpoints that keep its results.
CACHED = "cached"

#: How the entry of a checkpoint ends that runs the whole stretch: a reentrant one, or one that does not stop early.
REENTRANT = ":reentrant"


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoints:
    """The changes that checkpoints make to a training step."""

    #: Position in ``Graph.nodes`` -> how often the operator runs once more.
    again: dict[int, int] = field(default_factory=dict)
    #: Positions of the operators of which nothing is kept.
    inside: frozenset[int] = frozenset()
    #: Position of the first operator of a stretch -> the tensors that enter it, which are kept instead.
    entering: dict[int, tuple[Tensor, ...]] = field(default_factory=dict)


def checkpoints(
    graph: Graph, wrt: Sequence[frozenset[int]], keeps: Callable[[int], Sequence[Tensor | int]]
) -> Checkpoints:
    """The checkpoints of a program.

    Args:
        graph: the program.
        wrt: for each node the places of the inputs whose gradient is made.
        keeps: position of a node -> what its gradient needs.
    """
    stretches: dict[str, list[int]] = {}
    outer: dict[str, list[int]] = {}
    for position, node in enumerate(graph.nodes):
        entries = [entry for entry in node.via if entry.startswith(ENTRY)]
        for entry in entries:
            stretches.setdefault(entry, []).append(position)
        if entries:
            outer.setdefault(entries[0], []).append(position)
    again: dict[int, int] = {}
    for entry, positions in stretches.items():
        if any(wrt[p] for p in positions):
            for position in _repeated(graph, positions, entry, wrt, keeps):
                if entry not in graph.nodes[position].attrs.get(CACHED, ()):
                    again[position] = again.get(position, 0) + 1
    entering = {p[0]: _entering(graph, p) for p in outer.values() if any(wrt[q] for q in p)}
    return Checkpoints(again, frozenset(q for p in outer.values() for q in p), entering)


def _repeated(
    graph: Graph,
    positions: Sequence[int],
    entry: str,
    wrt: Sequence[frozenset[int]],
    keeps: Callable[[int], Sequence[Tensor | int]],
) -> Sequence[int]:
    """The operators of one stretch that run again, or are looked up where the checkpoint keeps them."""
    if entry.endswith(REENTRANT):
        return positions
    for index in range(len(positions) - 1, -1, -1):
        if inner := _inner(graph.nodes[positions[index]], entry):
            if any(wrt[p] for p in positions if _inner(graph.nodes[p], entry) == inner):  # it needs what enters it
                return [p for p in positions if p < positions[index] and _inner(graph.nodes[p], entry) != inner]
            continue
        needed = keeps(positions[index]) if wrt[positions[index]] else ()
        if needed:
            names = {t.name for t in graph.nodes[positions[index]].known_inputs}
            result = any(isinstance(t, int) or t.name not in names for t in needed)
            return positions[: index + 1] if result else positions[:index]
    return ()


def _inner(node: Node, entry: str) -> str:
    """The checkpoint right inside another one in which a node runs; "" for none."""
    entries = [one for one in node.via if one.startswith(ENTRY)]
    return next(iter(entries[entries.index(entry) + 1 :]), "")


def _entering(graph: Graph, positions: Sequence[int]) -> tuple[Tensor, ...]:
    """The tensors that a stretch takes from outside, stored ones left out."""
    results: set[str] = set()
    tensors: dict[str, Tensor] = {}
    for position in positions:
        node = graph.nodes[position]
        tensors.update((t.name, t) for t in node.known_inputs if t.kind not in STORED and t.name not in results)
        results.update(t.name for t in node.known_outputs)
    return tuple(tensors.values())
