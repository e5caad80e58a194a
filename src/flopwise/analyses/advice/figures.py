"""Costs of operators that stand in a model, or would stand in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flopwise.analyses.timing.bound import BoundRow, bound_row
from flopwise.analyses.timing.quantities import Work, as_stored, works
from flopwise.analyses.training import train
from flopwise.conventions import get
from flopwise.graph import STORED, Graph, Node, Tensor
from flopwise.profiles.count import profile_graph

if TYPE_CHECKING:
    from flopwise.analyses.timing.device import Device
    from flopwise.profiles.profile import Profile
    from flopwise.rows import Row


@dataclass(frozen=True)
class Place:
    """The device that times are computed for."""

    device: Device
    threads: int | None = None

    def row(self, name: str, op: str, work: Work) -> BoundRow:
        """The time of some work by its roofline: on a CPU without faster types that its engines use on demand alone."""
        stated = as_stored(work) if self.device.kind == "cpu" else work
        return bound_row(name, op, stated, self.device, self.threads)


@dataclass(frozen=True)
class Figures:
    """Costs of operators.

    Of a training step, multiply-adds are those of both passes, bytes and times those of the forward pass.
    """

    macs: int = 0
    #: Bytes read and written.
    nbytes: int = 0
    #: Nanoseconds by the roofline of each operator; 0 without a device.
    ns: float = 0.0
    #: Bytes kept for the backward pass; 0 without one.
    kept: int = 0

    def __sub__(self, other: Figures) -> Figures:
        return Figures(self.macs - other.macs, self.nbytes - other.nbytes, self.ns - other.ns, self.kept - other.kept)

    def __add__(self, other: Figures) -> Figures:
        return Figures(self.macs + other.macs, self.nbytes + other.nbytes, self.ns + other.ns, self.kept + other.kept)


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
            figures[position] = figures.get(position, Figures()) + _figures(row, work, place)
    return figures


def of_nodes(nodes: Sequence[Node], place: Place | None, asks: Collection[str] | None = None) -> Figures:
    """The figures of operators that are in no model yet.

    Args:
        nodes: the operators.
        place: the device that times are computed for.
        asks: of a training step, the tensors that ask for a gradient; None where no backward pass is counted.
    """
    if not nodes:
        return Figures()
    made = {t.name for node in nodes for t in node.known_outputs}
    taken = {t.name: t for node in nodes for t in node.known_inputs if t.name not in made and t.kind not in STORED}
    outputs = tuple(t for node in nodes for t in node.known_outputs)
    if asks is None:
        graph = Graph("", "onnx", "", tuple(taken.values()), outputs, tuple(nodes))
        return total(of_profile(profile_graph(graph, get("flops"), folding=False), place).values())
    # a tensor that comes from a weight asks for its gradient
    asking = {name: Tensor(f"{name}.source", t.shape, t.dtype, "weight") for name, t in taken.items() if name in asks}
    given = [Node("Identity", name, (source,), (taken[name],)) for name, source in asking.items()]
    inputs = tuple(t for name, t in taken.items() if name not in asks)
    graph = Graph("", "onnx", "", inputs, outputs, (*given, *nodes))
    counted = train(profile_graph(graph, get("flops"), folding=False))
    return total(of_profile(counted, place).values())


def _figures(row: Row, work: Work, place: Place | None) -> Figures:
    ns = 0.0 if place is None else place.row(row.name, row.node.op, work).roofline_ns or 0.0
    return Figures((work.macs or 0) + (row.backward_macs or 0), work.nbytes or 0, ns, row.saved_bytes or 0)
