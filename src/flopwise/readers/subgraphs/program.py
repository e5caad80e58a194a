"""The subgraphs of a file as the program that the one engine of sizes takes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from flopwise.formats.sources.source import Source
from flopwise.graph import Layout
from flopwise.operators.operator import Operator as Row
from flopwise.operators.shape import Element
from flopwise.readers.subgraphs.lowered import Lowered
from flopwise.readers.subgraphs.tensors import Extent, Operator, Tensor
from flopwise.sizes.facts import LARGEST_VALUE, Fact
from flopwise.sizes.run import Pass, Results
from flopwise.sizes.site import Site

#: How the elements of small stored tensors are read.
KINDS = {
    "float32": "f",
    "float16": "e",
    "float64": "d",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "bool": "?",
}

#: Where the elements of a tensor lie that has none.
NOWHERE = Extent(0, 0)


class Name(NamedTuple):
    """An input or output of a subgraph."""

    name: str
    type: None = None


class Stored(NamedTuple):
    """A stored tensor of a subgraph."""

    name: str
    dtype: str
    dims: tuple[int, ...]
    data: Extent


class Attributes(NamedTuple):
    """The attributes of a node, bodies included."""

    values: Mapping[str, object]


class Node(NamedTuple):
    """An operator of a subgraph."""

    #: As no other node has it.
    operation: object
    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Attributes
    version: int
    #: The operator of the file, and what it is in the house.
    operator: Operator
    lowered: Lowered
    #: Element types of the results, as the file states them.
    dtypes: tuple[str | None, ...]
    #: What the file's inputs are, whichever of them ``inputs`` has.
    given: tuple[str, ...]

    @property
    def first_output(self) -> str:
        """The name of the first output that the node makes; "" if it makes none."""
        return next(filter(None, self.outputs), "")


@dataclass(frozen=True, eq=False)
class Graph:
    """A subgraph."""

    number: int
    nodes: tuple[Node, ...]
    inputs: tuple[Name, ...]
    outputs: tuple[Name, ...]
    initializers: Mapping[str, Stored]
    #: The file's tensors by their names in the program.
    tensors: Mapping[str, Tensor]
    #: Its operators, with those of the subgraphs that they run.
    operators: int


def unpacked(stored: Stored, source: Source) -> tuple[Element, ...] | None:
    """The elements of a small stored tensor; None for one that is large, or not stored as its type says."""
    kind, nbytes = KINDS.get(stored.dtype), stored.data.end - stored.data.start
    if kind is None or nbytes > 8 * LARGEST_VALUE:
        return None
    form = f"<{nbytes // struct.calcsize(f'<{kind}')}{kind}"
    if struct.calcsize(form) != nbytes:
        return None
    return struct.unpack(form, source.read(stored.data.start, nbytes))


class LayoutPass(Pass):
    """The pass over a program whose nodes may keep axes in other orders than their rules."""

    def applied(self, known: Row, site: Site, valued: bool) -> Results:
        node: Any = site.surroundings.node
        lowered: Lowered = node.lowered
        if lowered.shape is not None:
            known = known._replace(shape=lowered.shape, value=lowered.value)
            valued = lowered.value is not None and all(fact.elements is not None for fact in site.given)
        layout = lowered.layout if lowered.layout and not lowered.as_in_file else Layout()
        site.given = tuple([self._turned(fact, *order) for fact, order in _with(site.given, layout.inputs)])
        results = super().applied(known, site, valued)
        back = [tuple(sorted(range(len(order)), key=order.__getitem__)) if order else None for order in layout.outputs]
        facts = [self._turned(fact, *order) for fact, order in _with(results.facts, back)]
        typed = [self._typed(fact, dtype) for fact, dtype in zip(facts, node.dtypes, strict=True)]
        return results._replace(facts=tuple(typed))

    def _turned(self, fact: Fact, *order: int) -> Fact:
        """A fact with its axes in another order; itself where it has other axes."""
        if not order or fact.shape is None or len(fact.shape) != len(order):
            return fact
        return self.facts.tensor(fact.dtype, tuple([fact.shape[axis] for axis in order]))

    def _typed(self, fact: Fact, dtype: str | None) -> Fact:
        """A fact with the element type that the file states."""
        if fact.kind != "tensor" or fact.dtype == dtype:
            return fact
        plain = self.facts.tensor(dtype, fact.shape)
        return plain if fact.elements is None else self.facts.constant(plain, fact.elements)


def _with(facts: Sequence[Fact], orders: Sequence[tuple[int, ...] | None]) -> list[tuple[Fact, tuple[int, ...]]]:
    """Each fact with the order of its axes; () where they are in order."""
    return [(fact, (orders[place] if place < len(orders) else None) or ()) for place, fact in enumerate(facts)]
