"""Memory that a program reads although nothing that was seen has written into it: what filled it is unknown.

A program makes an empty tensor for the result of a kernel, and calls the kernel in a way that PyTorch does not see: an
extension in C++, numpy with ``out=``, a compiled function that takes addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flopwise.graph import Node, Tensor
from flopwise.operators.tables import row
from flopwise.readers.torch.capture.event import UNSEEN, Event
from flopwise.readers.torch.capture.writes import OUT
from flopwise.readers.torch.lower.node import tensors
from flopwise.readers.torch.lower.operators import UNSEEN_OPERATOR

#: Functions whose result holds whatever was in memory.
_EMPTY = frozenset(
    f"aten.{name}"
    for name in ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")
)


def filled_unseen(events: Sequence[Event], nodes: Sequence[Node]) -> tuple[list[Node], list[str]]:
    """An operator of unknown cost for each empty tensor that another operator computes with, and a note on it.

    Args:
        events: the operations of a run.
        nodes: the same as operators of the graph.
    """
    #: Names of empty tensors and of all that was made of them without computing -> the operator that made the memory.
    empty: dict[str, Node] = {}
    readers: dict[str, tuple[Node, str]] = {}
    for event, node in zip(events, nodes, strict=True):
        if event.plan.name in _EMPTY:
            empty.update((t.name, node) for t in node.known_outputs if t.numel)
        elif empty and event.plan.way != "like":
            read = [t.name for t in _read(event) if t.name in empty]
            claim = row(node.op).claim if read else "unknown"
            if claim == "nothing":
                if all(t.name in empty for t in node.known_inputs if t.shape):
                    empty.update((t.name, empty[read[0]]) for t in node.known_outputs)
            elif claim != "unknown":
                for name in read:
                    readers.setdefault(empty[name].name, (empty[name], node.name))
    unseen = [
        Node(UNSEEN_OPERATOR, f"{maker.name} (filled)", maker.outputs, (), {}, maker.scope, UNSEEN.name, via=maker.via)
        for maker, _ in readers.values()
    ]
    notes = [
        f"{reader!r} reads the memory that {maker.name!r} made, and no operation that flopwise sees has filled it "
        "(an extension in C++, numpy, another thread): what did is not counted"
        for maker, reader in readers.values()
    ]
    return unseen, notes


def _read(event: Event) -> Iterator[Tensor]:
    """The tensors whose elements an operation reads: all but those that it writes into, or multiplies by 0."""
    writes = {OUT.name, *(target.name for target in event.plan.writes)}
    places = {target.position for target in event.plan.writes}
    if event.kwargs.get("beta") == 0:  # torch.addmm and the like
        places.add(0)
        writes.add("input")
    yield from tensors(*[a for place, a in enumerate(event.args) if place not in places])
    yield from tensors(*[a for name, a in event.kwargs.items() if name not in writes])
