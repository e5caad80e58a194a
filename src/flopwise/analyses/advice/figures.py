"""Costs of operators that stand in a model, or would stand in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flopwise.analyses.timing.bound import BoundRow, bound_row
from flopwise.analyses.timing.quantities import Work, works
from flopwise.conventions import get
from flopwise.graph import STORED, Graph, Node
from flopwise.profiles.count import profile_graph

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device
    from flopwise.profiles.profile import Profile


@dataclass(frozen=True)
class Place:
    """The device that times are computed for."""

    device: Device
    threads: int | None = None

    def row(self, name: str, op: str, work: Work) -> BoundRow:
        """The least time of some work."""
        return bound_row(name, op, work, self.device, self.threads)


@dataclass(frozen=True)
class Figures:
    """Multiply-adds, bytes read and written, and nanoseconds by the roofline of each operator (0 without a device)."""

    macs: int = 0
    nbytes: int = 0
    ns: float = 0.0

    def __sub__(self, other: Figures) -> Figures:
        return Figures(self.macs - other.macs, self.nbytes - other.nbytes, self.ns - other.ns)

    def __add__(self, other: Figures) -> Figures:
        return Figures(self.macs + other.macs, self.nbytes + other.nbytes, self.ns + other.ns)


def total(figures: Iterable[Figures]) -> Figures:
    """The figures added up."""
    return sum(figures, Figures())


def of_profile(profile: Profile, place: Place | None) -> dict[int, Figures]:
    """Position in ``Graph.nodes`` -> the figures of its operator; those without a count move and multiply nothing."""
    positions = {id(node): position for position, node in enumerate(profile.graph.nodes)}
    figures: dict[int, Figures] = {}
    for row, work in zip(profile.rows, works(profile), strict=True):
        position = positions.get(id(row.node))
        if position is not None:
            figures[position] = figures.get(position, Figures()) + _figures(row.name, row.node.op, work, place)
    return figures


def of_nodes(nodes: Sequence[Node], place: Place | None) -> Figures:
    """The figures of operators that are in no model yet."""
    if not nodes:
        return Figures()
    made = {t.name for node in nodes for t in node.known_outputs}
    taken = {t.name: t for node in nodes for t in node.known_inputs if t.name not in made and t.kind not in STORED}
    outputs = tuple(t for node in nodes for t in node.known_outputs)
    graph = Graph("", "onnx", "", tuple(taken.values()), outputs, tuple(nodes))
    return total(of_profile(profile_graph(graph, get("flops"), folding=False), place).values())


def _figures(name: str, op: str, work: Work, place: Place | None) -> Figures:
    ns = 0.0 if place is None else place.row(name, op, work).roofline_ns or 0.0
    return Figures(work.macs or 0, work.nbytes or 0, ns)
