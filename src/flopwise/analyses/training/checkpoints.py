"""Activation checkpointing: stretches of a program whose results are thrown away and computed once more going back.

PyTorch stops computing anew as soon as all tensors are there that the gradients need (torch.utils.checkpoint,
``early_stop``); the older, reentrant form runs the whole stretch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flopwise.graph import STORED, Graph, Tensor

#: The entry in ``Node.via`` of what runs in a checkpoint, followed by the number of the call.
ENTRY = "torch.utils.checkpoint.checkpoint#"

#: How the entry of a reentrant checkpoint ends.
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
    """The operators of one stretch that run again."""
    if entry.endswith(REENTRANT):
        return positions
    for index in range(len(positions) - 1, -1, -1):
        needed = keeps(positions[index]) if wrt[positions[index]] else ()
        if needed:
            names = {t.name for t in graph.nodes[positions[index]].known_inputs}
            result = any(isinstance(t, int) or t.name not in names for t in needed)
            return positions[: index + 1] if result else positions[:index]
    return ()


def _entering(graph: Graph, positions: Sequence[int]) -> tuple[Tensor, ...]:
    """The tensors that a stretch takes from outside, stored ones left out."""
    results: set[str] = set()
    tensors: dict[str, Tensor] = {}
    for position in positions:
        node = graph.nodes[position]
        tensors.update((t.name, t) for t in node.known_inputs if t.kind not in STORED and t.name not in results)
        results.update(t.name for t in node.known_outputs)
    return tuple(tensors.values())
